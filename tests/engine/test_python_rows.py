"""Plain Python rows keep their values, or are refused with every reason."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import lakebed
from lakebed import DataError, InputError
from lakebed.core.schema_ddl import from_ddl
from lakebed.engine.python_rows import table_of_dicts

NOW = dt.datetime(2026, 11, 15, 10, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("TINYINT", -128),
        ("BIGINT", 2**63 - 1),
        ("DOUBLE", 1.5),
        ("DOUBLE", 2),
        ("DECIMAL(4,2)", Decimal("1.5")),
        ("DATE", NOW.date()),
        ("TIMESTAMP", NOW),
        ("TIMESTAMP_NTZ", NOW.replace(tzinfo=None)),
        ("STRING", "text"),
        ("BINARY", b"\x00"),
        ("BOOLEAN", True),
        ("ARRAY<INT>", [1, None]),
        ("STRUCT<a: INT, b: ARRAY<DATE>>", {"a": 1, "b": [NOW.date()]}),
        ("MAP<STRING, INT>", [("k", 1)]),
    ],
)
def test_values_are_kept(kind: str, value: Any) -> None:
    assert table_of_dicts([{"c": value}, {}], from_ddl(f"c {kind}"), "t")["c"].to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT", 1.5),
        ("INT", 2.0),
        ("INT", True),
        ("INT", "1"),
        ("INT", Decimal(1)),
        ("TINYINT", 128),
        ("STRING", 1),
        ("BOOLEAN", 1),
        ("DECIMAL(4,2)", Decimal("1.234")),
        ("DECIMAL(4,2)", 1.5),
        ("DATE", NOW),
        ("DATE", 5),
        ("DATE", "2026-11-15"),
        ("TIMESTAMP", 5),
        ("TIMESTAMP", 5.5),
        ("ARRAY<INT>", [1, 2.5]),
        ("ARRAY<INT>", 1),
        ("STRUCT<a: INT>", {"a": 1.5}),
        ("STRUCT<a: STRUCT<b: DATE>>", {"a": {"b": NOW.replace(tzinfo=None)}}),
        ("MAP<STRING, INT>", {"k": 1.5}),
        ("MAP<INT, STRING>", [(1.5, "v")]),
    ],
)
def test_values_that_would_change_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(DataError) as caught:
        table_of_dicts([{"c": None}, {"c": value}], from_ddl(f"c {kind}"), "t")
    (problem,) = caught.value.problems
    assert problem.startswith("column c: expected ")
    assert problem.endswith(f"found {value!r} (in row 1)")


def test_long_values_are_cut_in_the_message() -> None:
    with pytest.raises(DataError) as caught:
        table_of_dicts([{"c": "x" * 10_000}], from_ddl("c INT"), "t")
    assert len(str(caught.value)) < 300


def test_names_are_found_in_any_case() -> None:
    assert table_of_dicts([{"Small": 1}], from_ddl("small INT"), "t").schema.field("Small").type == "int32"


def test_keys_are_text() -> None:
    with pytest.raises(InputError, match="the keys of a row are column names; found 1"):
        table_of_dicts([{1: 2}], from_ddl("c INT"), "t")


def test_a_struct_with_required_members_may_be_missing(local_lake: lakebed.Warehouse) -> None:
    """Arrow puts nulls below a null struct, which its Parquet writer then refuses."""
    table = local_lake.create_table("t", "id INT, home STRUCT<zip: STRING NOT NULL, at: STRUCT<x: INT NOT NULL>>")
    table.append([{"id": 1}])
    table.append([{"id": 2, "home": None}, {"id": 3, "home": {"zip": "1"}}])
    assert table.to_arrow().to_pylist() == [
        {"id": 1, "home": None},
        {"id": 2, "home": None},
        {"id": 3, "home": {"zip": "1", "at": None}},
    ]
