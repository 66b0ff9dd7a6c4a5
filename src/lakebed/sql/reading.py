"""What a name in a query stands for: a table at a version, its changes, or one of its system tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakebed.core.errors import InputError, NotFoundError
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor
from lakebed.sql.embedded import embedded_engine
from lakebed.sql.references import AsOf, Reference, read_query
from lakebed.sql.results import arrow_of
from lakebed.sql.rows import ChangeRows, Rows, TableRows
from lakebed.sql.source import Source
from lakebed.sql.system_tables import split_system, system_rows
from lakebed.table import Table
from lakebed.view import Readable

_RACES = 5


def resolve(context: Context, reference: Reference) -> Rows | None:
    """The rows that the reference stands for; None if it is no table of ours. Raises SqlError and NotFoundError."""
    lifted = reference.lifted
    parts, system = split_system(reference.parts)
    table = context.names.table(parts)
    if table is None:
        if lifted is None and system is None:
            return None
        raise context.no_table(reference.place)
    try:
        if lifted is not None and lifted.arguments is not None:
            return _changes(table, lifted.arguments, dict(lifted.options))
        as_of = None if lifted is None else lifted.as_of
        if system is not None:
            view: Readable = table if as_of is None else _as_of(context, table, as_of)
            return system_rows(table, view, system)
        return TableRows(at(context, table) if as_of is None else _as_of(context, table, as_of))
    except NotFoundError as error:
        place = reference.place if lifted is None or lifted.as_of is None else lifted.as_of.place
        raise context.cursor().error(
            place, error.what, expected=error.expected, found=error.found, fix=error.fix
        ) from error
    except InputError as error:
        raise context.tried(reference.place, error) from error


def at(context: Context, table: Table) -> Readable:
    """The table at the moment of the statement: whatever is committed meanwhile, all places see the same."""
    for _ in range(_RACES):
        try:
            return table.at(version=context.heads[table._handle.table_id])
        except (KeyError, NotFoundError):  # it was made, or its version has expired, a moment ago
            context.__dict__.pop("heads", None)
    return table.at(version=table.version)


def _as_of(context: Context, table: Table, as_of: AsOf) -> Readable:
    value = _computed(context, as_of) if as_of.computed else as_of.value
    if as_of.kind == "timestamp":
        return table.at(timestamp=value)
    if isinstance(value, str):
        return table.at(version=int(value)) if value.isdecimal() else table.at(tag=value)
    return table.at(version=value)


def _computed(context: Context, as_of: AsOf) -> Any:
    """The value of an expression like ``current_timestamp() - INTERVAL 1 DAY``."""
    source = Source.of(f"SELECT CAST({as_of.value} AS TIMESTAMP) AS moment")
    query = read_query(source, Cursor(source).rest(), context.parameters)
    engine = context.spark or embedded_engine()
    found = None if engine is None else engine.run(query, (), context.parameters)
    moment = None if found is None else arrow_of(found)["moment"][0].as_py()
    if not isinstance(moment, datetime):
        raise context.cursor().error(as_of.place, "this is no time")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _changes(table: Table, arguments: tuple[Any, ...], options: dict[str, Any]) -> Rows:
    names = ("from", "to", "mode")
    given = {**dict(zip(names, arguments, strict=False)), **options}
    unknown = set(given) - set(names)
    if unknown or len(arguments) > len(names) or "from" not in given:
        raise InputError(
            "table_changes takes a table and versions",
            expected="table_changes('shop.orders', 3, 9), the last version and mode => 'combine' being optional",
        )
    start = given["from"]
    if type(start) is int:
        # Both versions are included, as the function of that name does it elsewhere.
        start = start - 1 if start > 0 else "earliest"
    return ChangeRows(table, start, given.get("to"), given.get("mode") or "all")
