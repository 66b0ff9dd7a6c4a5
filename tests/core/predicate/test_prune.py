import datetime as dt

import pyarrow as pa
import pytest

from lakebed.core.actions import AddFile, Metadata
from lakebed.core.predicate import may_match, may_match_files, must_match, must_match_files, parse
from lakebed.core.schema import BOOLEAN, DATE, DOUBLE, LONG, MAPPING_NAME, STRING, TIMESTAMP, Field, Struct
from lakebed.core.schema_delta import to_delta
from lakebed.core.statistics import FileStats, build_stats, parse_stats

SCHEMA = Struct(
    (
        Field("n", LONG), Field("x", DOUBLE), Field("s", STRING), Field("ts", TIMESTAMP), Field("flag", BOOLEAN),
        Field("dt", DATE), Field("p", LONG),
    )
)  # fmt: skip
# Four files: 1..4 without nulls, 5..9 with nulls, only nulls, nothing known.
FILES = FileStats(
    4,
    pa.array([10, 10, 10, None]),
    {("p",): pa.array([1, 2, None, 2]), ("dt",): pa.array([dt.date(2026, m, 1) for m in (1, 2, 3)] + [None])},
    {
        ("n",): pa.array([1, 5, None, None]), ("x",): pa.array([1.0, 5.0, None, None]),
        ("s",): pa.array(["apple", "bar", None, None]),
    },
    {
        ("n",): pa.array([4, 9, None, None]), ("x",): pa.array([4.0, 9.0, None, None]),
        ("s",): pa.array(["apricot", "bat", None, None]),
    },
    {path: pa.array([0, 3, 10, None]) for path in (("n",), ("x",), ("s",))},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "may", "must"),
    [
        ("n > 4", "0101", "0000"),
        ("n >= 1", "1101", "1000"),
        ("n < 5", "1001", "1000"),
        ("not (n > 4)", "1001", "1000"),
        ("n <> 3", "1101", "0000"),
        ("n = 5 or p = 1", "1101", "1000"),
        ("n = 5 and p = 1", "0000", "0000"),
        ("n in (0, 7)", "0101", "0000"),
        ("n in (0, 10)", "0001", "0000"),
        ("n not in (0, 10)", "1101", "1000"),
        ("n not in (0, null)", "0000", "0000"),
        ("n is null", "0111", "0010"),
        ("n is not null", "1101", "1000"),
        ("n <=> null", "0111", "0010"),
        ("not (n <=> 3)", "1111", "0110"),
        ("n = null", "0000", "0000"),
        ("coalesce(n, 0) = 0", "0111", "0010"),
        ("coalesce(n < 0, false)", "0001", "0000"),
        ("n + 10 > 14", "0101", "0000"),
        ("-n > -2", "1001", "0000"),
        ("n > 4.5", "0101", "0000"),
        ("n * 0 = 1", "1101", "0000"),
        ("x < 1", "0001", "0000"),
        ("x > 9", "1101", "0000"),
        ("x <> 20", "1101", "1000"),
        ("x <= 4", "1001", "0000"),
        ("s like 'ap%'", "1001", "1000"),
        ("s like 'b%'", "0101", "0000"),
        ("s like '%x'", "1101", "0000"),
        ("s = 'banana'", "0001", "0000"),
        ("s is null and p is null", "0010", "0010"),
        ("year(dt) = 2026", "1110", "1110"),
        ("dt = '2026-02-01'", "0100", "0100"),
        ("dt between '2026-01-15' and '2026-02-15'", "0100", "0100"),
        ("p % 2 = 0", "0101", "0101"),
        ("p <> 1", "0101", "0101"),
        ("p is null or p = 1", "1010", "1010"),
        ("flag", "1111", "0000"),
        ("10 / p > 6", "1000", "1000"),
        ("10 / (p - 1) > 6", "1101", "0000"),
        ("true", "1111", "1111"),
        ("false", "0000", "0000"),
        ("null", "0000", "0000"),
        ("1 = 1 or n = 1", "1111", "1111"),
    ],
)
def test_files_are_pruned(text, may, must):
    node = parse(text, SCHEMA)
    assert _bits(may_match(node, FILES)) == may
    assert _bits(must_match(node, FILES)) == must


def _bits(flags):
    return "".join("1" if f else "0" for f in flags.to_pylist())


def test_a_file_without_rows_matches_nothing_and_everything():
    files = FileStats(1, pa.array([0]))
    node = parse("n = 1", SCHEMA)
    assert _bits(may_match(node, files)) == "0"
    assert _bits(must_match(node, files)) == "1"


def test_a_cut_timestamp_still_holds_its_millisecond():
    moment = dt.datetime(2026, 1, 1, 0, 0, 0, 1999, tzinfo=dt.UTC)
    text = build_stats(1, {("ts",): moment}, {("ts",): moment}, {("ts",): 0})
    assert '"maxValues":{"ts":"2026-01-01T00:00:00.001Z"}' in text
    files = parse_stats([text], SCHEMA, {("ts",)})
    for sql, may in (("ts = '2026-01-01 00:00:00.001999'", "1"), ("ts >= '2026-01-01 00:00:00.002'", "0")):
        assert _bits(may_match(parse(sql, SCHEMA), files)) == may


def test_booleans_use_their_bounds():
    files = FileStats(
        2, mins={("flag",): pa.array([True, False])}, maxs={("flag",): pa.array([True, False])},
        null_counts={("flag",): pa.array([0, 0])},
    )  # fmt: skip
    assert _bits(may_match(parse("flag", SCHEMA), files)) == "10"
    assert _bits(must_match(parse("not flag", SCHEMA), files)) == "01"
    assert _bits(must_match(parse("flag = false", SCHEMA), files)) == "01"


def test_file_actions_are_pruned_by_physical_names():
    schema = Struct((Field("n", LONG, metadata={MAPPING_NAME: "c1"}), Field("p", DATE, metadata={MAPPING_NAME: "c2"})))
    metadata = Metadata("id", to_delta(schema), ("p",))
    files = [
        AddFile(
            f"{day}-{low}", {"c2": day}, 1, 0, True, stats=build_stats(1, {("c1",): low}, {("c1",): low}, {("c1",): 0})
        )
        for day in ("2026-01-01", "2026-01-02", None)
        for low in (1, 5)
    ]
    node = parse("p >= '2026-01-02' and n > 3", schema)
    assert [f.path for f in may_match_files(node, files, metadata)] == ["2026-01-02-5"]
    node = parse("p is null or n = 1", schema)
    assert [f.path for f in must_match_files(node, files, metadata)] == [
        "2026-01-01-1",
        "2026-01-02-1",
        "None-1",
        "None-5",
    ]
    assert may_match_files(node, [], metadata) == []


def test_a_million_files_at_once():
    count = 1_000_000
    low = pa.array(range(count))
    files = FileStats(count, pa.repeat(9, count), {}, {("n",): low}, {("n",): low}, {("n",): pa.repeat(0, count)})
    node = parse("n between 10 and 19 or n in (5, 7)", SCHEMA)
    kept = may_match(node, files)
    assert kept.true_count == 12
