"""The reference of SQL statements, procedures and system tables, from the tables that the code dispatches by."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator

from api_reference import markdown
from table_reference import table

import lakebed
from lakebed.sql.alter import _ACTIONS as ALTERATIONS
from lakebed.sql.calls import PROCEDURES
from lakebed.sql.runner import _STATEMENTS as STATEMENTS
from lakebed.sql.system_tables import SYSTEM_TABLES


def pages() -> dict[str, str]:
    """The Markdown of each page, by file name."""
    return {"sql-statements.md": _statements()}


def _statements() -> str:
    statements = [[f"`{_words(words)}`", _grammar(handler)] for words, handler in STATEMENTS]
    procedures = [
        [f"`{name}`", ", ".join(f"`{p}`" + ("" if n < one.needed else "?") for n, p in enumerate(one.parameters))]
        for name, one in PROCEDURES.items()
    ]
    alterations = ", ".join(f"`{_words(words)}`" for words, _ in ALTERATIONS if len(words) > 1)
    return "\n".join(
        [
            "# SQL statements",
            "",
            "What each of them means is told in [SQL](../sql.md). Everything else goes to Spark as it is.",
            "",
            table(["begins with", "statement"], statements),
            "",
            f"`ALTER TABLE name` goes on with {alterations}.",
            "",
            "## Procedures",
            "",
            "`CALL lakebed.name(parameter => value, …)`. Parameters with a question mark may be left out.",
            "",
            table(["procedure", "parameters"], procedures),
            "",
            "## System tables",
            "",
            "Of any table `t`.",
            "",
            table(["name", "columns"], _system_tables()),
            "",
        ]
    )


def _system_tables() -> Iterator[list[str]]:
    """Each of them, with the columns that a query finds; those of the table itself are an ellipsis."""
    with tempfile.TemporaryDirectory() as folder, lakebed.connect(folder) as lake:
        own = lake.create_table("t", "id BIGINT", primary_key=["id"]).schema.names
        for name in SYSTEM_TABLES:
            found = lake.sql(f"SELECT * FROM `t${name}`").schema.names
            shown = ["…", *(c for c in found if c not in own)] if set(own) <= set(found) else found
            yield [f"`t${name}`", ", ".join(f"`{c}`" if c != "…" else c for c in shown)]


def _words(words: tuple[str, ...]) -> str:
    return " ".join(word.replace("|", " or ") for word in words)


def _grammar(handler: Callable[..., object]) -> str:
    text = markdown(inspect.getdoc(handler) or "a query").splitlines()[0]
    grammar, colon, rest = text.rstrip(".").partition(": ")
    return f"`{grammar}`{colon}{rest}" if text.split(maxsplit=1)[0].isupper() else text
