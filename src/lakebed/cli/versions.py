"""``tag``, ``restore`` and ``diff``: versions of a table, by name, again, and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import amounts, screen
from lakebed.cli.arguments import Limit, Table, Tag, Timestamp, Version, only_one
from lakebed.cli.screen import BAD, FAINT, GOOD, NAME, Cell, Column
from lakebed.cli.session import Session
from lakebed.core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakebed.table import Table as OpenTable
    from lakebed.view import TableView


def tag(
    context: typer.Context,
    table: Table,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The tag; without one, tags are listed.")] = None,
    version: Version = None,
    retain: Annotated[str | None, typer.Option("--retain", metavar="TIME", help="Keep for so long only.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Forget the tag.")] = False,
) -> None:
    """Name a version (the newest by default), so that it is kept; list or delete tags."""
    if delete and (name is None or version is not None or retain is not None):
        raise InputError("--delete takes a tag and nothing else", fix=f"lakebed tag {table} NAME --delete")
    session = Session.of(context)
    with session.lake() as lake:
        found = lake.table(table)
        if delete and name is not None:
            found.delete_tag(name)
        elif name is not None:
            made = found.tag(name, version, retain)
        tags = found.tags()
    if session.json:
        screen.dump(made if name is not None and not delete else tags)
    elif delete:
        screen.say("tag ", Cell(str(name), NAME), " deleted; its version stays until it expires")
    elif name is not None:
        screen.say("tag ", Cell(made.name, NAME), f" names version {made.version} of {found.name}")
    else:
        columns = [Column("tag", style=NAME), Column("version", right=True), Column("made (UTC)"), Column("kept until")]
        rows = [[one.name, str(one.version), amounts.time(one.created), _until(one.retain_until)] for one in tags]
        screen.table(columns, rows, empty="no tags")


def _until(moment: Any) -> str:
    return "for ever" if moment is None else amounts.time(moment)


def restore(
    context: typer.Context, table: Table, version: Version = None, timestamp: Timestamp = None, tag: Tag = None
) -> None:
    """Make a table what it was, as a new version: rows, columns and properties."""
    only_one(version=version, timestamp=timestamp, tag=tag)
    session = Session.of(context)
    with session.lake() as lake:
        found = lake.table(table)
        then = found.at(version=version, timestamp=timestamp, tag=tag).version
        done = found.restore(then)
    if session.json:
        screen.dump(done)
        return
    screen.say(Cell(done.table, NAME), f": version {done.version} is what version {then} was")


def diff(
    context: typer.Context,
    table: Table,
    start: Annotated[str, typer.Argument(metavar="FROM", help="A version, or a tag.")],
    end: Annotated[
        str | None, typer.Argument(metavar="[TO]", help="A version, or a tag; the newest by default.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Show the rows that differ, not only their number.")] = False,
    limit: Limit = 20,
) -> None:
    """Compare two versions: columns, files and rows."""
    session = Session.of(context)
    with session.lake() as lake:
        found = lake.table(table)
        before = _at(found, start)
        after = _at(found, end) if end is not None else found.at(version=found.version)
        if before.version > after.version:
            before, after = after, before
        result = _compared(found, before, after)
        counts, changes = _changed_rows(found, before, after, limit)
    if session.json:
        shown = {"changes": changes.to_pylist()} if rows else {}
        screen.dump({**result, "rows": counts, **shown})
        return
    _tell_diff(result, counts)
    if rows and changes.num_rows:
        from lakebed.cli.results import show_table

        screen.heading("Changes")
        show_table(changes)


def _at(table: OpenTable, text: str) -> TableView:
    return table.at(version=int(text)) if text.isdecimal() else table.at(tag=text)


def _compared(table: OpenTable, before: TableView, after: TableView) -> dict[str, Any]:
    from lakebed.core.schema_diff import diff as schema_diff

    old, new = (set(view.files()["path"].to_pylist()) for view in (before, after))
    sizes = [sum(view.files()["size"].to_pylist()) for view in (before, after)]
    one, two = before.properties, after.properties
    return {
        "table": table.name,
        "from": before.version,
        "to": after.version,
        "columns": schema_diff(before._point().metadata.schema, after._point().metadata.schema),
        "properties": {
            name: [one.get(name), two.get(name)] for name in sorted(one | two) if one.get(name) != two.get(name)
        },
        "files": {"added": len(new - old), "removed": len(old - new), "kept": len(old & new)},
        "bytes": {"before": sizes[0], "after": sizes[1]},
        "count": {"before": before.count(), "after": after.count()},
    }


def _changed_rows(table: OpenTable, before: TableView, after: TableView, limit: int) -> tuple[dict[str, int], pa.Table]:
    """How many rows were inserted, updated and deleted in the end, and the first of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    changes = table.changes(before.version, after.version)
    counts = dict.fromkeys(_KINDS.values(), 0)
    first: list[pa.RecordBatch] = []
    kept = 0
    for batch in changes.to_batches():
        for one in pc.value_counts(batch["_change_type"]).to_pylist():
            if one["values"] in _KINDS:
                counts[_KINDS[one["values"]]] += one["counts"]
        if kept < limit:
            first.append(batch.slice(0, limit - kept))
            kept += first[-1].num_rows
    return counts, pa.Table.from_batches(first, changes.schema)


_KINDS = {"insert": "inserted", "update_postimage": "updated", "delete": "deleted"}


def _tell_diff(result: dict[str, Any], rows: dict[str, int]) -> None:
    files, size, count = result["files"], result["bytes"], result["count"]
    screen.say(Cell(result["table"], NAME), Cell(f"  version {result['from']} → {result['to']}", FAINT))
    screen.facts(
        [
            ("rows", f"{count['before']:,} → {count['after']:,}"),
            ("  inserted", Cell(f"+{rows['inserted']:,}", GOOD if rows["inserted"] else FAINT)),
            ("  updated", Cell(f"{rows['updated']:,}", "" if rows["updated"] else FAINT)),
            ("  deleted", Cell(f"−{rows['deleted']:,}", BAD if rows["deleted"] else FAINT)),
            ("files", f"+{files['added']:,} −{files['removed']:,}, {files['kept']:,} in both"),
            ("size", f"{amounts.size(size['before'])} → {amounts.size(size['after'])}"),
            *(("column", line) for line in result["columns"]),
            *(("property", f"{name}: {old} → {new}") for name, (old, new) in result["properties"].items()),
        ]
    )
    if not result["columns"]:
        screen.say(Cell("the columns are the same", FAINT))
