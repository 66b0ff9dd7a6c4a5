import datetime as dt
from decimal import Decimal as Exact

import pyarrow as pa
import pytest

from lakebed.core.errors import PredicateError
from lakebed.core.predicate import evaluate, parse, parse_value, to_expression
from lakebed.core.predicate.evaluate import project
from lakebed.core.schema_arrow import from_arrow

ROWS = pa.table(
    {
        "a": pa.array([1, 10, None, -7], pa.int32()),
        "b": pa.array([0, 3, 1, 2], pa.int64()),
        "x": pa.array([0.5, float("nan"), None, -0.0]),
        "m": pa.array([Exact("1.25"), Exact("-2.35"), None, Exact("0.00")], pa.decimal128(10, 2)),
        "s": pa.array(["Ab", "a\nb", None, "é_x"]),
        "d": pa.array([dt.date(2026, 11, 15), dt.date(1969, 12, 31), None, dt.date(2026, 1, 1)]),
        "ts": pa.array([1, -1, None, 10**15], pa.timestamp("us", "UTC")),
        "n": pa.array(["7", " 8 ", None, "-1"]),
    }
)
SCHEMA = from_arrow(ROWS.schema)


def value(text):
    return evaluate(parse_value(text, SCHEMA), ROWS).to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 1", [False, True, None, False]),
        ("a > 1 or b = 1", [False, True, True, False]),
        ("a in (1, null)", [True, None, None, None]),
        ("a not in (1, 10)", [False, False, None, True]),
        ("a <=> null", [False, False, True, False]),
        ("x = x", [True, False, None, True]),
        ("x in (0)", [False, False, None, True]),
        ("s like 'a%b'", [False, True, None, False]),
        ("s ilike 'A_'", [True, False, None, False]),
        ("s like '_\\\\_%'", [False, False, None, True]),
        ("s rlike '^a.?'", [False, True, None, False]),
        ("m = 1.25", [True, False, None, False]),
        ("m > -2.355", [True, True, None, True]),
        ("a % 2 = -1", [False, False, None, True]),
        ("a / 4 = 2.5", [False, True, None, False]),
        ("year(d) = 2026", [True, False, None, True]),
        ("cast(ts as date) = '1969-12-31'", [False, True, None, False]),
        ("ts < '1970-01-01'", [False, True, None, False]),
        ("d = ts", [False, False, None, False]),
        ("b <> 0 and a / b > 1", [False, True, None, False]),
        ("b = 0 or a / b > 1", [True, True, None, False]),
        ("case when b = 0 then false else 10 div b > 3 end", [False, False, True, True]),
        ("coalesce(case when b = 0 then 1 end, 6 div b) = 2", [False, True, False, False]),
        ("true", [True] * 4),
        ("null", [None] * 4),
    ],
)
def test_conditions(text, expected):
    node = parse(text, SCHEMA)
    assert evaluate(node, ROWS).to_pylist() == expected
    assert ROWS.filter(to_expression(node)).num_rows == expected.count(True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a * 2 + 1", [3, 21, None, -13]),
        ("a div 4", [0, 2, None, -1]),
        ("-m", [Exact("-1.25"), Exact("2.35"), None, Exact("0.00")]),
        ("cast(m as int)", [1, -2, None, 0]),
        ("cast(m as decimal(5,1))", [Exact("1.3"), Exact("-2.4"), None, Exact("0.0")]),
        ("cast(b as decimal(5,2))", [Exact("0.00"), Exact("3.00"), Exact("1.00"), Exact("2.00")]),
        ("cast(n as int)", [7, 8, None, -1]),
        ("cast(a as string)", ["1", "10", None, "-7"]),
        ("upper(s)", ["AB", "A\nB", None, "É_X"]),
        ("length(s)", [2, 3, None, 3]),
        ("substring(s, 2, 1)", ["b", "\n", None, "_"]),
        ("substring(s, -2)", ["Ab", "\nb", None, "_x"]),
        ("substring(s, -5, 3)", ["", "a", None, "é"]),
        ("s || '!'", ["Ab!", "a\nb!", None, "é_x!"]),
        ("month(d)", [11, 12, None, 1]),
        (
            "date_trunc('year', d)",
            [dt.datetime(y, 1, 1, tzinfo=dt.UTC) if y else None for y in (2026, 1969, None, 2026)],
        ),
    ],
)
def test_values(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a / b > 1", "divide by zero"),
        ("a % b > 1", "divide by zero"),
        ("cast(s as int) = 1", "fails on a row"),
        ("cast(x as int) = 1", "fails on a row"),
        ("cast(a as tinyint) + cast(120 as tinyint) > 0", "overflow"),
        ("cast(m as decimal(2,2)) = 0", "fails on a row"),
    ],
)
def test_a_row_that_fails_is_an_error(text, message):
    with pytest.raises(PredicateError, match=message):
        evaluate(parse(text, SCHEMA), ROWS)


def test_batches_empty_tables_and_missing_columns():
    node = parse("a > 1", SCHEMA)
    (batch,) = ROWS.to_batches()
    assert evaluate(node, batch).to_pylist() == evaluate(node, ROWS).to_pylist()
    assert evaluate(node, ROWS.slice(0, 0)).to_pylist() == []
    assert evaluate(parse("true", SCHEMA), ROWS.slice(0, 0)).to_pylist() == []
    with pytest.raises(PredicateError, match="lack the column 'a'"):
        evaluate(node, ROWS.select(["b"]))


def test_the_layout_of_the_strings_does_not_matter():
    node = parse("s in ('Ab') or s like 'a%'", SCHEMA)
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        rows = pa.table({"s": ROWS.column("s").combine_chunks().cast(kind)})
        assert evaluate(node, rows).to_pylist() == [True, True, None, False]


NESTED = pa.array([{"n": 1, "in": {"m": 5}}, None, {"n": None, "in": None}, {"n": 4, "in": {"m": 8}}])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (pa.table({"t": NESTED}), [[1, None, None, 4], [5, None, None, 8]]),
        (pa.table({"t": NESTED.slice(1, 3)}), [[None, None, 4], [None, None, 8]]),
        (pa.table({"t": NESTED}).slice(2, 2), [[None, 4], [None, 8]]),
        (pa.table({"t": pa.chunked_array([NESTED.slice(3), NESTED.slice(0, 2)])}), [[4, 1, None], [8, 5, None]]),
        (pa.table({"t": NESTED.take([0, 3]).slice(1)}), [[4], [8]]),
        (pa.table({"t": pa.chunked_array([], NESTED.type)}), [[], []]),
    ],
    ids=["nulls", "slice", "slice of a table", "chunks", "no nulls", "no rows"],
)
def test_a_column_alone_is_what_its_expression_is(rows, expected):
    schema = from_arrow(rows.schema)
    for text, values in zip(("t.n", "t.`in`.m"), expected, strict=True):
        node = parse_value(text, schema)
        assert evaluate(node, rows).to_pylist() == values
        assert project(to_expression(node), rows).to_pylist() == values


@pytest.mark.parametrize(
    "values",
    [pa.array(["a", None]).dictionary_encode(), pa.array(["a", None], pa.string_view())],
    ids=lambda v: str(v.type),
)
def test_a_column_alone_comes_in_a_layout_that_functions_know(values):
    found = evaluate(parse_value("c", from_arrow(pa.schema({"c": pa.string()}))), pa.table({"c": values}))
    assert (found.type, found.to_pylist()) == (pa.string(), ["a", None])


def test_members_of_one_name_are_no_column():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    node = parse_value("t.n", from_arrow(pa.schema({"t": pa.struct({"n": pa.int64()})})))
    with pytest.raises(PredicateError):
        evaluate(node, pa.table({"t": twice}))
