"""``settle``, ``compact``, ``vacuum``, ``expire`` and ``maintain``: the upkeep of tables."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import amounts, failure, screen
from lakebed.cli.arguments import Limit, Retain, Table, Where
from lakebed.cli.screen import BAD, FAINT, NAME, WARN, Cell, Column
from lakebed.cli.session import Session

if TYPE_CHECKING:
    from lakebed.maintaining import Maintained
    from lakebed.records import Maintenance


def settle(context: typer.Context, table: Table, where: Where = None) -> None:
    """Match the keys of upserts that have not been matched yet, so that no reader needs to."""
    session = Session.of(context)
    with session.lake() as lake:
        done = lake.table(table).settle(where)
    _tell(session, done)


def compact(
    context: typer.Context,
    table: Table,
    where: Where = None,
    full: Annotated[bool, typer.Option("--full", help="Rewrite whatever is not one good file already.")] = False,
) -> None:
    """Pack small files and drop dead rows, where it pays."""
    session = Session.of(context)
    with session.lake() as lake:
        done = lake.table(table).compact(where, full=full)
    _tell(session, done)


def _tell(session: Session, done: Maintenance) -> None:
    if session.json:
        screen.dump(done)
        return
    if done.version is None and not done.skipped:
        screen.say(Cell(done.table, NAME), f": nothing to {done.operation}")
        return
    screen.say(Cell(done.table, NAME), f": {_done(done)}")
    for unit in done.skipped:
        screen.say(Cell(f"skipped {unit}: others changed it meanwhile; the next run finds it", WARN))


def _done(done: Maintenance | None) -> str:
    if done is None or done.version is None:
        return "nothing to do"
    counted = [
        f"{count:,} file(s) {word}"
        for name, word in (("numSettledFiles", "settled"), ("numMergedFiles", "merged"))
        if (count := done.metrics.get(name))
    ]
    return ", ".join([f"version {done.version}", f"{done.buckets} bucket(s)", *counted])


def expire(context: typer.Context, table: Table, retain: Retain = "7 days") -> None:
    """Forget old versions; their files stay until vacuum."""
    session = Session.of(context)
    with session.lake() as lake:
        done = lake.table(table).expire(retain)
    if session.json:
        screen.dump(done)
        return
    screen.say(Cell(done.table, NAME), f": {done.versions:,} version(s) forgotten; the oldest is {done.earliest}")


def vacuum(
    context: typer.Context,
    table: Table,
    retain: Retain = "7 days",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    limit: Limit = 20,
) -> None:
    """Forget old versions, and delete the files that no version needs and that killed writers left."""
    session = Session.of(context)
    with session.lake() as lake:
        done = lake.table(table).vacuum(retain, dry_run)
    if session.json:
        screen.dump({**screen.plain(done), "bytes": done.bytes})
    else:
        columns = [Column("path", style=NAME, wrap=True), Column("size", right=True), Column("reason")]
        rows = [[f["path"], amounts.size(f["size"]), f["reason"]] for f in done.files.slice(0, limit).to_pylist()]
        if rows:
            screen.table(columns, rows)
        left = f" ({done.files.num_rows - limit:,} not shown)" if done.files.num_rows > limit else ""
        verb = ("would go", "would be forgotten") if dry_run else ("deleted", "forgotten")
        screen.say(
            Cell(done.table, NAME),
            f": {done.files.num_rows:,} file(s){left}, {amounts.size(done.bytes)}, {verb[0]}; "
            f"{done.versions:,} version(s) {verb[1]}",
        )
        for path, why in done.failed.items():
            screen.say(Cell(f"{path} could not be deleted: {why}", BAD))
    if done.failed:
        raise typer.Exit(failure.FAILED)


def maintain(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="All tables by default.")] = None,
    retain: Retain = "7 days",
    loop: Annotated[bool, typer.Option("--loop", help="Go on until interrupted.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="With --loop: the pause.")] = "1 minute",
) -> None:
    """Settle, compact, expire and vacuum tables, each where its properties say that it pays."""
    from lakebed.core.instant import to_duration_ms

    session = Session.of(context)
    pause = to_duration_ms(every) / 1000
    to_duration_ms(retain)
    with session.lake() as lake:
        for name in tables or ():
            lake.table(name)
        while True:
            done = lake.maintain(tables or None, retain=retain)
            _tell_pass(session, done)
            if not loop:
                break
            # Ctrl-C ends the pause, and the command.
            threading.Event().wait(pause)
    if any(one.error for one in done):
        raise typer.Exit(failure.FAILED)


def _tell_pass(session: Session, done: list[Maintained]) -> None:
    if session.json:
        screen.dump([{**screen.plain(one), "error": one.error and str(one.error)} for one in done])
        return
    columns = [Column("table", style=NAME), *(Column(name, wrap=True) for name in ("settle", "compact", "vacuum"))]
    screen.table(columns, map(_pass_row, done), empty="no tables yet")


def _pass_row(one: Maintained) -> list[Any]:
    if one.error is not None:
        return [one.table, Cell(f"failed: {one.error}", BAD), "", ""]
    gone = one.vacuumed
    faint = [Cell(text, FAINT if text == "nothing to do" else "") for text in map(_done, (one.settled, one.compacted))]
    removed = f"{gone.files.num_rows:,} file(s), {gone.versions:,} version(s)" if gone else ""
    return [one.table, *faint, removed]
