"""Unions of sketches for approximate distinct counts, as Apache DataSketches writes them (in any language).

The package is not a dependency: a table without sketches never needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from lakebed.core.errors import DataError, OptionError
from lakebed.core.merging.functions import Function

_PACKAGE = "datasketches"


def available() -> bool:
    """Whether the package for sketches is installed."""
    return importlib.util.find_spec(_PACKAGE) is not None


def union(function: Function, left: bytes, right: bytes) -> bytes:
    """The sketch of both. Raises OptionError without the package, DataError for bytes that are no sketch."""
    if not available():
        raise OptionError(f"{function.value} needs the package {_PACKAGE!r}", fix=f"pip install {_PACKAGE}")
    library: Any = importlib.import_module(_PACKAGE)
    try:
        if function is Function.THETA_SKETCH:
            return _theta(library, left, right)
        return _hll(library, left, right)
    except (RuntimeError, ValueError, IndexError) as error:
        raise DataError(f"a value of a {function.value} column is not such a sketch: {error}") from error


def _theta(library: Any, left: bytes, right: bytes) -> bytes:
    both = library.theta_union()
    both.update(library.compact_theta_sketch.deserialize(left))
    both.update(library.compact_theta_sketch.deserialize(right))
    return bytes(both.get_result().serialize())


def _hll(library: Any, left: bytes, right: bytes) -> bytes:
    sketches = [library.hll_sketch.deserialize(data) for data in (left, right)]
    both = library.hll_union(max(sketch.lg_config_k for sketch in sketches))
    for sketch in sketches:
        both.update(sketch)
    return bytes(both.get_result(library.tgt_hll_type.HLL_4).serialize_compact())
