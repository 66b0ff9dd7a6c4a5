"""The documentation is true: its examples run, its tables are those of the code, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakebed
from lakebed.core import errors
from lakebed.core.options import describe
from lakebed.core.properties import PROPERTIES

ROOT = Path(__file__).parent.parent
WITH_SPARK = [ROOT / "docs/spark.md", ROOT / "docs/spark-writers.md", ROOT / "docs/streaming.md"]
"""Pages whose examples need a session; tests/spark runs them."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page not in WITH_SPARK)]
ALL_PAGES = [*PAGES, *WITH_SPARK, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)

_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


@every_page
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a page run in order, as one program, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    run_examples(page)


def run_examples(page: Path, **names: object) -> None:
    """Run the examples of a page, which know these names, where the process is."""
    text = page.read_text("utf-8")
    examples = list(_EXAMPLE.finditer(text))
    assert examples
    known: dict[str, object] = {"__name__": page.stem, **names}
    for example in examples:
        # Blank lines before it make the line numbers of a failure those of the page.
        source = "\n" * (text[: example.start(1)].count("\n")) + example[1]
        exec(compile(source, str(page), "exec"), known)


def table_after(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = (ROOT / "docs" / page).read_text("utf-8").partition(f"\n{heading}\n")[2]
    lines = [line for line in section.partition("\n#")[0].splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_options_are_documented() -> None:
    expected = [[name, kind.replace(" | ", ", "), default, text] for name, kind, default, text in describe()]
    assert table_after("configuration.md", "## Options") == expected


def test_table_properties_are_documented() -> None:
    expected = [[p.name, p.default, p.description, p.key] for p in PROPERTIES.values()]
    assert table_after("configuration.md", "## Table properties") == expected


def test_errors_are_documented() -> None:
    page = (ROOT / "docs/errors.md").read_text("utf-8")
    drawn = re.findall(r"^([│├└─ ]*\w+Error)\b", page, re.MULTILINE)
    tree = re.findall(r"^    ([│├└─ ]*\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    assert drawn == tree
    for row in table_after("errors.md", "## What to do"):
        for name in re.findall(r"\w+Error", row[0]):
            assert issubclass(getattr(lakebed, name), lakebed.LakebedError)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in _LINK.findall(page.read_text("utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {path}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


def test_the_demo_runs() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the same numbers from three readers" in done.stdout
