"""Conditions on many values at once: one parameter, so one cached statement whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Text,
    any_,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY

from lakebed.metastore.rows import dump


def is_one_of(connection: Connection, tested: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """``tested`` is one of ``values``, which may be thousands."""
    if connection.dialect.name == "postgresql":
        kind = BigInteger() if isinstance(tested.type, BigInteger) else Text()
        return tested == any_(bindparam(None, list(values), type_=ARRAY(kind), unique=True))
    listed = func.json_each(bindparam(None, dump(list(values)), type_=Text(), unique=True))
    return tested.in_(select(listed.table_valued(column("value")).c.value))
