"""Parquet files: what is written is read back exactly, by us and by others."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal as D
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.core.errors import CorruptFileError, DataError, FileMissingError, SchemaError, StorageError
from lakebed.core.options import Options
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    MAPPING_ID,
    MAPPING_NAME,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from lakebed.core.schema_arrow import to_arrow
from lakebed.storage import parquet_encoder
from lakebed.storage.parquet_reader import (
    ParquetFileReader,
    file_row_groups,
    file_schema,
    read_batches,
    read_table,
)
from lakebed.storage.parquet_writer import ParquetFileWriter, WrittenFile
from lakebed.storage.store import Store, open_store

FLAT = Struct(
    (
        Field("id", LONG, nullable=False),
        Field("b", BYTE),
        Field("s", SHORT),
        Field("i", INTEGER),
        Field("f", FLOAT),
        Field("d", DOUBLE),
        Field("bo", BOOLEAN),
        Field("st", STRING),
        Field("bi", BINARY),
        Field("da", DATE),
        Field("ts", TIMESTAMP),
        Field("tn", TIMESTAMP_NTZ),
        Field("d9", Decimal(9, 2)),
        Field("d18", Decimal(18, 3)),
        Field("d38", Decimal(38, 10)),
    )
)
FLAT_ROW: dict[str, Any] = {
    "id": 1, "b": -128, "s": -32768, "i": 2**31 - 1, "f": 1.5, "d": -2.5, "bo": True, "st": "grün", "bi": b"\0\xff",
    "da": date(2026, 11, 15), "ts": datetime(2026, 11, 15, 10, 0, 0, 123456, UTC),
    "tn": datetime(1969, 1, 1, 0, 0, 0, 1),
    "d9": D("-1.25"), "d18": D("123456789012345.678"), "d38": D("-1234567890123456789012345678.0123456789"),
}  # fmt: skip
NESTED = Struct(
    (
        Field("id", LONG),
        Field("li", Array(STRING)),
        Field(
            "at",
            Struct((Field("x", INTEGER), Field("y", Array(Struct((Field("z", DATE),)))))),
        ),
    )
)
NESTED_ROW = {"id": 1, "li": ["a", None, ""], "at": {"x": 5, "y": [{"z": date(2026, 1, 1)}, None]}}
MAPPED = Struct((Field("id", LONG), Field("m", Map(STRING, Decimal(5, 1)))))
REQUIRED = Struct(
    (
        Field("at", Struct((Field("x", INTEGER, nullable=False), Field("y", STRING)))),
        Field("li", Array(LONG, contains_null=False)),
    )
)
SMALL = Options(max_row_group_rows=100)


def table(schema: Struct, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=to_arrow(schema))


def write(store: Store, schema: Struct, rows: pa.Table, options: Options | None = None, **more: Any) -> WrittenFile:
    with ParquetFileWriter(store, "d/a.parquet", schema, options or Options(), **more) as writer:
        writer.write(rows)
    return writer.close()


def stats(written: WrittenFile) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(written.stats_json)
    return parsed


def parquet_types(store: Store) -> str:
    with store.open_input("d/a.parquet") as file:
        return str(pq.ParquetFile(file).schema)


CASES = {
    "flat": (FLAT, [FLAT_ROW, {"id": 2}]),
    "nested": (NESTED, [NESTED_ROW, {"id": 2}, {"id": 3, "li": [], "at": {"x": None, "y": []}}]),
    "map": (MAPPED, [{"id": 1, "m": [("a", D("1.5")), ("b", None)]}, {"id": 2, "m": None}, {"id": 3, "m": []}]),
    "required": (REQUIRED, [{"at": {"x": 1, "y": None}, "li": [1, 2]}, {"at": None, "li": None}]),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_come_back_exactly(store: Store, case: str) -> None:
    schema, rows = CASES[case]
    data = table(schema, *rows)
    written = write(store, schema, data)
    assert (written.num_rows, written.size) == (len(rows), store.size("d/a.parquet"))
    found = read_table(store, "d/a.parquet")
    assert found.to_pylist() == data.to_pylist()
    assert found.schema.types == data.schema.types
    assert [f.nullable for f in found.schema] == [f.nullable for f in data.schema]


@pytest.mark.parametrize("case", ["flat", "nested"])
def test_both_encoders_make_the_same_columns(local_store: Store, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, rows = CASES[case]
    data = table(schema, *rows)
    write(local_store, schema, data)
    fast = parquet_types(local_store).split("{", 1)[1]
    monkeypatch.setattr(parquet_encoder, "_polars_keeps_schema", lambda: False)
    write(local_store, schema, data)
    assert parquet_types(local_store).split("{", 1)[1] == fast
    assert read_table(local_store, "d/a.parquet").to_pylist() == data.to_pylist()


def test_the_parquet_types_are_those_that_spark_expects(local_store: Store) -> None:
    write(local_store, FLAT, table(FLAT, FLAT_ROW))
    types = parquet_types(local_store)
    for expected in (
        "required int64 field_id=-1 id;",
        "optional int32 field_id=-1 b (Int(bitWidth=8, isSigned=true));",
        "optional int32 field_id=-1 s (Int(bitWidth=16, isSigned=true));",
        "optional binary field_id=-1 st (String);",
        "optional int32 field_id=-1 da (Date);",
        "ts (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "tn (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds",
        "optional int32 field_id=-1 d9 (Decimal(precision=9, scale=2));",
        "optional int64 field_id=-1 d18 (Decimal(precision=18, scale=3));",
        "optional fixed_len_byte_array(16) field_id=-1 d38 (Decimal(precision=38, scale=10));",
    ):
        assert expected in types


def test_physical_names_and_field_ids_at_every_level(local_store: Store) -> None:
    def mapped(name: str, kind: Any, number: int) -> Field:
        return Field(name, kind, metadata={MAPPING_ID: number, MAPPING_NAME: f"col-{number}", "comment": "why"})

    inner = Struct((mapped("x", INTEGER, 3), mapped("y", STRING, 4)))
    schema = Struct((mapped("id", LONG, 1), mapped("at", inner, 2), mapped("all", Array(inner), 5)))
    row = {"id": 1, "at": {"x": 2, "y": "q"}, "all": [{"x": 3, "y": None}]}
    written = write(local_store, schema, table(schema, row, {"id": 2}).slice(0, 2))
    types = parquet_types(local_store)
    for number in range(1, 6):
        assert f"field_id={number} col-{number}" in types
    found = read_table(local_store, "d/a.parquet")
    assert found.to_pylist()[0] == {
        "col-1": 1,
        "col-2": {"col-3": 2, "col-4": "q"},
        "col-5": [{"col-3": 3, "col-4": None}],
    }
    assert b"comment" not in (found.schema.field(0).metadata or {})
    assert stats(written)["maxValues"] == {"col-1": 2, "col-2": {"col-3": 2, "col-4": "q"}}
    assert stats(written)["nullCount"] == {"col-1": 0, "col-2": {"col-3": 1, "col-4": 1}, "col-5": 1}


@pytest.mark.parametrize(("case", "encoder"), [("flat", "Polars"), ("nested", "Polars"), ("map", "parquet-cpp")])
def test_the_faster_encoder_is_used_where_it_is_exact(local_store: Store, case: str, encoder: str) -> None:
    schema, rows = CASES[case]
    write(local_store, schema, table(schema, *rows))
    metadata = pq.read_metadata(f"{local_store.location.path}/d/a.parquet")
    assert metadata.created_by.startswith(encoder)


def test_slices_of_nested_rows(local_store: Store) -> None:
    data = table(NESTED, *({**NESTED_ROW, "id": n, "li": [str(n)]} for n in range(10)))
    with ParquetFileWriter(local_store, "d/a.parquet", NESTED, Options()) as writer:
        writer.write(data.slice(3, 2))
        writer.write(data.slice(9).to_batches()[0])
    found = read_table(local_store, "d/a.parquet")
    assert found.to_pylist() == [data.to_pylist()[n] for n in (3, 4, 9)]


def test_other_readers(local_store: Store) -> None:
    data = table(FLAT, FLAT_ROW, {"id": 2})
    write(local_store, FLAT, data)
    frame = pl.read_parquet(f"{local_store.location.path}/d/a.parquet")
    assert frame.to_dicts() == data.to_pylist()


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "none"])
@pytest.mark.parametrize("schema", [FLAT, MAPPED], ids=["polars", "arrow"])
def test_compressions(local_store: Store, compression: str, schema: Struct) -> None:
    data = table(schema, {"id": 1}, {"id": 2})
    write(local_store, schema, data, Options(compression=compression))
    assert read_table(local_store, "d/a.parquet").to_pylist() == data.to_pylist()


def test_no_rows_give_a_valid_empty_file(store: Store) -> None:
    written = write(store, NESTED, table(NESTED))
    assert (written.num_rows, stats(written)["numRecords"]) == (0, 0)
    assert read_table(store, "d/a.parquet").num_rows == 0
    assert file_schema(store, "d/a.parquet").types == to_arrow(NESTED).types


def test_abort_leaves_nothing(store: Store, s3: Any) -> None:
    writer = ParquetFileWriter(store, "d/e/a.parquet", FLAT, Options())
    writer.write(table(FLAT, FLAT_ROW))
    writer.abort()
    writer.abort()
    assert writer.buffered_bytes == 0
    assert list(store.list()) == []
    if store.location.is_local:
        assert not Path(store.location.path, "d").exists()
    else:
        bucket = store.location.authority
        assert "Contents" not in s3.client().list_objects_v2(Bucket=bucket)
        assert "Uploads" not in s3.client().list_multipart_uploads(Bucket=bucket)
    with pytest.raises(StorageError, match="aborted"):
        writer.close()
    with pytest.raises(StorageError, match="closed"):
        writer.write(table(FLAT, FLAT_ROW))


def test_abort_after_close_removes_the_file(store: Store) -> None:
    writer = ParquetFileWriter(store, "d/e/a.parquet", FLAT, Options())
    writer.write(table(FLAT, FLAT_ROW))
    writer.close()
    assert [info.path for info in store.list()] == ["d/e/a.parquet"]
    writer.abort()
    assert list(store.list()) == []
    if store.location.is_local:
        assert not Path(store.location.path, "d").exists()


def test_an_exception_aborts(store: Store) -> None:
    with pytest.raises(RuntimeError), ParquetFileWriter(store, "a.parquet", FLAT, Options()) as writer:
        writer.write(table(FLAT, FLAT_ROW))
        raise RuntimeError("stop")
    assert list(store.list()) == []


def test_a_failed_close_leaves_nothing(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    writer = ParquetFileWriter(local_store, "d/a.parquet", FLAT, Options())
    writer.write(table(FLAT, FLAT_ROW))
    with pytest.raises(StorageError, match="full"):
        writer.close()
    assert list(local_store.list()) == []
    assert not Path(local_store.location.path, "d").exists()


@pytest.mark.s3
def test_a_failed_upload_is_told(s3: Any) -> None:
    from lakebed.core.location import Location

    store = open_store(Location.parse("s3://no-such-bucket/t"), Options.parse(s3.options()))
    writer = ParquetFileWriter(store, "a.parquet", FLAT, Options())
    writer.write(table(FLAT, FLAT_ROW))
    with pytest.raises(StorageError, match=r"s3://no-such-bucket/t/a\.parquet"):
        writer.close()


def test_the_writer_says_when_its_memory_is_full(local_store: Store) -> None:
    schema = Struct((Field("id", LONG),))
    writer = ParquetFileWriter(local_store, "a.parquet", schema, Options(writer_memory_limit=10_000))
    batch = table(schema, *({"id": n} for n in range(700)))
    writer.write(batch)
    assert not writer.full
    assert 5600 <= writer.buffered_bytes < 6000
    writer.write(batch)
    assert writer.full
    assert writer.close().num_rows == 1400


def test_rows_that_do_not_fit(local_store: Store) -> None:
    writer = ParquetFileWriter(local_store, "a.parquet", FLAT, Options())
    with pytest.raises(DataError, match="id"):
        writer.write(table(FLAT, {"id": None}))
    with pytest.raises(SchemaError):
        writer.write(pa.table({"other": [1]}))


def test_statistics(local_store: Store) -> None:
    low, high = dict(FLAT_ROW), dict(FLAT_ROW, id=9, st="zz", d9=D("7.00"), da=date(2027, 1, 1), b=5)
    found = stats(write(local_store, FLAT, table(FLAT, high, low, {"id": 4}), SMALL))
    assert found["numRecords"] == 3
    assert found["tightBounds"] is True
    mins, maxs = found["minValues"], found["maxValues"]
    assert (mins["id"], maxs["id"]) == (1, 9)
    assert (mins["st"], maxs["st"]) == ("grün", "zz")
    assert (mins["da"], maxs["da"]) == ("2026-11-15", "2027-01-01")
    assert (mins["d9"], maxs["d9"]) == (-1.25, 7.0)
    assert mins["ts"].startswith("2026-11-15T10:00:00.123")
    assert "bi" not in mins
    assert found["nullCount"]["id"] == 0
    assert found["nullCount"]["bi"] == 1


def test_statistics_over_many_row_groups(local_store: Store) -> None:
    schema = Struct((Field("n", LONG), Field("only_late", LONG), Field("never", STRING)))
    data = table(schema, *({"n": n % 313, "only_late": n if n >= 450 else None} for n in range(500)))
    found = stats(write(local_store, schema, data, SMALL))
    assert found["minValues"] == {"n": 0, "only_late": 450}
    assert found["maxValues"] == {"n": 312, "only_late": 499}
    assert found["nullCount"] == {"n": 0, "only_late": 450, "never": 500}
    groups = file_row_groups(local_store, "d/a.parquet")
    assert [(g.index, g.start, g.num_rows) for g in groups] == [(n, n * 100, 100) for n in range(5)]
    assert groups[0].bounds.maxs == {("n",): 99}
    assert groups[4].bounds.mins == {("n",): 87, ("only_late",): 450}
    assert groups[0].bounds.null_counts[("only_late",)] == 100


def test_nan_takes_the_bounds_away(local_store: Store) -> None:
    schema = Struct((Field("x", DOUBLE), Field("y", DOUBLE), Field("at", Struct((Field("z", FLOAT),)))))
    rows = [{"x": 1.0, "y": 2.0, "at": {"z": 1.0}}, {"x": math.nan, "y": 3.0, "at": {"z": math.nan}}, {}]
    found = stats(write(local_store, schema, table(schema, *rows)))
    assert (found["minValues"], found["maxValues"]) == ({"y": 2.0}, {"y": 3.0})
    assert found["nullCount"] == {"x": 1, "y": 1, "at": {"z": 1}}
    (group,) = file_row_groups(local_store, "d/a.parquet")
    assert group.bounds.maxs == {}
    assert group.bounds.mins[("y",)] == 2.0


@pytest.mark.parametrize("text", ["é" * 100, "a" * 500, "\U0010ffff" * 80, "x" * 31 + "\U0010ffff" * 20, ""])
def test_bounds_of_long_texts_are_bounds(local_store: Store, text: str) -> None:
    schema = Struct((Field("s", STRING),))
    found = stats(write(local_store, schema, table(schema, {"s": text}, {"s": text + "b"})))
    assert found["minValues"].get("s", "") <= text
    assert found["maxValues"].get("s", text + "b") >= text + "b"


def test_values_that_python_cannot_hold_have_no_bounds(local_store: Store) -> None:
    schema = Struct((Field("t", TIMESTAMP_NTZ), Field("d", DATE), Field("n", LONG)))
    far = pa.table(
        [
            pa.array([2**61]).cast(pa.timestamp("us")),
            pa.array([5_000_000], pa.int32()).cast(pa.date32()),
            pa.array([1]),
        ],
        schema=to_arrow(schema),
    )
    found = stats(write(local_store, schema, far))
    assert found["maxValues"] == {"n": 1}
    assert read_table(local_store, "d/a.parquet").column("t").cast(pa.int64()).to_pylist() == [2**61]


def test_which_columns_get_statistics(local_store: Store) -> None:
    schema = Struct(tuple(Field(f"c{n}", LONG) for n in range(40)))
    data = table(schema, {f.name: 1 for f in schema})
    assert len(stats(write(local_store, schema, data))["minValues"]) == 32
    assert len(stats(write(local_store, schema, data, indexed_columns=-1))["minValues"]) == 40
    assert list(stats(write(local_store, schema, data, indexed_columns=["c39", "c3"]))["minValues"]) == ["c3", "c39"]
    assert stats(write(local_store, schema, data, indexed_columns=0))["numRecords"] == 1


def test_names_with_dots_are_columns_of_their_own(local_store: Store) -> None:
    schema = Struct((Field("a", Struct((Field("b", LONG),))), Field("a.b", LONG), Field("c.d", LONG)))
    found = stats(write(local_store, schema, table(schema, {"a": {"b": 1}, "a.b": 2, "c.d": 3})))
    assert found["minValues"] == {"a": {"b": 1}, "a.b": 2, "c.d": 3}
    for columns in (["a"], ["a.b"], ["c.d", "a"]):
        assert read_table(local_store, "d/a.parquet", columns).column_names == columns
        (batch,) = read_batches(local_store, "d/a.parquet", columns, 10)
        assert batch.schema.names == columns


def test_reading_columns_batches_and_row_groups(store: Store) -> None:
    schema = Struct((Field("n", LONG), Field("s", STRING), Field("d", DOUBLE)))
    data = table(schema, *({"n": n, "s": str(n), "d": float(n)} for n in range(1000)))
    write(store, schema, data, SMALL)
    batches = list(read_batches(store, "d/a.parquet", ["s", "n", "later"], batch_size=64))
    assert max(b.num_rows for b in batches) <= 64
    assert batches[0].schema.names == ["s", "n"]
    assert batches[0].schema.field("s").type == pa.string()
    assert [v for b in batches for v in b.column("n").to_pylist()] == list(range(1000))
    some = read_batches(store, "d/a.parquet", None, 1000, row_groups=[2, 5])
    assert [v for b in some for v in b.column("n").to_pylist()] == [*range(200, 300), *range(500, 600)]
    assert read_table(store, "d/a.parquet", ["n"], row_groups=[9]).column("n").to_pylist() == list(range(900, 1000))
    assert sum(b.num_rows for b in read_batches(store, "d/a.parquet", [], 300)) == 1000
    with ParquetFileReader(store, "d/a.parquet") as file:
        assert file.num_rows == 1000


def test_files_of_others_are_read(local_store: Store) -> None:
    out = io.BytesIO()
    stamps = pa.array([datetime(3000, 1, 1), None], pa.timestamp("us"))
    pq.write_table(
        pa.table({"t": stamps, "s": pa.array(["a", "b"], pa.large_string())}), out, use_deprecated_int96_timestamps=True
    )
    local_store.put("foreign.parquet", out.getvalue())
    found = read_table(local_store, "foreign.parquet")
    assert found.column("t").to_pylist() == [datetime(3000, 1, 1), None]
    assert file_row_groups(local_store, "foreign.parquet")[0].num_rows == 2


def test_missing_and_damaged_files(store: Store) -> None:
    with pytest.raises(FileMissingError, match=r"d/a\.parquet"):
        read_table(store, "d/a.parquet")
    schema = Struct((Field("s", STRING),))
    write(store, schema, table(schema, *({"s": str(n * 7919)} for n in range(5000))))
    whole = store.read("d/a.parquet")
    broken = [b"", b"PAR1", b"x" * 1000, whole[:-10], whole[: len(whole) // 2], whole[len(whole) // 2 :]]
    broken.append(whole[:20] + bytes(byte ^ 0x5A for byte in whole[20:400]) + whole[400:])
    for data in broken:
        store.put("d/a.parquet", data)
        with pytest.raises(CorruptFileError, match=r"d/a\.parquet"):
            read_table(store, "d/a.parquet")
        with pytest.raises(CorruptFileError, match=r"d/a\.parquet"):
            list(read_batches(store, "d/a.parquet", None, 100))
