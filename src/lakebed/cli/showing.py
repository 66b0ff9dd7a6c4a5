"""``show``: one table on a page, with its buckets as bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import amounts, screen
from lakebed.cli.arguments import Table
from lakebed.cli.looking import overview_record
from lakebed.cli.screen import BAD, FAINT, NAME, WARN, Cell, Column
from lakebed.cli.session import Session

if TYPE_CHECKING:
    from lakebed.metastore.buckets import BucketRows
    from lakebed.metastore.overview import Overview
    from lakebed.metastore.records import TableState, Tag

_BAR = 24


@dataclass(frozen=True)
class Page:
    """What is known of a table."""

    overview: Overview
    state: TableState
    buckets: Sequence[BucketRows]
    tags: Sequence[Tag]


def show(
    context: typer.Context,
    table: Table,
    every: Annotated[bool, typer.Option("--all", help="Every bucket, however many there are.")] = False,
) -> None:
    """Show a table: columns, key, properties, size, and how full its buckets are."""
    session = Session.of(context)
    with session.glance() as metastore:
        overview = metastore.find(table)
        page = Page(
            overview,
            metastore.state(overview.table_id),
            metastore.bucket_rows(overview.table_id),
            metastore.tags(overview.table_id),
        )
    if session.json:
        screen.dump(_record(page))
        return
    screen.say(Cell(str(page.overview), NAME), Cell(f"  version {page.state.version}", FAINT))
    screen.facts(_facts(page))
    screen.heading("Columns")
    screen.table([Column("name", style=NAME), Column("type"), Column("", style=FAINT, wrap=True)], _columns(page))
    if page.buckets:
        _draw(page.buckets, most=len(page.buckets) if every else 32)


def _facts(page: Page) -> list[tuple[str, str | Cell]]:
    one = page.overview
    rows = amounts.number(one.rows) + (" at most, until unsettled files are settled" if one.unsettled else "")
    dead = f", {one.dead:,} dead row(s)" if one.dead else ""
    unsettled = f", {one.unsettled:,} unsettled" if one.unsettled else ""
    return [
        ("comment", page.state.metadata.description or ""),
        ("location", one.location),
        ("changed", f"{amounts.time(one.timestamp)} UTC, {amounts.age(one.timestamp)}"),
        ("rows", rows + dead),
        ("size", f"{amounts.size(one.bytes)} in {one.files:,} file(s){unsettled}"),
        ("key", _key(page)),
        ("partitions", ", ".join(page.state.metadata.partition_columns)),
        ("properties", ", ".join(f"{name}={value}" for name, value in _properties(page).items())),
        ("tags", ", ".join(f"{tag.name} → {tag.version}" for tag in page.tags)),
        (
            "log",
            Cell(f"{one.unpublished} version(s) not published: lakebed doctor --fix", BAD) if one.unpublished else "",
        ),
    ]


def _properties(page: Page) -> dict[str, str]:
    from lakebed.core.properties import to_properties

    return to_properties(page.state.metadata.configuration)


def _key(page: Page) -> str:
    from lakebed.core.keyed import KeySpec

    key = KeySpec.of(page.state.metadata)
    if key is None:
        return ""
    buckets = f"{key.buckets} bucket(s)" if isinstance(key.buckets, int) else f"{key.buckets} buckets"
    order = f", sequence {', '.join(key.sequence)}" if key.sequence else ""
    return f"{', '.join(key.key)}; {buckets}, {key.engine.value}, merged {key.merge.value}{order}"


def _columns(page: Page) -> list[list[str | Cell]]:
    from lakebed.core.schema_ddl import type_ddl

    return [
        [column.name, type_ddl(column.type) + ("" if column.nullable else " NOT NULL"), column.comment or ""]
        for column in page.state.metadata.schema
    ]


def _record(page: Page) -> dict[str, Any]:
    from lakebed.core.keyed import KeySpec
    from lakebed.core.schema_ddl import type_ddl

    metadata = page.state.metadata
    key = KeySpec.of(metadata)
    return {
        **overview_record(page.overview),
        "comment": metadata.description,
        "columns": [
            {"name": c.name, "type": type_ddl(c.type), "nullable": c.nullable, "comment": c.comment}
            for c in metadata.schema
        ],
        "key": None if key is None else screen.plain(key),
        "partition_by": list(metadata.partition_columns),
        "properties": _properties(page),
        "tags": {tag.name: tag.version for tag in page.tags},
        "buckets": [{**screen.plain(one), "partition": json.loads(one.partition_key)} for one in page.buckets],
    }


def _draw(buckets: Sequence[BucketRows], most: int) -> None:
    """A line for each bucket: its share of the largest one's bytes, and in other colours what is dead or unsettled."""
    screen.heading("Buckets")
    largest = max(one.bytes for one in buckets)
    partitioned = any(one.partition_key != "{}" for one in buckets)
    columns = [
        *([Column("partition", wrap=True)] if partitioned else []),
        Column("bucket", right=True, style=NAME),
        Column("size", right=True),
        Column(""),
        Column("rows", right=True),
        Column("dead", right=True),
        Column("files", right=True),
        Column("unsettled", right=True),
    ]
    rows: list[list[Any]] = []
    for one in buckets[:most]:
        partition = ", ".join(f"{k}={v}" for k, v in json.loads(one.partition_key).items())
        rows.append(
            [
                *([partition] if partitioned else []),
                str(one.bucket),
                amounts.size(one.bytes),
                bar(one, largest),
                amounts.number(one.rows),
                Cell(amounts.number(one.dead), BAD if one.dead else FAINT),
                str(one.files),
                Cell(str(one.unsettled), WARN if one.unsettled else FAINT),
            ]
        )
    screen.table(columns, rows)
    screen.say(Cell("bar: size, ", FAINT), Cell("▒ dead rows", BAD), Cell(", ", FAINT), Cell("░ unsettled files", WARN))
    if len(buckets) > most:
        screen.say(Cell(f"{len(buckets) - most:,} more: --all shows them", FAINT))


def bar(one: BucketRows, largest: int, width: int = _BAR) -> Any:
    """A bucket's size against the largest one's, in letters that tell dead and unsettled parts without colour.

    >>> from lakebed.metastore.buckets import BucketRows
    >>> print(bar(BucketRows(0, "{}", 3, rows=50, dead=50, files=2, unsettled=0, bytes=100), 200, width=8))
    ██▒▒
    """
    length = max(1, round(width * one.bytes / largest)) if largest else 0
    stored = one.rows + one.dead
    dead = min(length, -(-length * one.dead // stored)) if stored else 0
    waiting = min(length - dead, -(-length * one.unsettled // one.files)) if one.files else 0
    parts = (("█" * (length - dead - waiting), "cyan"), ("▒" * dead, BAD), ("░" * waiting, WARN))
    if not screen.is_terminal(sys.stdout):
        return "".join(text for text, _ in parts)
    from rich.text import Text

    return Text.assemble(*parts)
