"""A condition on many values at once: one parameter, so one compiled statement whatever their number."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from lakebed.metastore.rows import dump


class _Values(TypeDecorator[Any]):
    """A list of numbers or texts: an array for PostgreSQL, JSON for SQLite."""

    impl = Text
    cache_ok = True

    def __init__(self, *, numbers: bool) -> None:
        super().__init__()
        self.numbers = numbers

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import ARRAY  # who uses SQLite does not wait for it

            return dialect.type_descriptor(ARRAY(BigInteger() if self.numbers else Text()))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return list(value) if dialect.name == "postgresql" else dump(list(value))


class one_of(FunctionElement[bool]):
    """``tested`` is one of the values of the parameter ``name``, which may be thousands.

    >>> from sqlalchemy import column
    >>> print(one_of(column("path"), "paths"))
    path IN (SELECT value FROM json_each(:paths))
    """

    # Without a type: of a boolean SQLite would be asked whether it "= 1", and then uses no index.
    inherit_cache = True

    def __init__(self, tested: ColumnElement[Any], name: str) -> None:
        kind = _Values(numbers=isinstance(tested.type, BigInteger))
        super().__init__(tested, bindparam(name, type_=kind))


def _parts(element: one_of, compiler: SQLCompiler, options: Any) -> list[str]:
    return [compiler.process(part, **options) for part in element.clauses]


@compiles(one_of)
def _in_json(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    tested, values = _parts(element, compiler, options)
    return f"{tested} IN (SELECT value FROM json_each({values}))"


@compiles(one_of, "postgresql")
def _in_array(element: one_of, compiler: SQLCompiler, **options: Any) -> str:
    tested, values = _parts(element, compiler, options)
    return f"{tested} = ANY ({values})"
