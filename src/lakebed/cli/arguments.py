"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.core.errors import InputError

Table = Annotated[str, typer.Argument(metavar="TABLE", help="namespace.table, or table for default.table.")]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help="A predicate, as after WHERE.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")]
Retain = Annotated[str, typer.Option("--retain", metavar="TIME", help='How long to keep, like "7 days" or "12 hours".')]
Version = Annotated[int | None, typer.Option("--version", "-v", min=0, metavar="N", help="A version.")]
Timestamp = Annotated[str | None, typer.Option("--timestamp", metavar="TIME", help="A time, like 2026-11-15T10:00.")]
Tag = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="A tag.")]


def only_one(**given: object) -> None:
    """Raise InputError if more than one of some options is given."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError("these options exclude each other", found=" and ".join(named), fix="keep one of them")
