"""``ls``, ``history`` and ``files``: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import amounts, screen
from lakebed.cli.arguments import Limit, Table, Tag, Timestamp, Version, Where, only_one
from lakebed.cli.screen import FAINT, NAME, WARN, Cell, Column
from lakebed.cli.session import Session

if TYPE_CHECKING:
    from lakebed.metastore.overview import Overview


def ls(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Argument(help="Only the tables of this namespace.")] = None,
) -> None:
    """List tables: version, rows, size, and what waits to be settled or published."""
    session = Session.of(context)
    found = session.overviews(namespace)
    if session.json:
        screen.dump([overview_record(one) for one in found])
        return
    columns = [Column("table", style=NAME), *(Column(name, right=True) for name in _LISTED), Column("changed")]
    screen.table(columns, map(_listed, found), empty="no tables yet")


def overview_record(one: Overview) -> dict[str, Any]:
    """What ``ls`` tells programs of a table."""
    facts = {name: value for name, value in screen.plain(one).items() if name != "timestamp"}
    return {"table": str(one), **facts, "changed": amounts.iso(one.timestamp)}


_LISTED = ("version", "rows", "size", "files", "unsettled")


def _listed(one: Any) -> list[str | Cell]:
    about = "≤ " if one.unsettled and one.rows else ""
    changed = amounts.age(one.timestamp) + (f", {one.unpublished} unpublished" if one.unpublished else "")
    return [
        str(one),
        str(one.version),
        about + amounts.number(one.rows),
        amounts.size(one.bytes),
        amounts.number(one.files),
        Cell(amounts.number(one.unsettled), WARN) if one.unsettled else Cell("0", FAINT),
        Cell(changed, WARN) if one.unpublished else changed,
    ]


def history(context: typer.Context, table: Table, limit: Limit = 20) -> None:
    """List the newest versions of a table: when, what, and what it did to rows and files."""
    session = Session.of(context)
    with session.glance() as metastore:
        found = metastore.history(metastore.find(table).table_id, limit=limit + 1)
    shown = found[:limit]
    if session.json:
        screen.dump([_version_record(one) for one in shown])
        return
    columns = [
        Column("version", right=True, style=NAME),
        Column("time (UTC)"),
        Column("operation"),
        Column("rows in", right=True),
        Column("rows out", right=True),
        Column("files", right=True),
        Column("who"),
        Column("details", wrap=True, style=FAINT),
    ]
    # Beside the others a narrow screen has no room for details.
    kept = len(columns) - (screen.width() < _NARROW)
    screen.table(columns[:kept], [_version_row(one)[:kept] for one in shown])
    if not all(one.published for one in shown):
        screen.say(Cell("* not in the open log yet: lakebed doctor --fix", WARN))
    if len(found) > limit:
        screen.say(Cell(f"older versions: lakebed history {table} --limit {10 * limit}", FAINT))


_NARROW = 100
# What commits count, under the names that Delta gives it.
_ROWS_IN = ("numOutputRows", "numTargetRowsInserted")
_ROWS_OUT = ("numDeletedRows", "numUpdatedRows", "numTargetRowsDeleted", "numTargetRowsUpdated")
_FILES_IN = ("numFiles", "numAddedFiles")
_FILES_OUT = ("numRemovedFiles", "numMergedFiles")
_MAINTENANCE = frozenset({"settle", "compact"})


def _metrics(one: Any) -> dict[str, int]:
    counted = one.info.get("operationMetrics") or {}
    return {name: int(text) for name, text in counted.items() if str(text).isdecimal()}


def _counted(metrics: dict[str, int], names: tuple[str, ...]) -> int | None:
    known = [metrics[name] for name in names if name in metrics]
    return sum(known) if known else None


def _who(one: Any) -> str:
    who = one.info.get("userName") or one.info.get("engineInfo") or ""
    return str(who)


def _version_record(one: Any) -> dict[str, Any]:
    metrics = _metrics(one)
    return {
        "version": one.version,
        "timestamp": amounts.iso(one.timestamp),
        "operation": one.kind.value,
        "rows_in": _counted(metrics, _ROWS_IN),
        "rows_out": _counted(metrics, _ROWS_OUT),
        "files_added": _counted(metrics, _FILES_IN),
        "files_removed": _counted(metrics, _FILES_OUT),
        "who": _who(one),
        "published": one.published,
        "commit_id": one.commit_id,
        "parameters": one.info.get("operationParameters") or {},
        "metrics": metrics,
    }


def _version_row(one: Any) -> list[str | Cell]:
    metrics = _metrics(one)
    files = [
        f"{sign}{count}" for sign, names in (("+", _FILES_IN), ("−", _FILES_OUT)) if (count := _counted(metrics, names))
    ]
    rows_in, rows_out = (_counted(metrics, names) for names in (_ROWS_IN, _ROWS_OUT))
    style = FAINT if one.kind.value in _MAINTENANCE else ""
    return [
        str(one.version),
        amounts.time(one.timestamp),
        Cell(one.kind.value + ("" if one.published else " *"), style if one.published else WARN),
        f"+{rows_in:,}" if rows_in else "",
        f"−{rows_out:,}" if rows_out else "",
        " ".join(files),
        _who(one),
        _details(one, metrics),
    ]


def _details(one: Any, metrics: dict[str, int]) -> str:
    parameters = {k: v for k, v in (one.info.get("operationParameters") or {}).items() if k not in _OBVIOUS}
    told = [f"{name}: {text}" for name, text in parameters.items() if text not in ("[]", "{}", None)]
    if settled := metrics.get("numSettledFiles"):
        told.append(f"{settled} file(s) settled")
    return "; ".join(told)


_OBVIOUS = frozenset({"mode"})


def files(
    context: typer.Context,
    table: Table,
    where: Where = None,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    limit: Limit = 1000,
) -> None:
    """List the data files that a version has, or that may hold rows for which a predicate is true."""
    only_one(version=version, timestamp=timestamp, tag=tag)
    session = Session.of(context)
    with session.lake() as lake:
        view: Any = lake.table(table)
        if version is not None or timestamp or tag:
            view = view.at(version=version, timestamp=timestamp, tag=tag)
        found = view.files(where).sort_by([("partition", "ascending"), ("bucket", "ascending"), ("path", "ascending")])
    if session.json:
        screen.dump(found)
        return
    columns = [
        Column("path", style=NAME, wrap=True),
        *(Column(name, right=True) for name in ("bucket", "size", "rows", "dead", "since")),
        Column(""),
    ]
    screen.table(columns, map(_file_row, found.slice(0, limit).to_pylist()), empty="no files")
    total = amounts.size(sum(found["size"].to_pylist()))
    left = f", {found.num_rows - limit:,} of them not shown" if found.num_rows > limit else ""
    screen.say(Cell(f"{found.num_rows:,} file(s), {total}{left}", FAINT))


def _file_row(file: dict[str, Any]) -> list[str | Cell]:
    return [
        file["path"],
        "" if file["bucket"] is None else str(file["bucket"]),
        amounts.size(file["size"]),
        amounts.number(file["rows"]),
        amounts.number(file["dead_rows"]) if file["dead_rows"] else Cell("0", FAINT),
        amounts.number(file["added_version"]),
        Cell("unsettled", WARN) if file["unsettled"] else "",
    ]
