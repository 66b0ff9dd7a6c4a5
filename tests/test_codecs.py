"""Which codec data files have: what upserts write is soon rewritten, and is made to be written and read fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakebed

ROWS = [{"id": number, "v": f"value {number}"} for number in range(500)]
SCHEMA = "id BIGINT NOT NULL, v STRING"


def codecs(table: Any) -> set[str]:
    """Of all columns of all files; Arrow says LZ4 where the file says LZ4_RAW."""
    root = Path(table.location.removeprefix("file://"))
    footers = [pq.read_metadata(root / path) for path in table.files()["path"].to_pylist()]
    assert footers
    return {
        footer.row_group(group).column(column).compression
        for footer in footers
        for group in range(footer.num_row_groups)
        for column in range(footer.num_columns)
    }


@pytest.mark.parametrize("merge", ["on-read", "on-write"])
def test_upserts_are_lz4_until_they_are_compacted(local_lake: lakebed.Warehouse, merge: str) -> None:
    table = local_lake.create_table("t", SCHEMA, primary_key=["id"], buckets=2, merge=merge)
    table.upsert(ROWS)
    table.upsert(ROWS[:100])
    assert codecs(table) == {"LZ4"}
    table.settle()
    seen = {row["id"]: row["v"] for row in ROWS}
    assert dict(pl.read_delta(table.location).iter_rows()) == seen
    found = QueryBuilder().register("t", DeltaTable(table.location)).execute("SELECT id, v FROM t").read_all()
    assert dict(pl.DataFrame(found).iter_rows()) == seen
    table.compact(full=True)
    assert codecs(table) == {"ZSTD"}
    assert dict(table.to_polars().iter_rows()) == seen


def test_what_an_upsert_rewrites_is_lz4_too(local_lake: lakebed.Warehouse) -> None:
    properties = {"compact-on-write": 1}
    table = local_lake.create_table("t", SCHEMA, primary_key=["id"], buckets=1, properties=properties)
    table.upsert(ROWS)
    table.upsert(ROWS[:400])
    assert table.history()[0].operation == "compact"
    assert codecs(table) == {"LZ4"}


def test_tables_without_a_key_are_zstd(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", SCHEMA)
    table.append(ROWS)
    assert codecs(table) == {"ZSTD"}


@pytest.mark.parametrize(("option", "codec"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("none", "UNCOMPRESSED")])
def test_a_codec_that_is_asked_for_is_that_of_all_files(tmp_path: Path, option: str, codec: str) -> None:
    with lakebed.connect(tmp_path, compression=option) as lake:
        table = lake.create_table("t", SCHEMA, primary_key=["id"], buckets=2)
        table.upsert(ROWS)
        assert codecs(table) == {codec}
        table.upsert(ROWS[:100])
        table.compact(full=True)
        assert codecs(table) == {codec}
