"""``migrate``: the metastore in another database."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli import screen
from lakebed.cli.screen import FAINT, NAME, WARN, Cell, Column
from lakebed.cli.session import Session


def migrate(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="URL", help="postgresql://user@host/database or sqlite:///path")],
) -> None:
    """Copy the whole metastore to another database, SQLite or PostgreSQL, and verify the copy.

    The present metastore is left as it is. An interrupted migration leaves nothing behind. Stop all writers first.
    """
    from lakebed.core.metastore_url import parse_metastore_url
    from lakebed.metastore.transfer import transfer

    session = Session.of(context)
    done = transfer(session.config().metastore_url, parse_metastore_url(target))
    if session.json:
        screen.dump(done)
        return
    columns = [Column("table", style=NAME), Column("rows", right=True), Column("digest", style=FAINT)]
    rows = [[name, f"{one.rows:,}", one.digest[:16]] for name, one in done.tables.items() if one.rows]
    screen.table(columns, rows)
    screen.say(f"{done.rows:,} row(s) copied from {done.source} to {done.target}, and verified")
    screen.say(Cell("From now on use only one of the two: both know the same files.", WARN))
    screen.say(Cell('Next: set LAKEBED_METASTORE, or metastore = "…" in lakebed.toml, to the new one.', FAINT))
