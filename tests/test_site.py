"""The site of the documentation: it is built without a warning, and its reference has all that the code has."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

import lakebed
from lakebed.core.options import OPTIONS
from lakebed.core.properties import PROPERTIES
from lakebed.metastore import schema

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def generated() -> Iterator[dict[str, str]]:
    """The pages that are made from the code."""
    with mock.patch.object(sys, "path", [str(ROOT / "tools/docs"), *sys.path]):
        import hook  # type: ignore[import-not-found]

        assert isinstance(hook, ModuleType)
        yield hook.generated()


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "site/index.html").read_text("utf-8")
    assert "images/architecture.svg" in page
    assert "fonts.googleapis" not in page


def test_the_reference_has_every_exported_name(generated: dict[str, str]) -> None:
    api = generated["reference/api.md"] + generated["reference/api-results.md"] + generated["reference/error-list.md"]
    for name in lakebed.__all__:
        assert f"\n## {name}\n" in api
        thing = getattr(lakebed, name)
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    assert f"\n### {name}.{member}\n" in api


def test_the_reference_shows_signatures_docstrings_and_examples(generated: dict[str, str]) -> None:
    _, _, rest = generated["reference/api.md"].partition("\n### Table.restore\n")
    text = rest.partition("\n### ")[0]
    assert "```python\nrestore(" in text
    assert (inspect.getdoc(lakebed.Table.restore) or "").splitlines()[0].replace("``", "`") in text
    assert "```pycon\n>>> " in text
    assert "``" not in text.replace("```", "")


def test_the_reference_has_every_option_property_and_table(generated: dict[str, str]) -> None:
    options, tables = generated["reference/options.md"], generated["reference/metastore-schema.md"]
    assert all(f"| `{option.name}` |" in options for option in OPTIONS)
    assert all(f"| `{name}` |" in options for name in PROPERTIES)
    for table in schema.metadata.tables.values():
        section = tables.partition(f"\n## {table.name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{column.name}` |" in section for column in table.columns)
