"""Every aggregate function, its retraction, and late rows: expectations from Paimon's documentation."""

from __future__ import annotations

import datetime as dt
import importlib
import math
from decimal import Decimal
from typing import Any

import pytest
from tables import Table

from lakebed.core.errors import DataError

ROWS = "array<struct<id: int, n: string>>"


def aggregate(function: str, kind: str, *values: Any, kinds: str = "", sequence: Any = None, **options: str) -> Any:
    """What the values become, each in a commit of its own, and then all in one commit: both must agree."""
    settings = {"fields.v.aggregate-function": function}
    settings |= {f"fields.v.{name.replace('_', '-')}": text for name, text in options.items()}
    marks = kinds.split() or ["+I"] * len(values)
    results = []
    for together in (False, True):
        table = Table(f"k int, s int, v {kind}", "aggregation", sequence="s" if sequence else "", options=settings)
        at = sequence or [None] * len(values)
        rows = [(mark, 1, s, value) for mark, s, value in zip(marks, at, values, strict=True)]
        for batch in [rows] if together and not sequence else [[row] for row in rows]:
            table.upsert(*batch)
        results.append(table.live()[0][2])
    assert repr(results[0]) == repr(results[1])
    return results[0]


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
def test_sum_of_whole_numbers(kind: str) -> None:
    assert aggregate("sum", kind, 15, None, 20) == 35
    assert aggregate("sum", kind, None, None) is None
    assert aggregate("sum", kind, 15, 20, kinds="+I -U") == -5
    assert aggregate("sum", kind, 20, kinds="-U") == -20


def test_sum_of_decimals_keeps_the_type() -> None:
    assert aggregate("sum", "decimal(5,2)", Decimal("1.10"), Decimal("2.20")) == Decimal("3.30")
    assert aggregate("sum", "decimal(38,2)", Decimal("1.10"), Decimal("2.20"), kinds="+I -U") == Decimal("-1.10")


def test_sum_of_floats() -> None:
    assert aggregate("sum", "double", 0.5, 0.25) == 0.75
    assert aggregate("sum", "float", 0.5, 0.25) == 0.75
    assert math.isnan(aggregate("sum", "double", 0.5, math.nan))
    assert aggregate("sum", "double", math.inf, 1.0) == math.inf


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("tinyint", 100),
        ("int", 2**31 - 1),
        ("bigint", 2**63 - 1),
        ("decimal(3,2)", Decimal("9.99")),
        ("decimal(38,0)", Decimal(10**38 - 1)),
    ],
)
@pytest.mark.parametrize("function", ["sum", "product"])
def test_overflow_is_said(function: str, kind: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"the {function} of column 'v' does not fit into"):
        aggregate(function, kind, value, value)
    table = Table(
        f"k bigint, l int, v {kind}", "aggregation", key="k,l", options={"fields.v.aggregate-function": function}
    )
    many = [(n, n, value) for n in range(50)]
    table.upsert(*many)
    with pytest.raises(DataError, match=r"for the key \{'k': 33, 'l': 33\}"):
        table.upsert(*((n, n, 0 if function == "sum" else 1) for n in range(30)), (33, 33, value), (40, 40, value))


def test_product() -> None:
    assert aggregate("product", "int", 2, None, 3) == 6
    assert aggregate("product", "double", 2.0, 0.5) == 1.0
    assert aggregate("product", "decimal(10,2)", Decimal("1.50"), Decimal("1.50")) == Decimal("2.25")
    assert aggregate("product", "decimal(10,1)", Decimal("0.5"), Decimal("0.5")) == Decimal("0.3")
    assert aggregate("product", "int", 6, 2, kinds="+I -D") == 3
    assert aggregate("product", "int", -7, 2, kinds="+I -D") == -3
    assert aggregate("product", "double", 6.0, 4.0, kinds="+I -U") == 1.5


def test_product_is_null_when_taken_back_from_nothing() -> None:
    assert aggregate("product", "int", 6, kinds="-U") is None


def test_zero_cannot_be_taken_back_from_a_product() -> None:
    with pytest.raises(DataError, match="a zero cannot be taken back"):
        aggregate("product", "int", 6, 0, kinds="+I -U")


def test_count() -> None:
    assert aggregate("count", "bigint", 7, None, 9) == 2
    assert aggregate("count", "int", None) == 0
    assert aggregate("count", "int", 7, 7, 7, kinds="+I +I -D") == 1
    assert aggregate("count", "bigint", 7, 9, sequence=[2, 1]) == 2


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("int", 1, 2),
        ("decimal(4,1)", Decimal("1.5"), Decimal("2.5")),
        ("string", "Z", "a"),
        ("string", "a", "日本"),
        ("date", dt.date(1969, 1, 1), dt.date(2026, 1, 1)),
        ("timestamp_ntz", dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1)),
        ("double", 1.0, math.inf),
    ],
)
def test_min_and_max(kind: str, low: Any, high: Any) -> None:
    assert aggregate("max", kind, low, None, high) == high
    assert aggregate("min", kind, high, None, low) == low
    assert aggregate("max", kind, None) is None


def test_nan_is_the_greatest_number() -> None:
    assert math.isnan(aggregate("max", "double", 1.0, math.nan))
    assert aggregate("min", "double", 1.0, math.nan) == 1.0
    assert math.isnan(aggregate("min", "double", math.nan))


def test_first_and_last_values() -> None:
    assert aggregate("last_value", "string", "a", None) is None
    assert aggregate("last_non_null_value", "string", "a", None) == "a"
    assert aggregate("first_value", "string", None, "a") is None
    assert aggregate("first_non_null_value", "string", None, "a", "b") == "a"
    assert aggregate("last_value", "map<string,int>", [("a", 1)], [("b", 2)]) == [("b", 2)]


def test_last_values_become_null_when_taken_back() -> None:
    assert aggregate("last_value", "int", 1, 1, kinds="+I -U") is None
    assert aggregate("last_non_null_value", "int", 1, 1, kinds="+I -D") is None
    # A null brought nothing, so there is nothing to take back.
    assert aggregate("last_non_null_value", "int", 1, None, kinds="+I -D") == 1


def test_booleans() -> None:
    assert aggregate("bool_and", "boolean", True, None, False) is False
    assert aggregate("bool_and", "boolean", True, None) is True
    assert aggregate("bool_or", "boolean", False, None, True) is True
    assert aggregate("bool_or", "boolean", None) is None


def test_listagg() -> None:
    assert aggregate("listagg", "string", "a", None, "b") == "a,b"
    assert aggregate("listagg", "string", "a", "", "b", list_agg_delimiter="; ") == "a; b"
    assert aggregate("listagg", "string", "", None) == ""
    assert aggregate("listagg", "string", "a,b", "b,c,c", distinct="true") == "a,b,c"
    assert aggregate("listagg", "string", "b", "a", sequence=[2, 1]) == "a,b"


def test_collect() -> None:
    assert aggregate("collect", "array<int>", [1, 2], None, [], [1]) == [1, 2, 1]
    assert aggregate("collect", "array<int>", []) == []
    assert aggregate("collect", "array<int>", None) is None
    assert aggregate("collect", "array<int>", [1, 1], [2, 1, None], distinct="true") == [1, 2, None]
    nested = [{"id": 1, "n": "a"}]
    assert aggregate("collect", ROWS, nested, nested, distinct="true") == nested
    assert aggregate("collect", "array<int>", [2], [1], sequence=[2, 1]) == [1, 2]


def test_collect_taken_back() -> None:
    assert aggregate("collect", "array<string>", ["A", "B", "A"], ["A"], kinds="+I -U") == ["B", "A"]
    # What comes too early finds nothing: Paimon's first caveat.
    assert aggregate("collect", "array<string>", ["A"], ["A", "B"], kinds="-U +I") == ["A", "B"]


def test_merge_map() -> None:
    assert aggregate("merge_map", "map<int,string>", [(1, "A")], None, [(1, "B"), (2, "C")]) == [(1, "B"), (2, "C")]
    # One stream takes back what another has put: Paimon's second caveat.
    assert aggregate("merge_map", "map<int,string>", [(1, "A")], [(1, "B")], [(1, "B")], kinds="+I +I -D") == []


def test_nested_update() -> None:
    first, second = [{"id": 1, "n": "a"}], [{"id": 2, "n": "b"}, {"id": 1, "n": "c"}]
    keyed = [{"id": 1, "n": "c"}, {"id": 2, "n": "b"}]
    assert aggregate("nested_update", ROWS, first, None, second, nested_key="id") == keyed
    assert aggregate("nested_update", ROWS, first, first) == first + first
    assert aggregate("nested_update", ROWS, first, second, count_limit="2") == [first[0], second[0]]
    limited = aggregate("nested_update", ROWS, first, second, count_limit="1", nested_key="id")
    assert limited == [{"id": 1, "n": "c"}]


def test_nested_update_taken_back() -> None:
    rows = [{"id": 1, "n": "a"}, {"id": 2, "n": "b"}]
    other = [{"id": 1, "n": "other"}]
    assert aggregate("nested_update", ROWS, rows, other, kinds="+I -D", nested_key="id") == rows[1:]
    assert aggregate("nested_update", ROWS, rows, other, kinds="+I -D") == rows
    assert aggregate("nested_update", ROWS, rows, rows[:1], kinds="+I -D") == rows[1:]


@pytest.mark.parametrize(
    ("function", "kind", "value"),
    [
        ("min", "int", 1),
        ("max", "int", 1),
        ("first_value", "int", 1),
        ("first_non_null_value", "int", 1),
        ("bool_and", "boolean", True),
        ("bool_or", "boolean", True),
        ("listagg", "string", "a"),
    ],
)
def test_functions_that_cannot_take_back(function: str, kind: str, value: Any) -> None:
    with pytest.raises(DataError) as refused:
        aggregate(function, kind, value, value, kinds="+I -U")
    message = str(refused.value)
    assert f"1 row of kind -D or -U: columns that cannot take a row back are v ({function})" in message
    assert "-U of {'k': 1}" in message
    assert "ignore-retract" in message
    assert aggregate(function, kind, value, value, kinds="+I -U", ignore_retract="true") == value


def test_aggregation_of_the_documentation() -> None:
    options = {"fields.price.aggregate-function": "max", "fields.sales.aggregate-function": "sum"}
    table = Table("k bigint, price double, sales bigint", "aggregation", options=options)
    assert table.upsert((1, 23.0, 15), (1, 30.2, 20)) == [(1, 30.2, 35)]


def test_column_without_function_keeps_the_last_value_that_is_not_null() -> None:
    table = Table("k int, v int", "aggregation")
    assert table.upsert((1, 1), (1, None)) == [(1, 1)]


def test_late_rows_go_under_the_state() -> None:
    assert aggregate("last_non_null_value", "int", 5, 3, sequence=[5, 3]) == 5
    assert aggregate("first_value", "int", 5, 3, sequence=[5, 3]) == 3
    assert aggregate("sum", "int", 5, 3, 1, sequence=[5, 3, 1], kinds="+I +I -U") == 7


def test_aggregation_removes_the_record_on_delete() -> None:
    options = {"fields.v.aggregate-function": "max", "remove-record-on-delete": "true"}
    table = Table("k int, v int", "aggregation", options=options)
    assert table.upsert((1, 5), ("-D", 1, None)) == []
    assert table.upsert((1, 2)) == [(1, 2)]
    with pytest.raises(DataError, match="-U"):
        table.upsert(("-U", 1, 2))


@pytest.mark.parametrize("function", ["hll_sketch", "theta_sketch"])
def test_sketches(function: str) -> None:
    library: Any = importlib.import_module("datasketches")

    def sketch(*words: str) -> bytes:
        made = library.hll_sketch(12) if function == "hll_sketch" else library.update_theta_sketch()
        for word in words:
            made.update(word)
        return bytes(made.serialize_compact() if function == "hll_sketch" else made.compact().serialize())

    merged = aggregate(function, "binary", sketch("a", "b"), None, sketch("b", "c"))
    of = library.hll_sketch if function == "hll_sketch" else library.compact_theta_sketch
    assert round(of.deserialize(merged).get_estimate()) == 3
    with pytest.raises(DataError, match="is not such a sketch"):
        aggregate(function, "binary", b"no sketch at all", sketch("a"))


@pytest.mark.parametrize("function", ["last_value", "last_non_null_value"])
def test_a_value_that_must_be_there_cannot_be_taken_back(function: str) -> None:
    options = {"fields.v.aggregate-function": function}
    table = Table("k bigint, v int not null, w int", "aggregation", options=options)
    table.upsert((1, 5, 5))
    for kind in ("-D", "-U"):
        with pytest.raises(DataError, match=rf"1 row of kind .* NOT NULL columns: v[\s\S]*example {kind} of .*'k': 1"):
            table.upsert((kind, 1, 5, 5))
    keeping = Table("k bigint, v int not null", "aggregation", options={**options, "fields.v.ignore-retract": "true"})
    assert keeping.upsert((1, 5), ("-D", 1, 5)) == [(1, 5)]
    removing = Table("k bigint, v int not null", "aggregation", options={**options, "remove-record-on-delete": "true"})
    assert removing.upsert((1, 5), (2, 6), ("-D", 1, None)) == [(2, 6)]
    with pytest.raises(DataError, match="NOT NULL columns: v"):
        removing.upsert(("-U", 2, 6))


def test_a_sum_that_must_have_a_value() -> None:
    table = Table("k bigint, v int not null", "aggregation", options={"fields.v.aggregate-function": "sum"})
    assert table.upsert((1, 5), ("-D", 1, 2), ("-D", 2, 2)) == [(1, 3), (2, -2)]
    with pytest.raises(DataError, match=r"NOT NULL columns: v[\s\S]*example -D of .*'k': 3"):
        table.upsert(("-D", 3, None))
