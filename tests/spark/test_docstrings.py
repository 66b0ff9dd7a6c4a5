"""Examples in docstrings that need a Spark session: elsewhere they are passed over, here they run."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import pytest

from lakebed.changes import Changes
from lakebed.spark import register
from lakebed.view import Readable

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "method", [Readable.df, Readable.explain, Changes.df, register], ids=lambda method: method.__qualname__
)
def test_example_runs(method: Callable[..., Any], spark: Any) -> None:
    [found] = doctest.DocTestFinder().find(method, globs={"spark": spark})
    assert found.examples
    for example in found.examples:
        example.options.pop(doctest.SKIP, None)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(found, out=report.append)
    assert not runner.failures, "".join(report)
