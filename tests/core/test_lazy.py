"""Names that are imported late are the same names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lakebed
import lakebed.metastore


@pytest.mark.parametrize("package", [lakebed, lakebed.metastore], ids=lambda package: package.__name__)
def test_types_and_names_agree(package) -> None:
    """What type checkers are told is what is found: the same names, from the same modules."""
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    told = {
        (alias.name, node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    for name in package.__all__:
        found = getattr(package, name)
        assert (name, found.__module__) in told
    assert set(package.__all__) <= {name for name, _ in told}


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        lakebed.conect  # noqa: B018
    with pytest.raises(ImportError):
        from lakebed import conect  # noqa: F401


def test_importing_lakebed_loads_nothing_heavy() -> None:
    code = "import sys, lakebed; print({'pyarrow', 'polars', 'sqlalchemy', 'sqlglot'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"
