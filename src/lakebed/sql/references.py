"""Where a query reads tables: their names, what they are called in it, and which of their versions is meant.

The text of a query is never written anew: sqlglot's tree tells what the words mean, and their places tell which of
them to replace. What no parser of Spark's SQL knows, ``table_changes(…)`` and versions, becomes one word before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from lakebed.core.errors import SqlError
from lakebed.sql.cursor import Cursor, Name, Span
from lakebed.sql.source import Source


class _Spark(Spark):
    """Spark's dialect with its default of today: a cast that fails is an error, not null."""

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]  # compiled, without types
        STRICT_CAST = True


_VERSIONED = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "timestamp", "SYSTEM_TIME": "timestamp"}
CHANGES = "table_changes"


@dataclass(frozen=True)
class AsOf:
    """Which version is meant: a number or a tag, or the newest at a time."""

    kind: str
    """``version`` or ``timestamp``."""
    value: Any
    place: Span
    computed: bool = False
    """The value is SQL that is yet to be computed."""


@dataclass(frozen=True)
class Lifted:
    """A table that the text names with more than its name."""

    name: Name
    as_of: AsOf | None = None
    arguments: tuple[Any, ...] | None = None
    """Those of ``table_changes``, the name of the table left out."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Reference:
    """A place in a query where a table is read."""

    parts: tuple[str, ...]
    start: int
    end: int
    node: exp.Table = field(hash=False, repr=False)
    lifted: Lifted | None = None
    full: tuple[str, ...] = ()
    """What columns may be qualified with besides its alias."""

    @property
    def alias(self) -> str | None:
        """What the query calls it, if it says so."""
        return self.node.alias or None

    @property
    def is_sampled(self) -> bool:
        """Whether only some of its rows are wanted."""
        return bool(self.node.args.get("sample"))

    @property
    def place(self) -> Name:
        """Where it is."""
        return Name(self.parts, self.start, self.end)


@dataclass(frozen=True)
class Query:
    """A query, or a part of a statement that reads tables."""

    source: Source
    span: Span
    tree: exp.Expression = field(hash=False, repr=False)
    references: tuple[Reference, ...]

    @property
    def parameters(self) -> set[str]:
        """The names of its parameters."""
        return {str(node.this) for node in self.tree.find_all(exp.Placeholder) if node.this}


def read_query(source: Source, span: Span, parameters: Mapping[str, Any]) -> Query:
    """The query at a place of a statement. Raises SqlError for one that cannot be parsed."""
    tokens, lifted = _lift(source, span, parameters)
    tree = parse_tokens(source, tokens)
    found = []
    for node in tree.find_all(exp.Table):
        names = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(names) < len(node.parts) or not names or "start" not in names[0].meta:
            continue
        parts = tuple(part.name for part in names)
        if len(parts) == 1 and parts[0] not in lifted and _is_shadowed(node, parts[0]):
            continue
        start, end = names[0].meta["start"] - source.shift, names[-1].meta["end"] + 1 - source.shift
        one = Reference(parts, start, end, node)
        known = lifted.get(parts[0]) if len(parts) == 1 else None
        found.append(one if known is None else replace(one, parts=known.name.parts, lifted=known))
    return Query(source, span, tree, tuple(sorted(found, key=lambda one: one.start)))


def parse_tokens(source: Source, tokens: Sequence[Token]) -> exp.Expression:
    """The tree of some words of a statement. Raises SqlError that points at what cannot be understood."""
    try:
        trees = _Spark().parser().parse(list(tokens), source.padded)
    except ParseError as error:
        raise _syntax_error(source, error) from error
    except (SqlglotError, RecursionError) as error:
        raise SqlError(f"the statement cannot be parsed: {error}") from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Expression):
        raise SqlError("the statement cannot be parsed")
    return tree


def _syntax_error(source: Source, error: ParseError) -> SqlError:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    if not line or not column:
        return SqlError(f"the statement cannot be parsed: {error}")
    word = str(first.get("highlight") or "")
    lines = source.text.split("\n")
    begin = sum(len(text) + 1 for text in lines[: line - 1])
    end = begin + column - (source.shift if line == 1 else 0)
    what = f"unexpected {word!r}" if word else "the statement ends too early"
    return source.error(max(0, end - max(1, len(word))), end, what, expected="a query of Spark's SQL")


def _is_shadowed(node: exp.Expression, name: str) -> bool:
    """Whether the name is that of a common table expression, which is seen here."""
    inner: exp.Expr = node
    above = node.parent
    while above is not None:
        block = above.args.get("with_") or above.args.get("with")
        if isinstance(block, exp.With) and inner is not block:
            if any(cte.alias.casefold() == name.casefold() for cte in block.expressions):
                return True
        elif isinstance(above, exp.With):
            at = next((i for i, cte in enumerate(above.expressions) if cte is inner), 0)
            seen = above.expressions[: at + 1] if above.args.get("recursive") else above.expressions[:at]
            if any(cte.alias.casefold() == name.casefold() for cte in seen):
                return True
        inner, above = above, above.parent
    return False


def _lift(source: Source, span: Span, parameters: Mapping[str, Any]) -> tuple[list[Token], dict[str, Lifted]]:
    """The words with each special table as one name, and what those names stand for."""
    tokens: list[Token] = []
    lifted: dict[str, Lifted] = {}
    cursor = Cursor(source, parameters, span.first, span.last)
    while not cursor.at_end:
        first = cursor.at
        word = source.words[first]
        special = _changes(cursor) if word.upper == CHANGES.upper() and cursor.sees("(", skip=1) else None
        if special is None and _begins_name(source, first, span.first):
            special = _versioned(cursor)
        if special is None:
            cursor.at = first + 1
            if first == span.first or source.words[first - 1].token != word.token:
                tokens.append(source.tokens[word.token])
            continue
        name = f"lakebed table {len(lifted)}"
        lifted[name] = special
        begin, end = (source.tokens[source.words[at].token] for at in (first, cursor.at - 1))
        tokens.append(Token(TokenType.IDENTIFIER, name, line=end.line, col=end.col, start=begin.start, end=end.end))
    return tokens, lifted


def _begins_name(source: Source, at: int, first: int) -> bool:
    word = source.words[at]
    is_name = word.kind == TokenType.IDENTIFIER or word.spelled.isidentifier()
    return is_name and (at == first or source.words[at - 1].upper != ".")


def _versioned(cursor: Cursor) -> Lifted | None:
    """A name with a version behind it; the cursor is behind both then."""
    name = cursor.dotted()
    cursor.take("FOR")
    word = cursor.word
    if word is None or word.upper not in _VERSIONED or not cursor.sees("AS", "OF", skip=1):
        return None
    first = cursor.at
    cursor.at += 3
    kind = _VERSIONED[word.upper]
    value, computed = _moment(cursor)
    return Lifted(name, AsOf(kind, value, cursor.span(first), computed))


def _moment(cursor: Cursor) -> tuple[Any, bool]:
    first = cursor.at
    word = cursor.word
    if word is not None and (word.kind in (TokenType.NUMBER, TokenType.STRING) or word.upper == ":"):
        value = cursor.constant()
        if not cursor.sees("+|-"):
            return value, False
        cursor.at = first
    _operand(cursor)
    while cursor.take("+|-"):
        _operand(cursor)
    return cursor.slice(cursor.span(first)), True


def _operand(cursor: Cursor) -> None:
    if cursor.take("INTERVAL"):
        cursor.at += 1
        word = cursor.word
        if word is not None and word.upper.rstrip("S") in ("DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "MONTH", "YEAR"):
            cursor.at += 1
        return
    if cursor.sees("("):
        cursor.skip_group()
        return
    word = cursor.word
    if word is None:
        cursor.fail(expected="a version, a tag or a time")
    cursor.at += 1
    if word.upper in ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") or word.upper == ":":
        cursor.at += 1
    elif cursor.sees("("):
        cursor.skip_group()


def _changes(cursor: Cursor) -> Lifted:
    """``table_changes('t', from, to)``; the cursor is behind it then."""
    cursor.at += 1
    cursor.need("(")
    word = cursor.word
    text = cursor.text("the name of a table in quotes")
    assert word is not None
    values: list[Any] = []
    options: dict[str, Any] = {}
    while cursor.take(","):
        if cursor.sees("=>|=", skip=1):
            name = cursor.name().lower()
            cursor.need("=>|=")
            options[name] = cursor.constant("a version, a time or a tag")
        else:
            values.append(cursor.constant("a version, a time or a tag"))
    cursor.need(")")
    return Lifted(Name(tuple(split_text(text)), word.start, word.end), None, tuple(values), options)


def split_text(text: str) -> list[str]:
    """The parts of a name that a text holds.

    >>> split_text("shop.orders"), split_text("`a.b`.c")
    (['shop', 'orders'], ['a.b', 'c'])
    """
    parts, quoted = [""], False
    for letter in text:
        if letter == "`":
            quoted = not quoted
        elif letter == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
