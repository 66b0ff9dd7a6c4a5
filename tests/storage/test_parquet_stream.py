"""Files that are written row group by row group, on every kind of storage."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.core.errors import StorageError
from lakebed.core.options import Options
from lakebed.storage.footer import indexed
from lakebed.storage.parquet_reader import ParquetFileReader
from lakebed.storage.parquet_stream import ParquetStream
from lakebed.storage.store import Store

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"}),
        pa.field("x", pa.float64()),
        pa.field("city", pa.string()),
    ]
)


def opened(store: Store, path: str = "dt=1/a.parquet", schema: pa.Schema = SCHEMA) -> ParquetStream:
    return ParquetStream(store, path, schema, Options(), indexed(schema, -1))


def rows(*ids: int, x: float | None = 1.0) -> pa.Table:
    return pa.table([list(ids), [x] * len(ids), ["Graz"] * len(ids)], schema=SCHEMA)


def test_row_groups_come_one_by_one(store: Store) -> None:
    stream = opened(store)
    stream.write(rows(1, 2))
    grown = stream.size
    stream.write(rows(3))
    assert 0 < grown < stream.size
    written = stream.close()
    assert (written.path, written.num_rows, written.size) == ("dt=1/a.parquet", 3, store.size("dt=1/a.parquet"))
    with ParquetFileReader(store, written.path, buffer_size=100) as file:
        assert [group.num_rows for group in file.row_groups()] == [2, 1]
        assert file.table(None).column("id").to_pylist() == [1, 2, 3]
        assert [batch.num_rows for batch in file.batches(["x"], 1)] == [1, 1, 1]
        assert (file.schema.field("id").nullable, file.schema.field("x").nullable) == (False, True)
        assert file.schema.field("id").metadata[b"PARQUET:field_id"] == b"7"


def test_statistics_over_all_row_groups(store: Store) -> None:
    stream = opened(store)
    stream.write(rows(5, 1))
    stream.write(rows(3, x=None))
    stats = json.loads(stream.close().stats_json)
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"id": 1, "x": 1.0, "city": "Graz"}
    assert stats["maxValues"] == {"id": 5, "x": 1.0, "city": "Graz"}
    assert stats["nullCount"] == {"id": 0, "x": 1, "city": 0}


def test_a_nan_in_any_row_group_takes_the_bounds_away(store: Store) -> None:
    stream = opened(store)
    stream.write(rows(1, x=float("nan")))
    stream.write(rows(2))
    assert "x" not in json.loads(stream.close().stats_json)["minValues"]


def test_no_rows_at_all(store: Store) -> None:
    written = opened(store).close()
    assert written.num_rows == 0
    with ParquetFileReader(store, written.path) as file:
        assert file.num_rows == 0


@pytest.mark.parametrize("groups", [0, 1, 2])
def test_an_aborted_file_leaves_nothing(store: Store, groups: int) -> None:
    stream = opened(store)
    for _ in range(groups):
        stream.write(rows(1))
    stream.abort()
    assert list(store.list()) == []
    assert not store.exists("dt=1")


def test_a_closed_file_can_be_taken_away_too(store: Store) -> None:
    stream = opened(store)
    stream.write(rows(1))
    stream.close()
    stream.abort()
    assert list(store.list()) == []


def test_nothing_is_there_before_the_end(store: Store) -> None:
    stream = opened(store)
    stream.write(rows(1))
    assert not store.exists("dt=1/a.parquet")
    stream.close()
    assert store.exists("dt=1/a.parquet")


def test_rows_of_another_type_are_refused(store: Store) -> None:
    stream = opened(store)
    with pytest.raises(StorageError):
        stream.write(pa.table({"id": ["a"], "x": [1.0], "city": ["Graz"]}))
    stream.abort()


def test_columns_that_repeat_are_dictionaries(store: Store) -> None:
    stream = opened(store)
    stream.write(rows(*range(100)))
    stream.close()
    metadata = pq.read_metadata(pa.BufferReader(store.read("dt=1/a.parquet")))
    found = {c.path_in_schema: c.has_dictionary_page for c in map(metadata.row_group(0).column, range(3))}
    assert found == {"id": False, "x": True, "city": True}
