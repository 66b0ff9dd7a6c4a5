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
from typer.main import get_command

import lakebed
from lakebed.cli.main import app
from lakebed.core.options import OPTIONS
from lakebed.core.properties import PROPERTIES
from lakebed.metastore import schema
from lakebed.sql.calls import PROCEDURES
from lakebed.sql.runner import _STATEMENTS
from lakebed.sql.system_tables import SYSTEM_TABLES

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


def test_the_reference_has_every_statement_procedure_and_command(generated: dict[str, str]) -> None:
    sql, commands = generated["reference/sql-statements.md"], generated["reference/command-list.md"]
    assert all(f"| `{words[0].partition('|')[0]}" in sql for words, _ in _STATEMENTS)
    assert all(f"| `{name}` |" in sql for name in PROCEDURES)
    assert all(f"| `t${name}` |" in sql for name in SYSTEM_TABLES)
    assert "`DELETE FROM table [AS name] [WHERE condition]`" in sql
    for name, command in get_command(app).commands.items():
        section = commands.partition(f"\n## lakebed {name}\n")[2].partition("\n## ")[0]
        assert (command.help or "").splitlines()[0] in section
        options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
        assert all(name in section for name in options - {"--help"})
