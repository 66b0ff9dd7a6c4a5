import datetime as dt
import json
import math
from decimal import Decimal as Exact

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import CorruptFileError, DataError, SchemaError
from lakebed.core.partition import decode_values, encode_value, partition_path
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
)  # fmt: skip
from lakebed.core.schema_arrow import from_arrow, type_to_arrow

MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
VALUES = {
    BYTE: st.integers(-128, 127), SHORT: st.integers(-(2**15), 2**15 - 1), INTEGER: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1), FLOAT: st.floats(width=32), DOUBLE: st.floats(), BOOLEAN: st.booleans(),
    STRING: st.text(min_size=1), DATE: st.dates(), TIMESTAMP: MOMENTS.map(lambda m: m.replace(tzinfo=dt.UTC)),
    TIMESTAMP_NTZ: MOMENTS, Decimal(12, 3): st.decimals(-(10**8), 10**8, places=3),
    Decimal(38, 0): st.decimals(places=0, min_value=-(10**30), max_value=10**30),
}  # fmt: skip


@given(st.data(), st.sampled_from(list(VALUES)))
def test_values_survive_the_log(data, kind):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[kind]), max_size=4))
    array = pa.array(values, type_to_arrow(kind))
    found = decode_values([encode_value(v, kind) for v in array], kind)
    assert found.type == array.type
    assert [repr(v) for v in found.to_pylist()] == [repr(v) for v in array.to_pylist()]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, LONG, None),
        ("", STRING, None),
        (True, BOOLEAN, "true"),
        (-7, LONG, "-7"),
        (1.0, DOUBLE, "1"),
        (math.inf, DOUBLE, "Infinity"),
        (-math.inf, FLOAT, "-Infinity"),
        (math.nan, DOUBLE, "NaN"),
        (Exact("1.5"), Decimal(10, 2), "1.50"),
        (dt.date(2026, 11, 15), DATE, "2026-11-15"),
        (
            dt.datetime(2026, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            TIMESTAMP,
            "2026-01-01T00:00:00.000000Z",
        ),
        (dt.datetime(2026, 1, 1, 2, 3, 4), TIMESTAMP_NTZ, "2026-01-01 02:03:04"),
        (pa.scalar("é/ü"), STRING, "é/ü"),
    ],
)
def test_the_text_of_a_value(value, kind, text):
    assert encode_value(value, kind) == text


def test_texts_of_other_writers_are_read():
    assert decode_values(["1970-01-01 00:00:00", "1970-01-01T00:00:00.123456Z", ""], TIMESTAMP).to_pylist() == [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC), None,
    ]  # fmt: skip
    assert decode_values(pa.chunked_array([["1.0E10"], ["-Infinity"]]), DOUBLE).to_pylist() == [1e10, -math.inf]
    assert decode_values(pa.array([None, "false"]), BOOLEAN).to_pylist() == [None, False]
    assert decode_values([], LONG).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", LONG),
        ("300", BYTE),
        ("2026-13-01", DATE),
        ("noon", TIMESTAMP),
        ("maybe", BOOLEAN),
        ("1.234", Decimal(5, 2)),
    ],
)
def test_a_text_that_is_no_value_is_corrupt(text, kind):
    with pytest.raises(CorruptFileError, match="partition value"):
        decode_values(["1" if kind == LONG else None, text], kind)


def test_what_cannot_partition_is_refused():
    for kind in (BINARY, Array(LONG)):
        with pytest.raises(SchemaError, match="cannot partition"):
            encode_value(b"x", kind)
    with pytest.raises(DataError, match="is no BIGINT"):
        encode_value("x", LONG)


@pytest.mark.parametrize(
    ("names", "values", "path"),
    [
        (["dt"], ["2026-11-15"], "dt=2026-11-15"),
        (["a", "b"], [None, "x"], "a=__HIVE_DEFAULT_PARTITION__/b=x"),
        (["a"], ["x/y:z=%"], "a=x%2Fy%3Az%3D%25"),
        (["a"], [".."], "a=%2E%2E"),
        (["a/b"], ["é ü"], "a%2Fb=%C3%A9%20%C3%BC"),
        (["ä b"], ["ä b"], "ä b=%C3%A4%20b"),
        (["a"], ["é" * 120], "a=" + "é" * 120),
        (["ts"], ["2026-01-01T00:00:00.000000Z"], "ts=2026-01-01T00%3A00%3A00.000000Z"),
        ([], [], ""),
    ],
)
def test_directories_are_named_as_hive_does(names, values, path):
    assert partition_path(names, values) == path


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_name_or_value_leaves_its_directory(name, value):
    path = partition_path([name], [value])
    assert not set(path) & set("/\\\n\x00")
    assert path.count("=") == 1
    assert path not in (".", "..")


def test_values_that_deltalake_writes_are_read(tmp_path):
    rows = pa.table(
        {
            "v": [1], "i": pa.array([-5], pa.int32()), "s": ["a/b c"], "b": [True], "d": [dt.date(2026, 11, 15)],
            "m": pa.array([Exact("1.50")], pa.decimal128(10, 2)),
            "t": pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC")),
        }
    )  # fmt: skip
    names = [n for n in rows.schema.names if n != "v"]
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=names)
    lines = (tmp_path / "_delta_log" / "00000000000000000000.json").read_text().splitlines()
    (values,) = [json.loads(line)["add"]["partitionValues"] for line in lines if "add" in json.loads(line)]
    for field in from_arrow(rows.schema):
        if field.name in names:
            assert decode_values([values[field.name]], field.type).to_pylist() == rows.column(field.name).to_pylist()


def test_deltalake_reads_the_values_that_we_write(tmp_path):
    rows = pa.table(
        {"v": [1], "t": pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC")), "d": [dt.date(2026, 1, 2)]}
    )
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=["t", "d"])
    log = tmp_path / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            ours = {"t": encode_value(rows.column("t")[0], TIMESTAMP), "d": encode_value(rows.column("d")[0], DATE)}
            line["add"]["partitionValues"] = ours
    log.write_text("\n".join(map(json.dumps, lines)))
    (log.parent / "00000000000000000000.crc").unlink(missing_ok=True)
    read = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert read.select(["t", "d"]).to_pylist() == rows.select(["t", "d"]).to_pylist()
