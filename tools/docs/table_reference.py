"""The reference pages that are tables: options, table properties, errors, and the metastore's schema."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from api_reference import markdown
from sqlalchemy import Table

import lakebed
from lakebed.core import errors
from lakebed.core.options import describe
from lakebed.core.properties import PROPERTIES
from lakebed.metastore import schema


def pages() -> dict[str, str]:
    """The Markdown of each page, by file name."""
    return {
        "options.md": _options(),
        "error-list.md": _errors(),
        "metastore-schema.md": _metastore(),
    }


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "x | y"]]))
    | a | b |
    |---|---|
    | 1 | x \\| y |
    """
    names = list(head)
    lines = [_line(names), "|" + "---|" * len(names), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _options() -> str:
    rows = [[f"`{name}`", kind, default, text] for name, kind, default, text in describe()]
    properties = [
        [f"`{p.name}`", p.default, p.description, "yes" if p.keyed else "", f"`{p.key}`"] for p in PROPERTIES.values()
    ]
    return "\n".join(
        [
            "# Options and table properties",
            "",
            "How they are set, and what they mean together, is told in [configuration](../configuration.md).",
            "",
            "## Options of a connection",
            "",
            table(["option", "type", "default", "meaning"], rows),
            "",
            "## Table properties",
            "",
            table(["property", "default", "meaning", "primary key only", "in the open log"], properties),
            "",
        ]
    )


def _errors() -> str:
    tree = re.search(r"^    LakebedError.*", errors.__doc__ or "", re.DOTALL | re.MULTILINE)
    assert tree is not None
    lines = ["# Error classes", "", "What to do about each is told in [errors](../errors.md).", "", "```text"]
    lines += [line.removeprefix("    ").rstrip() for line in tree[0].rstrip().splitlines()]
    lines += ["```", ""]
    for kind in sorted(_failures(), key=lambda kind: kind.__name__):
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        lines += [f"## {kind.__name__}", "", f"Is a {bases}.", "", markdown(inspect.getdoc(kind) or ""), ""]
    return "\n".join(lines)


def _failures() -> Iterator[type]:
    for name in lakebed.__all__:
        thing = getattr(lakebed, name)
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            yield thing


def _metastore() -> str:
    lines = [
        "# Tables of the metastore",
        "",
        "One schema for SQLite and PostgreSQL. What it is for: [the metastore](../metastore.md), and",
        "[the format](../explanation/format.md#the-metastore).",
        "",
        markdown((schema.__doc__ or "").partition("\n\n")[2]),
        "",
    ]
    for one in schema.metadata.tables.values():
        lines += [f"## {one.name}", "", table(["column", "type", "null", "key"], _columns(one)), ""]
    return "\n".join(lines)


def _columns(one: Table) -> Iterator[list[str]]:
    for column in one.columns:
        yield [
            f"`{column.name}`",
            str(column.type),
            "yes" if column.nullable else "",
            "primary key" if column.primary_key else "",
        ]
