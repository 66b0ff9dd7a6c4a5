"""The SQL mapper: column lists such as ``id BIGINT NOT NULL COMMENT 'x', tags ARRAY<STRING>``.

The grammar is Spark's, with one extension: Spark cannot say that array elements or map values are
never null, so ``ARRAY<INT NOT NULL>`` and ``MAP<STRING, INT NOT NULL>`` say it here.
``to_ddl(schema, portable=True)`` leaves that out for Spark to read.

>>> schema = from_ddl("id BIGINT NOT NULL, tags ARRAY<STRING>, s STRUCT<a: INT COMMENT 'c'>")
>>> to_ddl(schema)
"id BIGINT NOT NULL, tags ARRAY<STRING>, s STRUCT<a: INT COMMENT 'c'>"
"""

from __future__ import annotations

import difflib
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from lakebed.core.errors import SchemaError
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    COMMENT,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    Type,
)
from lakebed.core.schema_path import quote_name
from lakebed.core.sql_tokens import join_quotes

_WORDS = {
    "BOOLEAN": BOOLEAN, "TINYINT": BYTE, "BYTE": BYTE, "SMALLINT": SHORT, "SHORT": SHORT, "INT": INTEGER,
    "INTEGER": INTEGER, "BIGINT": LONG, "LONG": LONG, "FLOAT": FLOAT, "REAL": FLOAT, "DOUBLE": DOUBLE,
    "STRING": STRING, "BINARY": BINARY, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}  # fmt: skip
_NAMES = {
    BOOLEAN: "BOOLEAN", BYTE: "TINYINT", SHORT: "SMALLINT", INTEGER: "INT", LONG: "BIGINT", FLOAT: "FLOAT",
    DOUBLE: "DOUBLE", STRING: "STRING", BINARY: "BINARY", DATE: "DATE", TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ", VOID: "VOID",
}  # fmt: skip
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_SIZED_STRINGS = ("CHAR", "CHARACTER", "VARCHAR")
_KNOWN = (*_WORDS, *_DECIMALS, *_SIZED_STRINGS, "ARRAY", "MAP", "STRUCT")


def to_ddl(schema: Struct, *, portable: bool = False) -> str:
    """The schema as a column list; comments are its only metadata.

    ``portable`` leaves out the NOT NULL of array elements and map values, which Spark cannot read.
    """
    return ", ".join(_column(f, " ", portable) for f in schema)


def type_ddl(kind: Type, *, portable: bool = False) -> str:
    """One type in SQL, as messages show it.

    >>> type_ddl(Map(STRING, Decimal(10, 2)))
    'MAP<STRING, DECIMAL(10,2)>'
    """
    if isinstance(kind, Primitive):
        return _NAMES.get(kind, kind.name)
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, Array):
        return f"ARRAY<{_inner(kind.element, kind.contains_null, portable)}>"
    if isinstance(kind, Map):
        value = _inner(kind.value, kind.value_contains_null, portable)
        return f"MAP<{type_ddl(kind.key, portable=portable)}, {value}>"
    return f"STRUCT<{', '.join(_column(f, ': ', portable) for f in kind)}>"


def _inner(kind: Type, nullable: bool, portable: bool) -> str:
    return type_ddl(kind, portable=portable) + ("" if nullable or portable else " NOT NULL")


def _column(column: Field, between: str, portable: bool) -> str:
    text = quote_name(column.name) + between + type_ddl(column.type, portable=portable)
    if not column.nullable:
        text += " NOT NULL"
    if column.comment is not None:
        escaped = column.comment.replace("\\", "\\\\").replace("'", "\\'")
        text += f" COMMENT '{escaped}'"
    return text


def from_ddl(text: str) -> Struct:
    """The schema that a column list describes. Raises ``SchemaError`` with the position of a mistake.

    ``CHAR(n)`` and ``VARCHAR(n)`` are read as ``STRING``; ``DECIMAL`` alone is ``DECIMAL(10,0)``.
    """
    parser = _Parser(text)
    if parser.at_end():
        parser.fail("there are no columns", expected="a column such as id BIGINT NOT NULL")
    columns = parser.columns(in_struct=False)
    if not parser.at_end():
        parser.fail(f"unexpected {parser.found()}", expected="a comma or the end")
    return Struct(columns)


def type_from_ddl(text: str) -> Type:
    """The type that SQL text names. Raises ``SchemaError`` with the position of a mistake.

    >>> type_from_ddl("ARRAY<DECIMAL(10,2)>")
    Array(element=Decimal(precision=10, scale=2), contains_null=True)
    """
    parser = _Parser(text)
    kind = parser.type()
    if not parser.at_end():
        parser.fail(f"unexpected {parser.found()}", expected="the end of the type")
    return kind


class _Parser:
    """Recursive descent over sqlglot's tokens of Spark SQL.

    sqlglot's own parser takes many texts for a type that Spark does not know, and its errors have no
    position in the user's text; only its tokens are used.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        try:
            # The parenthesis keeps a first column called `show` or `call` from being read as a command.
            self._tokens: list[Token] = join_quotes(Spark().tokenize("(" + text), "(" + text)[1:]
        except SqlglotError as error:
            raise SchemaError(
                f"SQL schema {text!r} cannot be read: {error}", fix="close every quote and backtick"
            ) from error

    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def found(self) -> str:
        return "end of the text" if self.at_end() else repr(self._source(self._tokens[self._next]))

    def fail(self, what: str, *, expected: str | None = None, fix: str | None = None) -> NoReturn:
        offset = len(self._text) if self.at_end() else self._tokens[self._next].start - 1
        before = self._text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
        near = self._text[max(0, offset - 20) : offset] + "▸" + self._text[offset : offset + 20]
        raise SchemaError(f"SQL schema, line {line}, column {column} ({near!r}): {what}", expected=expected, fix=fix)

    def _source(self, token: Token) -> str:
        return self._text[token.start - 1 : token.end]

    def _take(self, kind: TokenType) -> Token | None:
        if not self.at_end() and self._tokens[self._next].token_type == kind:
            self._next += 1
            return self._tokens[self._next - 1]
        return None

    def _need(self, kind: TokenType, text: str) -> Token:
        token = self._take(kind)
        if token is None:
            self.fail(f"unexpected {self.found()}", expected=text)
        return token

    def _is_word(self) -> bool:
        if self.at_end():
            return False
        token = self._tokens[self._next]
        text = self._source(token)
        return token.token_type != TokenType.IDENTIFIER and text.isidentifier()

    def columns(self, *, in_struct: bool) -> tuple[Field, ...]:
        found = [self._one_column(in_struct)]
        while self._take(TokenType.COMMA):
            found.append(self._one_column(in_struct))
        return tuple(found)

    def _one_column(self, in_struct: bool) -> Field:
        name = self._name()
        if in_struct:
            self._take(TokenType.COLON)
        kind = self.type()
        nullable, comment = True, None
        while not self.at_end():
            if self._take(TokenType.COMMENT):
                comment = self._need(TokenType.STRING, "the comment as 'text'").text
            elif self._tokens[self._next].token_type in (TokenType.NOT, TokenType.NULL):
                nullable = self._nullable()
            else:
                break
        if self._is_word():
            self.fail(
                f"unexpected {self.found()} after the type of {name!r}",
                expected="NOT NULL, COMMENT 'text' or a comma",
            )
        return Field(name, kind, nullable, {} if comment is None else {COMMENT: comment})

    def _name(self) -> str:
        quoted = self._take(TokenType.IDENTIFIER)
        if quoted is not None:
            return str(quoted.text)
        if not self._is_word():
            fix = None if self.at_end() else "put a name that is no plain word in backticks"
            self.fail(f"unexpected {self.found()}", expected="a column name", fix=fix)
        self._next += 1
        return self._source(self._tokens[self._next - 1])

    def _nullable(self) -> bool:
        """Whether a NULL or NOT NULL, if there is one, allows nulls."""
        if self._take(TokenType.NOT):
            self._need(TokenType.NULL, "NULL after NOT")
            return False
        self._take(TokenType.NULL)
        return True

    def type(self) -> Type:
        if not self._is_word():
            self.fail(f"unexpected {self.found()}", expected="a type such as BIGINT or ARRAY<STRING>")
        word = self._source(self._tokens[self._next]).upper()
        if word not in _KNOWN:
            near = difflib.get_close_matches(word, _KNOWN, n=2)
            self.fail(
                f"unknown type {word}",
                expected=f"one of {', '.join(_KNOWN)}",
                fix=f"did you mean {' or '.join(near)}?" if near else None,
            )
        self._next += 1
        if word in _WORDS:
            return _WORDS[word]
        if word in _DECIMALS:
            return self._decimal()
        if word in _SIZED_STRINGS:
            self._numbers()
            return STRING
        return self._nested(word)

    def _nested(self, word: str) -> Type:
        if not self.at_end() and self._tokens[self._next].token_type == TokenType.NEQ:
            self.fail(f"{word}<> is empty", expected="what it contains")
        self._need(TokenType.LT, f"{word}<…>")
        kind: Type
        if word == "STRUCT":
            kind = Struct(self.columns(in_struct=True))
        elif word == "ARRAY":
            element = self.type()
            kind = Array(element, self._nullable())
        else:
            key = self.type()
            self._need(TokenType.COMMA, "a comma between the key and the value type")
            value = self.type()
            kind = Map(key, value, self._nullable())
        self._need(TokenType.GT, f"> at the end of {word}<…>")
        return kind

    def _decimal(self) -> Decimal:
        numbers = self._numbers()
        if len(numbers) > 2:
            self.fail("DECIMAL has too many parameters", expected="DECIMAL(precision, scale)")
        precision, scale = (*numbers, *(10, 0)[len(numbers) :])
        if not 1 <= precision <= 38 or scale > precision:
            self.fail(
                f"DECIMAL({precision},{scale}) is not possible",
                expected="a precision of 1 to 38 and a scale of 0 to the precision",
            )
        return Decimal(precision, scale)

    def _numbers(self) -> tuple[int, ...]:
        if not self._take(TokenType.L_PAREN):
            return ()
        found = [self._number()]
        while self._take(TokenType.COMMA):
            found.append(self._number())
        self._need(TokenType.R_PAREN, "a closing parenthesis")
        return tuple(found)

    def _number(self) -> int:
        token = self._need(TokenType.NUMBER, "a whole number")
        if not token.text.isdecimal():
            self._next -= 1
            self.fail(f"unexpected {token.text!r}", expected="a whole number")
        return int(token.text)
