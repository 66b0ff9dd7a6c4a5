"""PARTITION clauses: values of partition columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakebed.core.predicate import Node, conjunction
from lakebed.core.predicate.coercion import convert
from lakebed.core.predicate.nodes import Column, Compare, IsNull
from lakebed.core.predicate.parse import constant
from lakebed.core.suggest import did_you_mean
from lakebed.sql.cursor import Cursor
from lakebed.table import Table


@dataclass(frozen=True)
class PartitionSpec:
    """``PARTITION (dt = '2026-11-17', hour)``: values of some columns, and others that rows bring along."""

    values: dict[str, Any]
    dynamic: tuple[str, ...]


def partition_spec(cursor: Cursor, table: Table) -> PartitionSpec:
    """Go past the columns in parentheses. Raises SqlError for what is no partition column."""
    values: dict[str, Any] = {}
    dynamic: list[str] = []

    def one() -> None:
        word = cursor.word
        given = cursor.name("a partition column")
        name = next((name for name in table.partition_by if name.casefold() == given.casefold()), None)
        if name is None or name in values or name in dynamic:
            assert word is not None
            raise cursor.error(
                word,
                f"{given!r} is no partition column of table {table.name}"
                if name is None
                else f"{given!r} is given twice",
                expected=", ".join(table.partition_by) or "no PARTITION clause: the table has no partitions",
                fix=did_you_mean(given, table.partition_by),
            )
        if not cursor.take("="):
            dynamic.append(name)
            return
        cursor.take("DATE")
        values[name] = cursor.constant("a constant")

    cursor.listed(one)
    return PartitionSpec(values, tuple(dynamic))


def partition_condition(cursor: Cursor, table: Table) -> Node:
    """Go past a PARTITION clause that names partitions; the condition that is true for their rows."""
    return condition_of(table, partition_spec(cursor, table).values)


def condition_of(table: Table, values: dict[str, Any]) -> Node:
    """The condition that columns have these values. Raises PredicateError for one that does not fit."""
    schema = table._point().metadata.schema
    terms: list[Node] = []
    for name, value in values.items():
        column = Column((name,), schema[name].type)
        terms.append(
            IsNull(column) if value is None else Compare("=", column, convert(constant(value), schema[name].type))
        )
    return conjunction(*terms)
