"""A query for one key, or for a range of keys, reads its buckets and row groups only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakebed

pytestmark = pytest.mark.spark

ENGINES = ["native", "arrow"]


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> lakebed.Table:
    lake = lakebed.connect(tmp_path / "warehouse", spark=spark, max_row_group_rows=100)
    made = lake.create_table("t", "id BIGINT, v STRING", primary_key=["id"], buckets=4)
    made.upsert([{"id": n, "v": f"v{n}"} for n in range(2000)])
    made.upsert([{"id": n, "v": f"w{n}"} for n in range(0, 2000, 7)])
    return made


def data_files(tmp_path: Path) -> dict[str, Path]:
    root = tmp_path / "warehouse/default/t"
    return {str(path.relative_to(root)): path for path in root.rglob("*.parquet")}


@pytest.mark.parametrize("engine", ENGINES)
def test_files_of_other_buckets_are_not_opened(table: lakebed.Table, tmp_path: Path, engine: str) -> None:
    needed = set(table.files("id = 77")["path"].to_pylist())
    assert len(needed) == 2 < table.files().num_rows
    assert f"{engine} scan of 2 file(s)" in table.explain(where="id = 77", engine=engine)
    frame = table.df(where="id = 77", engine=engine)
    for name, path in data_files(tmp_path).items():
        if name not in needed:
            path.unlink()
    assert [tuple(row) for row in frame.collect()] == [(77, "w77")]


def spoil_all_but_the_first_group(path: Path) -> None:
    """Overwrite the rows of all row groups but the first."""
    footer = pq.read_metadata(path)
    assert footer.num_row_groups > 2
    second = footer.row_group(1).column(0)
    start = second.dictionary_page_offset or second.data_page_offset
    data = bytearray(path.read_bytes())
    end = len(data) - footer.serialized_size - 8
    data[start:end] = b"\xff" * (end - start)
    path.write_bytes(data)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["id = 5", "id < 20", "id BETWEEN 3 AND 9 AND v <> 'x'"])
def test_other_row_groups_are_not_read(table: lakebed.Table, tmp_path: Path, engine: str, where: str) -> None:
    expected = sorted(tuple(row.values()) for row in table.to_arrow(where=where).to_pylist())
    files = table.files().to_pylist()
    large = [file["path"] for file in files if file["rows"] > 300]
    assert len(large) == 4
    for name in large:
        spoil_all_but_the_first_group(data_files(tmp_path)[name])
    assert sorted(map(tuple, table.df(where=where, engine=engine).collect())) == expected
    if engine == "native":
        assert sorted(map(tuple, table.df().filter(where).collect())) == expected, "Spark's own filter"
    with pytest.raises(Exception, match=r".+"):
        table.df(engine=engine).collect()
