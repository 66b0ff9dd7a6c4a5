"""``init``: a new warehouse, and a settings file that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli import screen
from lakebed.cli.screen import FAINT, NAME, Cell
from lakebed.cli.session import Session
from lakebed.config_file import PROPERTIES, TOML
from lakebed.core.errors import AlreadyExistsError
from lakebed.core.metastore_url import masked_url


def init(
    context: typer.Context,
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="Directory or URI of the warehouse.")] = None,
    config: Annotated[
        bool, typer.Option("--config", help="Also write a lakebed.toml here that names the warehouse.")
    ] = False,
) -> None:
    """Make a warehouse: its directory and its metastore. One that is there is left as it is."""
    session = Session.of(context)
    if path is not None:
        session = Session(path, session.metastore, session.json, session.spark, session.debug)
    settings = session.config()
    file = _free_file() if config else None
    from lakebed.metastore.glance import Glance
    from lakebed.metastore.opening import open_database

    with Glance(open_database(settings.metastore_url)) as metastore:
        tables = len(metastore.overviews())
    if file is not None:
        _write(file, settings.warehouse.uri, session.metastore)
    found = {"warehouse": settings.warehouse.uri, "metastore": masked_url(settings.metastore_url), "tables": tables}
    if session.json:
        screen.dump({**found, "config": None if file is None else str(file)})
        return
    screen.say("warehouse ", Cell(settings.warehouse.uri, NAME), f" with {tables} table(s)")
    screen.say(Cell(f"metastore {found['metastore']}", FAINT))
    if file is not None:
        screen.say(Cell(f"written   {file}", FAINT))


def _free_file() -> Path:
    for name in (TOML, PROPERTIES):
        if Path(name).exists():
            raise AlreadyExistsError(f"{name} is here already", fix="edit it, or leave out --config")
    return Path(TOML)


def _write(file: Path, warehouse: str, metastore: str | None) -> None:
    """A password is not written into a file that is likely to be shared."""
    import json

    lines = [f"warehouse = {json.dumps(warehouse)}"]
    if metastore is not None:
        shown = masked_url(metastore)
        secret = shown != metastore
        note = "  # the password belongs into ~/.pgpass or LAKEBED_METASTORE" if secret else ""
        lines.append(("# " if secret else "") + f"metastore = {json.dumps(shown)}{note}")
    file.write_text("\n".join(lines) + "\n", "utf-8")
