"""``doctor``: what is wrong, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli import failure, screen
from lakebed.cli.screen import BAD, FAINT, GOOD, NAME, WARN, Cell
from lakebed.cli.session import Session

if TYPE_CHECKING:
    from lakebed.doctor.finding import Finding

_MARKS = {"fine": Cell("✓ ", GOOD), "warning": Cell("! ", WARN), "error": Cell("✗ ", BAD)}


def doctor(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="All tables by default.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Open every data file, not only the newest ones.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Publish what the open log lacks; nothing else is changed.")
    ] = False,
) -> None:
    """Look for what is wrong: the machine, settings, metastore, storage, logs, files and put-off upkeep.

    The exit code is 1 if something is.
    """
    from lakebed.connection import open_warehouse
    from lakebed.doctor.examination import examine

    session = Session.of(context)
    found: list[Finding] = []
    for finding in examine(
        session.config, lambda config: open_warehouse(config, create=False), tables or (), deep=deep, repair=fix
    ):
        found.append(finding)
        if not session.json:
            _tell(finding)
    wrong = [finding for finding in found if finding.is_wrong]
    if session.json:
        screen.dump({"ok": not wrong, "findings": found})
    else:
        screen.say()
        screen.say(Cell(f"{len(wrong)} finding(s)", BAD) if wrong else Cell("all is well", GOOD))
    if wrong:
        raise typer.Exit(failure.FAILED)


def _tell(finding: Finding) -> None:
    mark = _MARKS["fine"] if finding.repaired else _MARKS[finding.level.value]
    repaired = " — repaired" if finding.repaired else ""
    screen.say(mark, Cell(f"{finding.check:<9} ", FAINT), Cell(finding.subject, NAME), f"  {finding.what}{repaired}")
    if finding.is_wrong:
        screen.say(Cell(f"  {'fix':<9} ", FAINT), finding.fix)
