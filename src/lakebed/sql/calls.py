"""CALL lakebed.procedure(…): maintenance and other things that a table does, each with a row that tells what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.core.errors import InputError
from lakebed.core.suggest import did_you_mean
from lakebed.records import Maintenance
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor, Name
from lakebed.sql.names import CATALOG
from lakebed.sql.references import split_text
from lakebed.sql.results import row_of, table_of
from lakebed.table import Table

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Procedure:
    """One procedure: its parameters, of which the first ``needed`` must be given, and what it does."""

    parameters: tuple[str, ...]
    needed: int
    run: Callable[[Context, Arguments], pa.Table]


def call(context: Context, cursor: Cursor) -> pa.Table | None:
    """CALL lakebed.name(value, parameter => value, …)."""
    name = cursor.dotted("lakebed.procedure")
    if name.parts[0].lower() not in (CATALOG, "sys"):
        return None
    procedure = PROCEDURES.get(name.parts[-1].lower())
    if procedure is None:
        raise cursor.error(
            name,
            f"there is no procedure {name}",
            expected=f"one of {', '.join(PROCEDURES)}",
            fix=did_you_mean(name.parts[-1], PROCEDURES),
        )
    given = _arguments(cursor, name, procedure)
    cursor.finish()
    try:
        return procedure.run(context, given)
    except InputError as error:
        raise context.tried(name, error) from error


def _arguments(cursor: Cursor, name: Name, procedure: Procedure) -> dict[str, Any]:
    found: dict[str, Any] = {}
    named: set[str] = set()
    known = procedure.parameters

    def one() -> None:
        word = cursor.word
        assert word is not None
        if cursor.sees("=>", skip=1) or cursor.sees("=", skip=1):
            parameter = cursor.name().lower()
            cursor.need("=>|=")
            named.add(parameter)
        elif named:
            cursor.fail("values by position come before those by name")
        else:
            parameter = known[len(found)] if len(found) < len(known) else ""
        if parameter not in known or parameter in found:
            twice = parameter in found
            raise cursor.error(
                word,
                f"{parameter} is given twice" if twice else f"{name} has no such parameter",
                expected=", ".join(known),
                fix=did_you_mean(parameter, known),
            )
        found[parameter] = _value(cursor)

    cursor.listed(one)
    missing = [parameter for parameter in known[: procedure.needed] if parameter not in found]
    if missing:
        raise cursor.error(
            name, f"{missing[0]} is missing", expected=f"{name}({', '.join(f'{p} => …' for p in known)})"
        )
    return {parameter: value for parameter, value in found.items() if value is not None}


def _value(cursor: Cursor) -> Any:
    if cursor.take("ARRAY"):
        return cursor.listed(lambda: cursor.constant("a constant"))
    return cursor.constant("a constant")


def _table(context: Context, arguments: Arguments) -> Table:
    text = str(arguments["table"])
    found = context.names.table(split_text(text))
    if found is None:
        raise InputError(f"there is no table {text}", fix=context.names.near(split_text(text)))
    return found


def _rest(arguments: Arguments) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "table"}


def _maintenance(done: Maintenance) -> pa.Table:
    return table_of(
        {"table": str, "operation": str, "version": int, "buckets": int, "skipped": int},
        [(done.table, done.operation, done.version, done.buckets, len(done.skipped))],
    )


def _settle(context: Context, arguments: Arguments) -> pa.Table:
    return _maintenance(_table(context, arguments).settle(**_rest(arguments)))


def _compact(context: Context, arguments: Arguments) -> pa.Table:
    return _maintenance(_table(context, arguments).compact(**_rest(arguments)))


def _vacuum(context: Context, arguments: Arguments) -> pa.Table:
    done = _table(context, arguments).vacuum(**_rest(arguments))
    return row_of(
        table=done.table, dry_run=done.dry_run, versions=done.versions, files=done.files.num_rows, bytes=done.bytes
    )


def _expire(context: Context, arguments: Arguments) -> pa.Table:
    done = _table(context, arguments).expire(**_rest(arguments))
    return row_of(table=done.table, versions=done.versions, earliest=done.earliest)


def _restore(context: Context, arguments: Arguments) -> pa.Table:
    done = _table(context, arguments).restore(**_rest(arguments))
    return row_of(table=done.table, version=done.version)


def _tag(context: Context, arguments: Arguments) -> pa.Table:
    made = _table(context, arguments).tag(**_rest(arguments))
    return row_of(table=_table(context, arguments).name, tag=made.name, version=made.version)


def _delete_tag(context: Context, arguments: Arguments) -> pa.Table:
    table = _table(context, arguments)
    table.delete_tag(**_rest(arguments))
    return row_of(table=table.name, tag=str(arguments["name"]))


def _publish(context: Context, arguments: Arguments) -> pa.Table:
    table = _table(context, arguments)
    return row_of(table=table.name, version=table.publish())


def _checkpoint(context: Context, arguments: Arguments) -> pa.Table:
    table = _table(context, arguments)
    return row_of(table=table.name, version=table.checkpoint())


def _recover(context: Context, arguments: Arguments) -> pa.Table:
    table = context.lake.recover(**arguments)
    return row_of(table=table.name, version=table.version)


def _register(context: Context, arguments: Arguments) -> pa.Table:
    table = context.lake.register(str(arguments["table"]), arguments["path"])
    return row_of(table=table.name, version=table.version)


def _copy_into(context: Context, arguments: Arguments) -> pa.Table:
    done = context.lake.copy_into(_table(context, arguments), **_rest(arguments))
    return table_of(
        {"table": str, "version": int, "files": int, "skipped": int, "rows": int},
        [(done.table, done.version, len(done.files), len(done.skipped), done.rows)],
    )


def _maintain(context: Context, arguments: Arguments) -> pa.Table:
    given = dict(arguments)
    tables = given.pop("tables", None)
    names = [tables] if isinstance(tables, str) else tables
    done = context.lake.maintain(names, **given)
    return table_of(
        {"table": str, "settled": int, "compacted": int, "removed_files": int, "error": str},
        [
            (
                one.table,
                None if one.settled is None else one.settled.buckets,
                None if one.compacted is None else one.compacted.buckets,
                None if one.vacuumed is None else one.vacuumed.files.num_rows,
                None if one.error is None else str(one.error),
            )
            for one in done
        ],
    )


_COPY = ("table", "path", "format", "header", "delimiter", "null_values", "merge_schema", "force")
PROCEDURES: Mapping[str, Procedure] = {
    "settle": Procedure(("table", "where"), 1, _settle),
    "compact": Procedure(("table", "where", "full"), 1, _compact),
    "vacuum": Procedure(("table", "retain", "dry_run"), 1, _vacuum),
    "expire": Procedure(("table", "retain"), 2, _expire),
    "restore": Procedure(("table", "version", "timestamp", "tag"), 1, _restore),
    "tag": Procedure(("table", "name", "version", "retain"), 2, _tag),
    "delete_tag": Procedure(("table", "name"), 2, _delete_tag),
    "publish": Procedure(("table",), 1, _publish),
    "checkpoint": Procedure(("table",), 1, _checkpoint),
    "recover": Procedure(("path", "name"), 1, _recover),
    "register": Procedure(("table", "path"), 2, _register),
    "copy_into": Procedure(_COPY, 2, _copy_into),
    "maintain": Procedure(("tables", "retain"), 0, _maintain),
}
