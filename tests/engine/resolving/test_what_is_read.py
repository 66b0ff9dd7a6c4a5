"""Of the files of an unsettled bucket only key and sequence columns are read, and only where the keys may be.

What must not be read is overwritten in the files: whoever reads it all the same fails.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from conftest import Place
from damaged_files import ruin, ruin_pages

import lakebed
from lakebed.core.errors import CorruptFileError, FileMissingError
from lakebed.core.file_tags import KIND_COLUMN
from lakebed.engine import resolution_cache
from lakebed.engine.resolving import key_columns
from lakebed.storage.parquet_reader import ParquetFileReader
from lakebed.storage.store import Store

GROUP = 50
KINDS: dict[str, Callable[[int], Any]] = {"BIGINT": lambda n: n, "STRING": lambda n: f"key {n:06}"}
"""Types of keys: numbers are looked up directly if they are many, texts never."""


def make(lake: lakebed.Warehouse, kind: str, **given: Any) -> lakebed.Table:
    options = {"primary_key": ["id"], "buckets": 1, "merge": "on-read", **given}
    return lake.create_table("t", f"id {kind}, s BIGINT, name STRING, n BIGINT", **options)


def put(table: lakebed.Table, kind: str, numbers: Any, s: int, *deleted: int) -> None:
    rows = [{"id": KINDS[kind](n), "s": s, "name": f"name {n}", "n": n, "op": "+U"} for n in numbers]
    table.upsert([*rows, *({"id": KINDS[kind](n), "s": s, "op": "-D"} for n in deleted)], row_kind="op")


def forget() -> None:
    """As if another process had written and read the files: nothing of them is in memory."""
    key_columns._shared.clear()
    resolution_cache._shared.clear()


def is_local(place: Place) -> bool:
    return place.kind.endswith("local")


@contextmanager
def one_reader(place: Place) -> Iterator[None]:
    """Local files are left to polars and remote ones to Arrow: neither may help out where the other one fails."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("this is the other one's to read")

    with pytest.MonkeyPatch.context() as patch:
        if is_local(place):
            patch.setattr(ParquetFileReader, "table", refuse)
            patch.setattr(ParquetFileReader, "batches", refuse)
        else:
            patch.setattr(pl, "scan_parquet", refuse)
        yield


def dead_rows(table: lakebed.Table) -> list[int]:
    """Of each file, the oldest first."""
    files = sorted(table.files().to_pylist(), key=lambda file: file["added_version"])
    return [file["dead_rows"] for file in files]


CASES = {
    "deduplicate": ({}, [60, 20, 0]),
    "deletes": ({}, [61, 21, 3]),
    "sequence": ({"sequence": ["s"]}, [40, 0, 40]),
    "sequence-and-deletes": ({"sequence": ["s"]}, [40, 0, 43]),
    "first-row": ({"merge_engine": "first-row"}, [0, 40, 40]),
}
"""Of three batches, the last of which is late by its sequence: how many rows of each are dead."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_only_key_and_sequence_columns(place: Place, case: str, kind: str) -> None:
    """Resolved on the fly and settled for good, though no other column of any file can be read."""
    given, dead = CASES[case]
    with place.connect() as lake:
        table = make(lake, kind, **given)
        put(table, kind, range(100), 5)
        put(table, kind, range(60, 160), 9)
        put(table, kind, [*range(20), *range(140, 160), *range(200, 210)], 1, *(
            (20, 100, 300) if "deletes" in case else ()
        ))  # fmt: skip
        needed = {"id", KIND_COLUMN, *given.get("sequence", ())}
        assert ruin(table, lambda part: part.column not in needed)
        with pytest.raises(CorruptFileError):
            table.to_arrow(["name"])
        forget()
        live = sum(file["rows"] for file in table.files().to_pylist()) - sum(dead)
        with one_reader(place):
            assert table.count() == live
            assert bool(key_columns._shared.num_bytes) == (case == "deduplicate" and is_local(place)), "what was tried"
            forget()
            table.settle()
        assert dead_rows(table) == dead
        assert table.count() == live == table.read_optimised().count()
        assert len(set(table.to_arrow(["id"])["id"].to_pylist())) == live


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sequence", [[], ["s"]])
def test_upserts_that_settle(place: Place, kind: str, sequence: list[str]) -> None:
    """They read no more of the files that are there already."""
    with place.connect() as lake:
        table = make(lake, kind, sequence=sequence, merge="on-write")
        put(table, kind, range(100), 5)
        forget()
        assert ruin(table, lambda part: part.column not in {"id", *sequence})
        with one_reader(place):
            put(table, kind, range(60, 160), 4)
        assert dead_rows(table) == ([0, 40] if sequence else [40, 0])


class Counting(io.RawIOBase):
    """A file of Arrow's that adds up what is read of it."""

    def __init__(self, file: Any, counts: list[int]) -> None:
        self._file, self._counts = file, counts

    def read(self, size: int = -1) -> bytes:
        found: bytes = self._file.read(size if size >= 0 else None)
        self._counts.append(len(found))
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()


@pytest.mark.s3
@pytest.mark.parametrize("sequence", [[], ["s"]])
def test_bytes_of_other_columns_do_not_leave_the_store(
    s3: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, sequence: list[str]
) -> None:
    chance = random.Random(1)
    with lakebed.connect(f"s3://{s3.new_bucket()}/w", f"sqlite:///{tmp_path}/m.db", **s3.options()) as lake:
        table = make(lake, "BIGINT", sequence=sequence)
        for start in (0, 200):
            table.upsert([{"id": start + n, "s": start, "name": chance.randbytes(4000).hex()} for n in range(400)])
        forget()
        counts: list[int] = []
        real = Store.open_input
        monkeypatch.setattr(
            Store, "open_input", lambda self, rel: pa.PythonFile(Counting(real(self, rel), counts), mode="r")
        )
        table.settle()
        assert dead_rows(table) == [200, 0]
        total = sum(file["size"] for file in table.files().to_pylist())
        # Of each file Arrow takes the last 64 KiB at once, in which it looks for the footer; sizes are looked up first.
        assert 0 < sum(counts) < 4 * 70_000 < total // 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [{7}, {2, 3}, {1, 6}], ids=str)
@pytest.mark.parametrize("sequence", [[], ["s"]])
def test_row_groups_without_the_keys(place: Place, kind: str, groups: set[int], sequence: list[str]) -> None:
    """Of a settled file nobody reads the keys of row groups that cannot hold a wanted one."""
    with place.connect(max_row_group_rows=GROUP) as lake:
        table = make(lake, kind, sequence=sequence)
        put(table, kind, range(0, 8 * GROUP * 2, 2), 5)
        table.settle()
        # Every second key has a row; and a key between two row groups is in neither.
        wanted = [group * GROUP * 2 + n for group in groups for n in (0, 11, 40)]
        put(table, kind, [*wanted, 8 * GROUP * 2 + 1], 5)
        assert ruin(table, lambda part: part.version == 1 and part.group not in groups) >= 8 - len(groups)
        with pytest.raises(CorruptFileError):
            table.to_arrow(["id"])
        forget()
        # Local row groups that are not neighbours are Arrow's to read.
        with nullcontext() if groups == {1, 6} else one_reader(place):
            assert table.count() == 8 * GROUP + len(groups) + 1
            forget()
            table.settle()
        assert dead_rows(table) == [2 * len(groups), 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batches", [1, 2])
def test_files_without_the_keys(place: Place, kind: str, batches: int) -> None:
    """However many keys there are: files whose bounds exclude them are not opened."""
    with place.connect(max_row_group_rows=GROUP) as lake:
        table = make(lake, kind)
        for start in range(0, 1200, 400):
            put(table, kind, range(start, start + 400), 5)
        table.settle()
        for start in (450, 500)[:batches]:
            put(table, kind, range(start, start + 200), 6)
        gone = [file["path"] for file in table.files().to_pylist() if file["added_version"] in (1, 3)]
        table._store.delete_many(gone)
        with pytest.raises(FileMissingError):
            table.to_arrow(["id"])
        forget()
        with one_reader(place):
            assert table.count() == 1200
            if kind == "BIGINT" and is_local(place):
                assert key_columns._shared.num_bytes == 8 * (400 + 200 * batches), "looked up directly"
            forget()
            table.settle()
        assert dead_rows(table) == ([0, 200, 0, 0] if batches == 1 else [0, 250, 0, 150, 0])


def test_keys_between_row_groups_read_none(place: Place) -> None:
    with place.connect(max_row_group_rows=GROUP) as lake:
        table = make(lake, "BIGINT")
        put(table, "BIGINT", [100 * (n // GROUP) + n % GROUP for n in range(8 * GROUP)], 5)
        table.settle()
        put(table, "BIGINT", [100 * group + GROUP + 7 for group in range(7)], 5)
        forget()
        assert ruin(table, lambda part: part.version == 1)
        table.settle()
        assert dead_rows(table) == [0, 0]


def test_row_groups_by_all_columns_of_the_key(place: Place) -> None:
    """Where the first column has one value only, the second one decides."""
    with place.connect(max_row_group_rows=GROUP) as lake:
        table = lake.create_table(
            "t", "region STRING, id BIGINT, n BIGINT", primary_key=["region", "id"], buckets=1, merge="on-read"
        )
        table.upsert([{"region": region, "id": id, "n": 0} for region in "ab" for id in range(4 * GROUP)])
        table.settle()
        table.upsert([{"region": "a", "id": id, "n": 1} for id in (3 * GROUP, 3 * GROUP + 9)])
        forget()
        assert ruin(table, lambda part: part.version == 1 and part.group != 3)
        table.settle()
        assert dead_rows(table) == [2, 0]


@pytest.mark.parametrize("settled", [True, False])
def test_row_groups_of_a_scan_with_keys(place: Place, settled: bool) -> None:
    """A predicate on keys reads the row groups that may hold them; what is unsettled is resolved by keys as ever."""
    with place.connect(max_row_group_rows=GROUP) as lake:
        table = make(lake, "BIGINT")
        put(table, "BIGINT", range(8 * GROUP), 5)
        table.settle()
        put(table, "BIGINT", [GROUP + 3, 5 * GROUP + 3], 6)
        if settled:
            table.settle()
        forget()
        needless = lambda part: part.version == 1 and not part.low <= GROUP + 3 <= part.high  # noqa: E731
        matched = {"id"} if not settled else set()
        assert ruin(table, lambda part: needless(part) and not (part.group == 5 and part.column in matched))
        for where in (f"id = {GROUP + 3}", f"id between {GROUP + 3} and {GROUP + 4}"):
            found = {row["id"]: row["s"] for row in table.to_arrow(where=where).to_pylist()}
            assert found == {GROUP + 3: 6, **({GROUP + 4: 5} if "between" in where else {})}
            assert table.count(where) == len(found)
        with pytest.raises(CorruptFileError):
            table.to_arrow(where=f"id = {6 * GROUP}")


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.parametrize("end", [0, -1])
def test_pages_without_the_rows_to_merge(local_lake: lakebed.Warehouse, engine: str, end: int) -> None:
    """Of values, which only engines that combine rows need, nobody reads pages without a row to merge."""
    rows, chance = 200_000, random.Random(2)
    given = {"fields.n.aggregate-function": "sum"} if engine == "aggregation" else {}
    table = make(local_lake, "BIGINT", merge_engine=engine, properties=given)
    ids = pa.array(range(rows), pa.int64())
    names = pa.array([chance.randbytes(8).hex() for _ in range(rows)])
    table.upsert(pa.table({"id": ids, "s": ids, "name": names, "n": pa.array([1] * rows, pa.int64())}))
    table.settle()
    first = 100 if end == 0 else rows - 200
    table.upsert([{"id": n, "n": 5} for n in range(first, first + 50, 7)])
    assert ruin_pages(table, lambda part: part.version < table.version and part.column == "name", keep=end) > 1
    with pytest.raises(CorruptFileError):
        table.to_arrow(["name"])
    forget()
    found = table.to_arrow(where=f"id >= {first} and id < {first + 50} and n > 4")
    table.settle()
    merged = table.to_arrow(["id", "n"], where=f"id >= {first} and id < {first + 50}").to_pylist()
    total = 6 if engine == "aggregation" else 5
    assert {row["id"]: row["n"] for row in merged} == {
        n: total if (n - first) % 7 == 0 else 1 for n in range(first, first + 50)
    }
    assert found["name"].to_pylist() == [names[n].as_py() for n in range(first, first + 50, 7)]
