"""What may come next in a statement: keywords, tables, and the columns of the tables that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from lakebed.core.errors import LakebedError

if TYPE_CHECKING:
    from lakebed.warehouse import Warehouse

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "ON", "AS", "AND", "OR",
    "NOT", "IN", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT",
    "COUNT(*)", "SUM(", "AVG(", "MIN(", "MAX(", "WITH", "UNION ALL", "VALUES", "CAST(",
    "VERSION AS OF", "TIMESTAMP AS OF", "INSERT INTO", "INSERT OVERWRITE", "UPDATE", "SET", "DELETE FROM",
    "MERGE INTO", "USING", "WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *",
    "CREATE TABLE", "CREATE NAMESPACE", "DROP TABLE", "DROP NAMESPACE", "ALTER TABLE", "ADD COLUMN", "PRIMARY KEY",
    "PARTITIONED BY", "TBLPROPERTIES", "SHOW TABLES", "SHOW NAMESPACES", "DESCRIBE", "DESCRIBE HISTORY", "CALL",
)  # fmt: skip
_WORD = re.compile(r"[\w.`$]*$")
_NAMED = re.compile(
    r"\b(?:from|join|into|update|table|describe|history)\s+([\w.]+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE
)
_BEFORE_TABLE = re.compile(r"\b(?:from|join|into|update|table|describe|history|extended)\s+[\w.]*$", re.IGNORECASE)
_SYSTEM = ("$history", "$files", "$partitions", "$buckets", "$tags", "$schemas", "$options")


class Names:
    """The tables of a warehouse and their columns, asked for once until something may have changed."""

    def __init__(self, lake: Warehouse) -> None:
        self._lake = lake
        self._tables: list[str] | None = None
        self._columns: dict[str, list[str]] = {}

    def forget(self) -> None:
        """A statement has run: ask again."""
        self._tables = None
        self._columns.clear()

    def tables(self) -> list[str]:
        """Full names, and those of the default namespace also without it."""
        if self._tables is None:
            try:
                full = [name for space in self._lake.namespaces() for name in self._lake.tables(space)]
            except LakebedError:
                return []  # a metastore that is away for a moment is no reason to stop somebody's typing
            self._tables = [*full, *(name.removeprefix("default.") for name in full if name.startswith("default."))]
        return self._tables

    def columns(self, table: str) -> list[str]:
        """The columns of a table; none if there is no such table."""
        if table not in self._columns:
            try:
                self._columns[table] = list(self._lake.table(table).schema.names)
            except LakebedError:
                self._columns[table] = []
        return self._columns[table]


class SqlCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """What may stand in the place of the word, the likeliest first."""
        before = document.text_before_cursor
        found = _WORD.search(before)
        word = found[0] if found else ""
        if not word and not complete_event.completion_requested:
            return
        for text, kind in self._candidates(before, document.text, word):
            if text.casefold().startswith(word.casefold()):
                yield Completion(text, start_position=-len(word), display_meta=kind)

    def _candidates(self, before: str, text: str, word: str) -> Iterator[tuple[str, str]]:
        tables = self._names.tables()
        if "$" in word:
            table = word.partition("$")[0]
            yield from ((table + name, "system table") for name in _SYSTEM)
            return
        if _BEFORE_TABLE.search(before):
            yield from ((name, "table") for name in tables)
            return
        named = _named(text, tables)
        prefix, dot, _ = word.rpartition(".")
        if dot:
            yield from ((f"{prefix}.{name}", "column") for name in self._names.columns(named.get(prefix, prefix)))
            yield from ((name, "table") for name in tables)
            return
        yield from _once(
            (name, "column") for table in dict.fromkeys(named.values()) for name in self._names.columns(table)
        )
        yield from ((_as_typed(keyword, word), "") for keyword in KEYWORDS)
        yield from ((name, "table") for name in tables)


def _named(text: str, tables: Iterable[str]) -> dict[str, str]:
    """The tables that a statement names, by name and by alias."""
    known = set(tables)
    found: dict[str, str] = {}
    for name, alias in _NAMED.findall(text):
        if name in known:
            found[name] = name
            if alias:
                found[alias] = name
    return found


def _once(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield from dict(pairs).items()


def _as_typed(keyword: str, word: str) -> str:
    """Who types in small letters gets small letters."""
    return keyword.lower() if word and word == word.lower() else keyword


def lexer() -> Any:
    """Colours for SQL."""
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    return PygmentsLexer(SqlLexer)
