"""The door: one statement in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lakebed.sql import alter, calls, change, insert, merge, namespaces, show, tables, tags
from lakebed.sql.context import Context
from lakebed.sql.cursor import Cursor
from lakebed.sql.foreign import create_view, pass_on
from lakebed.sql.queries import run_query
from lakebed.sql.results import delivered
from lakebed.sql.source import Source
from lakebed.warehouse import Warehouse

Handler = Callable[[Context, Cursor], Any]
"""Reads a statement behind its first words, runs it and gives rows back; None if it is not ours after all."""


def run(lake: Warehouse, text: str, parameters: Mapping[str, Any]) -> Any:
    """Run a statement. Raises SqlError that points at what is wrong with it, and what the table API raises."""
    context = Context(lake, Source.of(text), parameters)
    cursor = context.cursor()
    for words, handler in _STATEMENTS:
        if cursor.sees(*words):
            cursor.at = len(words)
            found = handler(context, cursor)
            if found is not None:
                return delivered(found, context.session) if isinstance(found, pa.Table) else found
            cursor.at = 0
    return pass_on(context, cursor)


def _query(context: Context, cursor: Cursor) -> Any:
    cursor.at = 0
    return run_query(context, cursor.rest())


def _use(context: Context, cursor: Cursor) -> None:
    """USE is Spark's: names of ours are always whole."""
    cursor.take("NAMESPACE|SCHEMA|DATABASE")
    name = cursor.dotted("the name of a namespace")
    if context.session is None or context.names.namespace(name.parts[-1]) is not None:
        raise cursor.error(
            name, "there is no current namespace", fix=f"write {name.parts[-1]}.table, or table in namespace default"
        )


_STATEMENTS: tuple[tuple[tuple[str, ...], Handler], ...] = (
    (("SELECT|WITH|VALUES|FROM|TABLE|(",), _query),
    (("CREATE", "NAMESPACE|SCHEMA|DATABASE"), namespaces.create),
    (("DROP", "NAMESPACE|SCHEMA|DATABASE"), namespaces.drop),
    (("ALTER", "NAMESPACE|SCHEMA|DATABASE"), namespaces.alter),
    (("SHOW", "NAMESPACES|SCHEMAS|DATABASES"), namespaces.show),
    (("CREATE", "TABLE"), tables.create),
    (("CREATE", "OR", "REPLACE", "TABLE"), tables.replace),
    (("DROP", "TABLE"), tables.drop),
    (("CREATE", "OR|GLOBAL|TEMP|TEMPORARY"), create_view),
    (("ALTER", "TABLE"), alter.alter),
    (("COMMENT", "ON"), alter.comment_on),
    (("CREATE", "TAG"), tags.create),
    (("CREATE", "OR", "REPLACE", "TAG"), tags.replace),
    (("DROP", "TAG"), tags.drop),
    (("INSERT",), insert.insert),
    (("UPDATE",), change.update),
    (("DELETE", "FROM"), change.delete),
    (("TRUNCATE", "TABLE"), change.truncate),
    (("MERGE",), merge.merge),
    (("SHOW", "TABLES"), show.tables),
    (("SHOW", "CREATE", "TABLE"), show.create_table),
    (("SHOW", "TBLPROPERTIES"), show.properties),
    (("SHOW", "PARTITIONS"), show.partitions),
    (("SHOW", "COLUMNS"), show.columns),
    (("SHOW", "TAGS"), show.tags),
    (("SHOW", "HISTORY"), show.history),
    (("DESCRIBE|DESC",), show.describe),
    (("CALL",), calls.call),
    (("USE",), _use),
)
