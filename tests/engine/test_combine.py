"""Merged rows of a bucket: files in any state of settling against the dict model, in whatever memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_reading import key_bag
from key_shapes import Drawing, Shape, shapes
from pyroaring import BitMap64

import lakebed
from lakebed.core.actions import AddFile, Metadata
from lakebed.core.errors import CorruptFileError, DataError
from lakebed.core.file_tags import KIND_COLUMN, ROW_ID_COLUMN, ROW_VERSION_COLUMN, settled
from lakebed.core.keyed import KeySpec
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.predicate import columns as columns_of
from lakebed.core.predicate import parse
from lakebed.engine.combine import Combined, combine
from lakebed.engine.inputs import to_reader
from lakebed.engine.keyed_write import UpsertOrder, write_upserts
from lakebed.engine.partitioning import split
from lakebed.engine.resolve import BucketFiles, ResolveOrder
from lakebed.engine.rewritten import RewriteWriter
from lakebed.engine.scan import ScanOrder, read_all
from lakebed.engine.source import MergedRows, Source
from lakebed.engine.vectors import store_vectors, with_replaced, with_vector
from lakebed.engine.write import WriteOrder
from lakebed.storage.store import open_store

ROOMY = Options(sync=False)
TIGHT = Options(sync=False, max_row_group_rows=2, writer_memory_limit=400, batch_size=3)
NUMBERS = itertools.count()


@dataclass
class Bucket:
    """One bucket of a table, settled and read by nothing but ``combine``."""

    root: Path
    metadata: Metadata
    options: Options = ROOMY
    settled: list[AddFile] = field(default_factory=list)
    unsettled: list[AddFile] = field(default_factory=list)
    version: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self.store = open_store(Location.parse(self.root), self.options)
        key = KeySpec.of(self.metadata)
        assert key is not None
        self.key = key

    def order(self, **more: Any) -> ResolveOrder:
        return ResolveOrder(self.store, "t", self.metadata, self.key, self.options, **more)

    def upsert(self, rows: list[dict[str, Any]], kinds: list[str] | None = None, *, pending: bool = False) -> None:
        """One commit; a pending one has no version yet."""
        kinds = kinds or ["+I"] * len(rows)
        data = [{**row, "op": kind} for row, kind in zip(rows, kinds, strict=True)]
        # A batch beyond the writer's memory becomes several files, which are folded one after the other.
        options = replace(self.options, writer_memory_limit=ROOMY.writer_memory_limit)
        order = UpsertOrder(self.store, "t", self.metadata, options, self.key, row_kind="op")
        files = write_upserts(to_reader(data, self.metadata.schema, "t"), order).files
        self.version += 1
        self.unsettled += files if pending else [self.committed(add) for add in files]

    def committed(self, add: AddFile) -> AddFile:
        self.rows += add.num_records or 0
        return replace(add, base_row_id=self.rows - (add.num_records or 0), default_row_commit_version=self.version)

    def combined(self, **more: Any) -> Combined:
        return combine(self.order(**more), BucketFiles(tuple(self.settled), tuple(self.unsettled)))

    def settle(self) -> None:
        """Put merged rows into new files, and give the others their vectors."""
        found = self.combined()
        replaced = found.places.replaced_tombstones
        marked = [with_replaced(add, replaced[add.path]) if add.path in replaced else add for add in self.settled]
        kept = [(add, found.dead.get(add.path)) for add in marked]
        self.version += 1
        fresh = list(self.written(found.tables(tombstones=self.key.keeps_tombstones)))
        self.settled = [add if dead is None else self.with_dead(add, dead) for add, dead in kept]
        self.settled += [self.committed(self.with_dead(add, dead)) for add, dead in fresh]
        self.unsettled = []

    def written(self, tables: Iterator[pa.Table]) -> Iterator[tuple[AddFile, BitMap64]]:
        order = WriteOrder(self.store, "t", self.metadata, self.options)
        tombstones = self.key.keeps_tombstones
        with RewriteWriter(order, key=self.key.key, tombstones=tombstones, row_size=10) as writer:
            for table in tables:
                names = self.metadata.partition_columns
                parts = [((), table)]
                if names:
                    batch = table.combine_chunks().to_batches()[0]
                    parts = [(v, pa.Table.from_batches([part])) for v, part in split(batch, list(names))]
                for values, part in parts:
                    writer.write(dict(zip(names, values, strict=True)), 0, part)
            yield from ((one.add, one.dead) for one in writer.close())

    def with_dead(self, add: AddFile, dead: BitMap64) -> AddFile:
        vectors = store_vectors(self.store, [dead] if dead else []).vectors
        return with_vector(settled(add), vectors[0] if dead else None, add.num_records or 0, data_change=True)

    def read(self, columns: tuple[str, ...] | None = None, where: str | None = None, **more: Any) -> pa.Table:
        predicate = None if where is None else parse(where, self.metadata.schema)
        names = tuple(self.metadata.schema.names) if columns is None else columns
        found = self.combined(**more)
        sources = [Source(add, found.dead.get(add.path)) for add in self.settled]
        scan = ScanOrder(self.store, "t", self.metadata, self.options, names, predicate)
        return read_all(scan, [*sources, MergedRows(found.tables)])


def bucket_for(lake: lakebed.Warehouse, ddl: str, options: Options = ROOMY, **create: Any) -> Bucket:
    """A bucket of a table that the warehouse has only made."""
    table = lake.create_table(f"t{next(NUMBERS)}", ddl, **{"buckets": 1, **create})
    return Bucket(Path(table.location.removeprefix("file://")), table._point().metadata, options)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Warehouse:
    return lakebed.connect(tmp_path_factory.mktemp("combined"))


def is_combining(shape: Shape) -> bool:
    return shape.rules.engine in ("partial-update", "aggregation")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(shape=shapes().filter(is_combining), data=st.data())
def test_combined_rows_are_the_model(lake: lakebed.Warehouse, shape: Shape, data: st.DataObject) -> None:
    compare(lake, shape, data)


@pytest.mark.soak
@settings(max_examples=2000, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(shape=shapes().filter(is_combining), data=st.data())
def test_combined_rows_are_the_model_at_length(lake: lakebed.Warehouse, shape: Shape, data: st.DataObject) -> None:
    compare(lake, shape, data)


def compare(lake: lakebed.Warehouse, shape: Shape, data: st.DataObject) -> None:
    """Settled files with vectors and tombstones, unsettled ones, all functions; tiny limits change nothing."""
    partitions = [] if 1 in shape.rules.key else shape.create["partition_by"]
    options = data.draw(st.sampled_from([ROOMY, TIGHT]))
    create = {**shape.create, "buckets": 1, "partition_by": partitions}
    bucket, model = bucket_for(lake, shape.ddl, options, **create), shape.model()
    for _ in range(data.draw(st.integers(1, 6))):
        drawing = Drawing(shape, model, data)
        rows = drawing.rows()
        if rows:
            kinds = drawing.kinds(rows)
            bucket.upsert(rows, kinds)
            model.upsert(rows, kinds)
        assert key_bag(bucket.read()) == model.now.visible()
        if data.draw(st.booleans()):
            before = bucket.read(limit=1)
            assert key_bag(before) == model.now.visible()
            bucket.settle()
            assert key_bag(bucket.read()) == model.now.visible()
    check_parts_of_rows(bucket, shape, model, data)


def check_parts_of_rows(bucket: Bucket, shape: Shape, model: Any, data: st.DataObject) -> None:
    names = [c.name for c in model.now.columns]
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    whole = key_bag(bucket.read())
    expected: Counter[Any] = Counter()
    for row, times in whole.items():
        expected[tuple(row[names.index(name)] for name in some)] += times
    assert key_bag(bucket.read(tuple(some))) == expected
    text, test, *_ = Drawing(shape, model, data).predicate()
    found = bucket.read(("id",), text)
    wanted = sum(test(model.named(row)) for row in model.now.rows.values())
    assert found.num_rows == wanted
    predicate = parse(text, bucket.metadata.schema)
    if columns_of(predicate) <= set(bucket.key.key):
        combined = bucket.combined(where=predicate)
        made = [row for table in combined.tables() for row in table.to_pylist()]
        assert all(test(row) for row in made)
        every = [row for table in bucket.combined().tables() for row in table.to_pylist()]
        assert len(made) == sum(test(row) for row in every)


SUMS = {"fields.n.aggregate-function": "sum"}


def test_only_matched_row_groups_are_read(lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(ROOMY, max_row_group_rows=10)
    bucket = bucket_for(
        lake, "id BIGINT, n BIGINT", options, primary_key=["id"], merge_engine="aggregation", properties=SUMS
    )
    bucket.upsert([{"id": i, "n": 1} for i in range(100)])
    bucket.settle()
    bucket.upsert([{"id": 55, "n": 4}])
    read: list[int] = []
    from lakebed.storage.parquet_reader import ParquetFileReader

    batches = ParquetFileReader.batches

    def watched(self: Any, columns: Any, size: int, groups: Any = None) -> Any:
        read.extend(groups)
        return batches(self, columns, size, groups)

    found = bucket.combined()
    monkeypatch.setattr(ParquetFileReader, "batches", watched)
    (rows,) = found.tables()
    assert rows.select(["id", "n"]).to_pylist() == [{"id": 55, "n": 5}]
    assert sorted(read) == [0, 5]


def test_row_versions_are_those_of_the_newest_row(lake: lakebed.Warehouse) -> None:
    """Rows whose commit is still to come have no version: they get that of the commit."""
    bucket = bucket_for(lake, "id BIGINT, n BIGINT", primary_key=["id"], merge_engine="aggregation", properties=SUMS)
    bucket.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 3, "n": 1}])
    bucket.settle()
    bucket.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    bucket.upsert([{"id": 1, "n": 1}], pending=True)
    (rows,) = bucket.combined().tables()
    assert rows.column_names == ["id", "n", ROW_ID_COLUMN, ROW_VERSION_COLUMN]
    assert [tuple(row.values()) for row in rows.to_pylist()] == [(1, 3, None, None), (2, 2, None, 3)]


def test_tombstones_come_only_when_they_are_wanted(lake: lakebed.Warehouse) -> None:
    create = {"primary_key": ["id"], "sequence": ["s"], "merge_engine": "partial-update"}
    properties = {"remove-record-on-delete": "true"}
    bucket = bucket_for(lake, "id BIGINT, s BIGINT, n BIGINT NOT NULL", properties=properties, **create)
    bucket.upsert([{"id": 1, "s": 1, "n": 1}, {"id": 2, "s": 1, "n": 1}])
    bucket.settle()
    bucket.upsert([{"id": 1, "s": 5, "n": 0}], ["-D"])
    found = bucket.combined()
    assert list(found.tables()) == []
    (rows,) = found.tables(tombstones=True)
    assert rows.select(["id", "s", "n", KIND_COLUMN]).to_pylist() == [{"id": 1, "s": 5, "n": None, KIND_COLUMN: 3}]
    bucket.settle()
    bucket.upsert([{"id": 1, "s": 4, "n": 9}])
    assert bucket.read().to_pylist() == [{"id": 2, "s": 1, "n": 1}]
    bucket.settle()
    bucket.upsert([{"id": 1, "s": 5, "n": 9}])
    assert sorted(bucket.read()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("name", ["row", "kid", "at", "position", "index", "kind", "k1", "s0"])
def test_a_column_may_have_any_name(lake: lakebed.Warehouse, name: str) -> None:
    """Frames of keys and row numbers have names of their own; a table's columns may have the same."""
    create = {"primary_key": ["id", name], "sequence": ["late"], "merge_engine": "partial-update"}
    bucket = bucket_for(lake, f"id BIGINT, {name} BIGINT, late BIGINT, rank STRING", **create)
    bucket.upsert([{"id": 1, name: 1, "late": 1, "rank": "a"}, {"id": 1, name: 2, "late": 1, "rank": "b"}])
    bucket.settle()
    bucket.upsert([{"id": 1, name: 2, "late": 2, "rank": None}])
    bucket.upsert([{"id": 1, name: 2, "late": 1, "rank": "late"}])
    assert [tuple(row.values()) for row in bucket.read().to_pylist()] == [(1, 1, 1, "a"), (1, 2, 2, "b")]


def test_a_value_that_merging_takes_from_a_column_that_must_have_one(lake: lakebed.Warehouse) -> None:
    create = {"primary_key": ["id"], "merge_engine": "aggregation"}
    properties = {"fields.n.aggregate-function": "product"}
    bucket = bucket_for(lake, "id BIGINT, n BIGINT NOT NULL", properties=properties, **create)
    bucket.upsert([{"id": 1, "n": 4}])
    bucket.upsert([{"id": 2, "n": 2}], ["-D"])
    with pytest.raises(DataError, match=r"1 rows without column 'n', which is never null[\s\S]*'id': 2"):
        bucket.settle()
    assert bucket.read(("id",)).num_rows == 2


def test_many_files_in_little_memory(lake: lakebed.Warehouse) -> None:
    """More files than are merged at a time wait in a temporary folder."""
    create = {"primary_key": ["id"], "merge_engine": "aggregation", "properties": {
        **SUMS, "fields.words.aggregate-function": "listagg"}}  # fmt: skip
    bucket = bucket_for(lake, "id BIGINT, n BIGINT, words STRING", TIGHT, **create)
    for commit in range(70):
        bucket.upsert([{"id": i, "n": 1, "words": str(commit)} for i in range(commit % 3, 12, 3)])
    rows = [row for table in bucket.combined(limit=50).tables() for row in table.to_pylist()]
    assert [row["id"] for row in rows] == list(range(12))
    expected = {i: [str(c) for c in range(70) if i % 3 == c % 3] for i in range(12)}
    assert {row["id"]: row["words"] for row in rows} == {i: ",".join(texts) for i, texts in expected.items()}
    assert {row["id"]: row["n"] for row in rows} == {i: len(texts) for i, texts in expected.items()}


def test_files_that_are_not_sorted_are_sorted_first(lake: lakebed.Warehouse) -> None:
    """Nobody writes such files, but no row may be lost for one."""
    create = {"primary_key": ["id"], "merge_engine": "aggregation", "properties": SUMS}
    bucket = bucket_for(lake, "id BIGINT, n BIGINT", TIGHT, **create)
    bucket.upsert([{"id": i, "n": 1} for i in range(30)])
    order = WriteOrder(bucket.store, "t", bucket.metadata, TIGHT)
    (rows,) = (pa.concat_tables(bucket.combined().tables()),)
    with RewriteWriter(order, key=("id",), tombstones=False, row_size=10) as writer:
        writer.write({}, 0, rows.take(pa.array(reversed(range(30)))))
        (made,) = writer.close()
    bucket.settled, bucket.unsettled = [bucket.committed(made.add)], []
    bucket.upsert([{"id": i, "n": 10} for i in range(0, 30, 2)])
    assert sorted(bucket.read()["n"].to_pylist()) == [1] * 15 + [11] * 15
    made_rows = [row["id"] for table in bucket.combined().tables() for row in table.to_pylist()]
    assert made_rows == list(range(0, 30, 2))


def test_a_broken_file_is_named(lake: lakebed.Warehouse) -> None:
    bucket = bucket_for(lake, "id BIGINT, n BIGINT", primary_key=["id"], merge_engine="aggregation", properties=SUMS)
    bucket.upsert([{"id": 1, "n": 1}])
    found = bucket.combined()
    (bucket.root / bucket.unsettled[0].file_path).write_bytes(b"PAR1 no PAR1")
    with pytest.raises(CorruptFileError, match=r"parquet"):
        list(found.tables())
