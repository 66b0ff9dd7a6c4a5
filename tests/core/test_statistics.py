import datetime as dt
import json
import math
from decimal import Decimal as Exact

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    MAPPING_NAME,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Field,
    Struct,
)  # fmt: skip
from lakebed.core.schema_arrow import from_arrow
from lakebed.core.statistics import build_stats, parse_stats
from lakebed.core.stats_bounds import cut_upper


def bounds(kind, *values):
    """The minima and maxima that JSON texts of these values give for a column of the type."""
    texts = [f'{{"minValues":{{"c":{v}}},"maxValues":{{"c":{v}}}}}' for v in values]
    stats = parse_stats(texts, Struct((Field("c", kind),)), {("c",)})
    return stats.mins[("c",)].to_pylist(), stats.maxs[("c",)].to_pylist()


def test_nested_columns_are_found_by_physical_names():
    inner = Struct((Field("x", LONG, metadata={MAPPING_NAME: "p-x"}), Field("y", STRING)))
    schema = Struct((Field("s", inner, metadata={MAPPING_NAME: "p-s"}), Field("a", Array(LONG)), Field("n", LONG)))
    text = build_stats(
        5, {("p-s", "p-x"): 1, ("p-s", "y"): "a"}, {("p-s", "p-x"): 9}, {("p-s", "p-x"): 2, ("a",): 3}, tight=False
    )
    assert json.loads(text)["tightBounds"] is False
    stats = parse_stats([text, None], schema, {("s", "x"), ("s", "y"), ("a",), ("s",), ("gone",)})
    assert stats.num_records.to_pylist() == [5, None]
    assert stats.mins[("s", "x")].to_pylist() == [1, None]
    assert stats.mins[("s", "y")].to_pylist() == ["a", None]
    assert stats.maxs[("s", "y")].to_pylist() == [None, None]
    assert stats.null_counts[("s", "x")].to_pylist() == [2, None]
    assert stats.null_counts[("a",)].to_pylist() == [3, None]
    assert ("n",) not in stats.mins


BAD = [
    "", "{", "null", "[]", "7", '"x"', "{} {}", " ", "{}\n{}", '{"minValues":[1]}', '{"minValues":{"n":"x"}}',
    '{"numRecords":"many"}', '{"minValues":{"n":true}}', '{"minValues":{"n":1.5}}',
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_what_is_malformed_is_unknown_and_hurts_nothing_else(bad):
    good = '{"numRecords":3,"minValues":{"n":1},"maxValues":{"n":2},"nullCount":{"n":0}}'
    stats = parse_stats([good, bad, good], Struct((Field("n", LONG),)), {("n",)})
    assert stats.num_records.to_pylist() == [3, None, 3]
    assert stats.mins[("n",)].to_pylist() == [1, None, 1]
    assert stats.maxs[("n",)].to_pylist() == [2, None, 2]


def test_many_texts_with_a_few_bad_ones():
    texts = [build_stats(n, {("n",): n}, {("n",): n}, {("n",): 0}) for n in range(2000)]
    texts[777] = "{bad"
    texts[1500] = None
    stats = parse_stats(texts, Struct((Field("n", LONG),)), {("n",)})
    expected = [None if n in (777, 1500) else n for n in range(2000)]
    assert stats.mins[("n",)].to_pylist() == expected
    assert parse_stats([], Struct((Field("n", LONG),)), {("n",)}).count == 0


def test_types_are_coerced_and_nonsense_is_unknown():
    assert bounds(BYTE, "1", "300") == ([1, None], [1, None])
    assert bounds(DOUBLE, "1", '"NaN"', "1e400") == ([1.0, None, None], [1.0, None, None])
    assert bounds(BOOLEAN, "true") == ([True], [True])
    assert bounds(DATE, '"2026-11-15"', '"soon"') == ([dt.date(2026, 11, 15), None], [dt.date(2026, 11, 15), None])
    assert bounds(Decimal(10, 2), "1.25", '"1.50"', "1.255") == ([Exact("1.25"), Exact("1.50"), None],) * 2
    assert bounds(STRING, '"\\ud83d\\ude00"', '"\\ud83d"')[0] == ["\U0001f600", None]


def test_timestamps_are_widened_to_their_millisecond():
    low, high = bounds(
        TIMESTAMP, '"2026-01-01T00:00:00.001Z"', '"2026-01-01T02:00:00.001+02:00"', '"2026-01-01 00:00:00.001"'
    )
    assert set(low) == {dt.datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)}
    assert set(high) == {dt.datetime(2026, 1, 1, 0, 0, 0, 1999, tzinfo=dt.UTC)}
    low, high = bounds(TIMESTAMP_NTZ, '"1969-12-31T23:59:59.999"', '"2026-01-01"')
    assert low[0] == dt.datetime(1969, 12, 31, 23, 59, 59, 998001)
    assert high == [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 1, 1, 0, 0, 0, 999)]


def test_wide_decimals_allow_for_a_writer_that_rounds_to_floats():
    original = Exact("12345678901234567.891")
    (low,), (high,) = bounds(Decimal(20, 3), repr(float(original)))
    assert low <= original <= high
    assert high - low < 10
    assert bounds(Decimal(38, 0), "5") == ([Exact(5)], [Exact(5)])


def test_writing_leaves_out_what_is_no_bound():
    mins = {("a",): math.nan, ("b",): math.inf, ("c",): b"x", ("d",): None, ("e",): pa.scalar(None, pa.int64())}
    assert json.loads(build_stats(1, mins, {("s",): "\U0010ffff" * 40}, {})) == {
        "numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}, "tightBounds": True,
    }  # fmt: skip


def test_writing_keeps_numbers_exact():
    text = build_stats(
        1, {("m",): Exact("12345678901234567890.10"), ("f",): pa.scalar(0.1, pa.float32()), ("l",): 2**63 - 1}, {}, {}
    )
    assert '"m":12345678901234567890.10' in text
    assert '"f":0.1' in text
    assert f'"l":{2**63 - 1}' in text


@given(st.text(min_size=0, max_size=40), st.text(alphabet="a\ud7ff\uffff\U0010ffff", min_size=30, max_size=36))
def test_a_cut_maximum_is_an_upper_bound(plain, hard):
    for text in (plain, hard):
        cut = cut_upper(text)
        if cut is None:
            assert set(text[:32]) == {"\U0010ffff"}
        else:
            assert len(cut) <= 32
            assert cut.encode() >= text.encode()


@given(
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    st.decimals(-(10**7), 10**7, places=3),
    st.text(max_size=50),
)
def test_written_bounds_hold_what_they_were_made_of(moment, number, text):
    schema = Struct((Field("t", TIMESTAMP), Field("m", Decimal(20, 3)), Field("s", STRING), Field("f", FLOAT)))
    values = {
        ("t",): moment.replace(tzinfo=dt.UTC),
        ("m",): number,
        ("s",): text,
        ("f",): pa.scalar(float(number), pa.float32()),
    }
    stats = parse_stats([build_stats(1, values, values, {})], schema, values)
    for path, value in values.items():
        low, high = stats.mins[path][0].as_py(), stats.maxs[path][0].as_py()
        plain = value.as_py() if isinstance(value, pa.Scalar) else value
        assert low is not None
        assert low <= plain
        assert high is None or plain <= high


def test_bounds_that_deltalake_writes_hold_its_rows(tmp_path):
    rows = pa.table(
        {
            "n": [3, 1, None], "x": [0.5, float("nan"), 1.5],
            "m": pa.array([Exact("12345678901234567.891"), Exact("1.001"), None], pa.decimal128(20, 3)),
            "s": ["é" * 50, "a", None], "d": [dt.date(2026, 1, 1), dt.date(1969, 1, 1), None],
            "t": pa.array([1_700_000_000_123_456, -1, None], pa.timestamp("us", "UTC")), "b": [True, False, None],
        }
    )  # fmt: skip
    deltalake.write_deltalake(str(tmp_path), rows)
    lines = (tmp_path / "_delta_log" / "00000000000000000000.json").read_text().splitlines()
    (text,) = [json.loads(line)["add"]["stats"] for line in lines if "add" in json.loads(line)]
    schema = from_arrow(rows.schema)
    stats = parse_stats([text], schema, [(n,) for n in schema.names])
    assert stats.num_records.to_pylist() == [3]
    for name in ("n", "m", "s", "d", "t"):
        low, high = stats.mins[(name,)], stats.maxs[(name,)]
        assert low.null_count == 0
        values = rows.column(name).drop_null()
        assert pc.all(pc.greater_equal(values, low[0])).as_py(), name
        assert not high[0].is_valid or pc.all(pc.less_equal(values, high[0])).as_py(), name
        assert stats.null_counts[(name,)].to_pylist() == [1]
