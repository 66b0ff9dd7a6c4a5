"""The documentation is true: its examples run, its tables are those of the code, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lakebed
from lakebed.core import errors
from lakebed.core.options import describe
from lakebed.core.properties import PROPERTIES

ROOT = Path(__file__).parent.parent
WITH_SPARK = [ROOT / "docs/spark.md", ROOT / "docs/spark-writers.md", ROOT / "docs/streaming.md"]
"""Pages whose examples need a session; tests/spark runs them."""
WITHOUT_EXAMPLES = {
    ROOT / "docs" / name
    for name in (
        "index.md",
        "benchmarks/peers.md",
        "benchmarks/peers-large.md",
        "explanation/concurrency.md",
        "explanation/consistency.md",
        "explanation/format.md",
        "explanation/settle.md",
        "how-to/clusters.md",
        "how-to/spark-connect.md",
    )
}
"""Pages that have nothing to run: what they tell is shown elsewhere, or needs a cluster."""
ALL_DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *(page for page in ALL_DOCS if page not in WITH_SPARK and page not in WITHOUT_EXAMPLES)]
ALL_PAGES = [
    ROOT / "README.md",
    *ALL_DOCS,
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

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


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in _LINK.findall(page.read_text("utf-8")):
        target = (page.parent / path).resolve() if path else page
        if target.parent.name in ("reference", "project"):
            continue  # made from the code when the site is built, which tests/test_site.py does
        assert target.exists(), f"{page.name} links to {path}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


def test_every_page_without_examples_has_none() -> None:
    assert all(page.exists() and not _EXAMPLE.search(page.read_text("utf-8")) for page in WITHOUT_EXAMPLES)


@pytest.mark.parametrize("page", [p for p in ALL_DOCS if p.parent.name in ("coming-from", "explanation")], ids=str)
def test_every_module_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:src|tests)/[\w/]+(?:\.py|/))`", page.read_text("utf-8")))
    assert not {path for path in named if not (ROOT / path).exists()}
    assert named or page.parent.name != "coming-from"
