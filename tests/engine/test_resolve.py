"""Which rows are dead: against a dict that folds the files one after the other."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakebed.core.actions import AddFile, DeletionVector, Metadata
from lakebed.core.errors import CorruptFileError, FileMissingError
from lakebed.core.file_tags import KIND_COLUMN, file_tags
from lakebed.core.keyed import MERGE_ENGINE, PRIMARY_KEY, SEQUENCE, KeySpec
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.predicate import parse
from lakebed.core.schema import BYTE, MAPPING_NAME, Field, Struct
from lakebed.core.schema_arrow import to_arrow
from lakebed.core.schema_ddl import from_ddl
from lakebed.core.schema_delta import to_delta
from lakebed.engine.resolve import BucketFiles, Resolution, ResolveOrder, match, resolve
from lakebed.engine.resolving.key_file import KeyFile, open_keys
from lakebed.engine.resolving.ranges import key_ranges
from lakebed.storage.deletion_vector import write_vectors
from lakebed.storage.footer import RowGroup
from lakebed.storage.parquet_writer import ParquetFileWriter
from lakebed.storage.store import Store, open_store

OPTIONS = Options(max_row_group_rows=3, sync=False)
EPOCH = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

NUMBERS = itertools.count()

Key = tuple[Any, ...]
Row = tuple[Key, tuple[Any, ...], int]
"""Key, sequence values, kind."""


@dataclass
class Bucket:
    """A bucket made by hand: files with rows, dead positions, in the order of their commits."""

    store: Store
    schema: Struct
    key: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    engine: str = "deduplicate"
    options: Options = OPTIONS

    def order(self, **settings: Any) -> ResolveOrder:
        physical = {f.name: f.physical_name for f in self.schema}
        configuration = {
            PRIMARY_KEY: json.dumps([physical[name] for name in self.key]),
            SEQUENCE: json.dumps([physical[name] for name in self.sequence]),
            MERGE_ENGINE: self.engine,
        }
        metadata = Metadata("t", json.dumps(to_delta(self.schema)), configuration=configuration)
        spec = KeySpec.of(metadata)
        assert spec is not None
        return ResolveOrder(self.store, "db.t", metadata, spec, self.options, **settings)

    def file(self, rows: Sequence[Row], dead: BitMap64 | None = None, *, unsettled: bool = False) -> AddFile:
        """A file with the rows, which must be sorted by key, as the writer would make it."""
        path = f"f{next(NUMBERS)}.parquet"
        deletes = sum(kind in (1, 3) for _, _, kind in rows)
        schema = self.schema
        columns: dict[str, list[Any]] = {
            **{name: [key[i] for key, _, _ in rows] for i, name in enumerate(self.key)},
            **{name: [values[i] for _, values, _ in rows] for i, name in enumerate(self.sequence)},
        }
        if deletes:
            schema = Struct((*schema, Field(KIND_COLUMN, BYTE)))
            columns[KIND_COLUMN] = [kind if kind in (1, 3) else None for _, _, kind in rows]
        arrow = to_arrow(schema)
        arrays = [pa.array(columns.get(f.name, [None] * len(rows)), f.type) for f in arrow]
        with ParquetFileWriter(self.store, path, schema, self.options) as writer:
            writer.write(pa.table(arrays, schema=arrow))
        written = writer.close()
        add = AddFile(
            path, {}, written.size, 0, True, stats=written.stats_json,
            tags=file_tags(0, unsettled=unsettled, tombstones=deletes),
        )  # fmt: skip
        return add if not dead else replace(add, deletion_vector=vector(self.store, dead))


def vector(store: Store, dead: BitMap64) -> DeletionVector:
    (made,) = write_vectors(store, [dead]).vectors
    return DeletionVector(made.storage_type, made.path_or_inline, made.size_in_bytes, made.cardinality, made.offset)


def rank(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is not None, value if value is not None else 0) for value in values)


def model(files: Sequence[Sequence[Row]], *, first_row: bool = False) -> dict[Key, tuple[int, int] | None]:
    """Where the row of each key is after all files: (file, position); None for a tombstone."""
    state: dict[Key, tuple[tuple[Any, ...], tuple[int, int] | None]] = {}
    for number, rows in enumerate(files):
        for position, (key, sequence, kind) in enumerate(rows):
            deletes = kind in (1, 3)
            old = state.get(key)
            if first_row:
                if old is None and not deletes:
                    state[key] = (), (number, position)
            elif old is None or rank(sequence) >= rank(old[0]):
                state[key] = sequence, None if deletes else (number, position)
    return {key: place for key, (_, place) in state.items()}


def dead_of(rows: Sequence[Sequence[Row]], state: dict[Key, tuple[int, int] | None]) -> list[BitMap64]:
    alive = {place for place in state.values() if place is not None}
    return [BitMap64(p for p in range(len(part)) if (n, p) not in alive) for n, part in enumerate(rows)]


def check(bucket: Bucket, files: Sequence[Sequence[Row]], settled: int, **settings: Any) -> Resolution:
    """Resolve with the first ``settled`` files settled already; the result must be the model's."""
    first_row = bucket.engine == "first-row"
    before = dead_of(files[:settled], model(files[:settled], first_row=first_row))
    after = dead_of(files, model(files, first_row=first_row))
    adds = [bucket.file(rows, dead) for rows, dead in zip(files, before, strict=False)]
    adds += [bucket.file(rows, unsettled=True) for rows in files[settled:]]
    of = BucketFiles(tuple(adds[:settled]), tuple(adds[settled:]))
    found = resolve(bucket.order(**settings), of)
    forgetful = replace(bucket, options=replace(bucket.options, key_cache_size=0))
    assert resolve(forgetful.order(**settings), of) == found
    before += [BitMap64() for _ in files[settled:]]
    expected = {add.path: new for add, old, new in zip(adds, before, after, strict=True) if old != new}
    assert found.dead == expected
    return found


SMALL = st.integers(0, 12)
VALUES: dict[str, Any] = {
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-3, 9),
    "INT": st.integers(-3, 9) | st.sampled_from([-(2**31), 2**31 - 1]),
    "BIGINT": st.integers(-3, 9) | st.sampled_from([-(2**63), 2**63 - 1]),
    "STRING": st.text("aé\U0010ffff\x00", max_size=3)
    | st.sampled_from(["x" * 100, "x" * 100 + "y", "\U0010ffff" * 40]),
    "BINARY": st.binary(max_size=2) | st.sampled_from([b"\xff" * 80, b"\xff" * 81]),
    "BOOLEAN": st.booleans(),
    "DATE": st.integers(-5, 5).map(lambda n: dt.date(1970, 1, 1) + dt.timedelta(n)) | st.just(dt.date(9999, 12, 31)),
    "TIMESTAMP": SMALL.map(lambda n: EPOCH + dt.timedelta(microseconds=n)),
    "TIMESTAMP_NTZ": SMALL.map(lambda n: EPOCH.replace(tzinfo=None) + dt.timedelta(microseconds=n)),
    "DECIMAL(9,2)": SMALL.map(lambda n: Exact(n - 6).scaleb(-2)),
    "DECIMAL(18,0)": st.sampled_from([Exact(-(10**18) + 1), Exact(0), Exact(10**18 - 1)]),
    "DECIMAL(38,4)": SMALL.map(lambda n: (Exact(10) ** 33 + n).scaleb(-4)),
}
TYPES = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3)


def order_of(key: Key) -> tuple[Any, ...]:
    return tuple(value.encode() if isinstance(value, str) else value for value in key)


@st.composite
def histories(draw: Any, sequences: int, deletes: bool) -> tuple[list[str], list[list[Row]], int]:
    types = draw(TYPES)
    pool = draw(st.lists(st.tuples(*(VALUES[t] for t in types)), min_size=1, max_size=12, unique=True))
    values = st.tuples(*[st.none() | st.integers(0, 3)] * sequences)
    kinds = st.sampled_from([0, 0, 0, 1, 2, 3]) if deletes else st.just(0)
    files = []
    for _ in range(draw(st.integers(1, 5))):
        keys = sorted(draw(st.sets(st.sampled_from(pool))), key=order_of)
        files.append([(key, draw(values), draw(kinds)) for key in keys])
    return types, files, draw(st.integers(0, len(files)))


def bucket_of(store: Store, types: Sequence[str], sequences: int, engine: str = "deduplicate") -> Bucket:
    keys = [f"key {i}" for i in range(len(types))]
    ddl = [f"`{name}` {kind} NOT NULL" for name, kind in zip(keys, types, strict=True)]
    more = [f"seq{i} {kind}" for i, kind in zip(range(sequences), ["INT", "BIGINT"], strict=False)]
    schema = from_ddl(", ".join([*ddl, "other STRING", *more]))
    physical = Struct(tuple(f.with_metadata(**{MAPPING_NAME: f"col-{i}"}) for i, f in enumerate(schema)))
    return Bucket(store, physical, tuple(keys), tuple(f"seq{i}" for i in range(sequences)), engine)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(Location.parse(str(tmp_path_factory.mktemp("resolve"))), Options(sync=False))


EXAMPLES = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_key_ranges_are_even_though_every_file_has_keys_of_all_of_them(store: Store) -> None:
    """As the files of one large upsert are: a row group tells nothing of where a range could end."""
    one_group = Options(max_row_group_rows=1_000_000, sync=False)
    bucket = Bucket(store, from_ddl("k BIGINT"), ("k",), options=one_group)
    files = [bucket.file([((8 * n + at,), (), 0) for n in range(1000)], unsettled=True) for at in range(8)]
    order = bucket.order(limit=20_000)
    total, found = 0, []
    for add in files:
        with open_keys(order, add, sequence=False, kind=False) as file:
            assert len(file.groups) == 1
            total += file.num_bytes
            found.append(file.frame(file.groups))
    ranges = key_ranges(order, files)
    assert len(ranges) >= total // order.key_bytes > 4
    sizes = [sum(span.filter(rows, order.layout.keys).height for rows in found) for span in ranges]
    assert sum(sizes) == 8000
    assert max(sizes) * total / 8000 <= 1.5 * order.key_bytes


@EXAMPLES
@given(history=histories(0, deletes=True), limit=st.sampled_from([1, 200, 10**9]))
def test_the_last_row_wins(store: Store, history: Any, limit: int) -> None:
    types, files, settled = history
    check(bucket_of(store, types, 0), files, settled, limit=limit)


@EXAMPLES
@given(history=histories(1, deletes=True), limit=st.sampled_from([1, 200, 10**9]))
def test_the_highest_sequence_wins_also_against_a_tombstone(store: Store, history: Any, limit: int) -> None:
    types, files, settled = history
    check(bucket_of(store, types, 1), files, settled, limit=limit)


@EXAMPLES
@given(history=histories(2, deletes=True), limit=st.sampled_from([1, 200, 10**9]))
def test_several_sequence_columns_are_compared_from_left_to_right(store: Store, history: Any, limit: int) -> None:
    types, files, settled = history
    check(bucket_of(store, types, 2), files, settled, limit=limit)


@EXAMPLES
@given(history=histories(0, deletes=True), limit=st.sampled_from([1, 10**9]))
def test_first_row_keeps_the_oldest_and_ignores_deletes(store: Store, history: Any, limit: int) -> None:
    types, files, settled = history
    check(bucket_of(store, types, 0, "first-row"), files, settled, limit=limit)


def rows_of(*keys: Any, kind: int = 0, sequence: tuple[Any, ...] = ()) -> list[Row]:
    return [((key,), sequence, kind) for key in keys]


def test_counts_say_what_became_of_the_rows(store: Store) -> None:
    bucket = bucket_of(store, ["BIGINT"], 0)
    mixed = sorted([*rows_of(1, 2, 7), *rows_of(3, 9, kind=3)])
    found = check(bucket, [rows_of(1, 2, 3, 4), mixed], settled=1)
    assert (found.replaced, found.deleted, found.inserted) == (2, 1, 1)


def test_without_unsettled_files_nothing_is_read(store: Store) -> None:
    bucket = bucket_of(store, ["BIGINT"], 0)
    gone = AddFile("gone.parquet", {}, 1, 0, True)
    assert resolve(bucket.order(), BucketFiles((gone,), ())).dead == {}


def test_empty_files_and_files_without_a_live_row_are_no_hindrance(store: Store) -> None:
    bucket = bucket_of(store, ["STRING"], 0)
    check(bucket, [[], rows_of("a", "b"), rows_of("a", "b", kind=3), rows_of("a"), []], settled=3)


def test_a_tombstone_of_a_settled_file_keeps_late_rows_away(store: Store) -> None:
    bucket = bucket_of(store, ["INT"], 1)
    files = [rows_of(1, 2, sequence=(5,)), rows_of(1, 2, kind=3, sequence=(9,)), rows_of(1, sequence=(8,))]
    found = check(bucket, [*files, rows_of(2, sequence=(9,))], settled=2)
    assert found.inserted == 1


def test_a_predicate_on_the_key_leaves_other_keys_alone(store: Store) -> None:
    bucket = bucket_of(store, ["DATE", "STRING"], 0)
    days = [dt.date(2024, 1, day) for day in (1, 2)]
    rows: list[Row] = [((day, name), (), 0) for day in days for name in "abc"]
    old, new = bucket.file(rows), bucket.file(rows, unsettled=True)
    where = parse("`key 0` = DATE '2024-01-02' AND `key 1` <> 'b'", bucket.schema)
    found = resolve(bucket.order(where=where), BucketFiles((old,), (new,)))
    assert found.dead[old.path] == BitMap64([3, 5])


def test_match_tells_positions_and_the_number_of_each_key(store: Store) -> None:
    bucket = bucket_of(store, ["STRING", "BIGINT"], 0)
    rows: list[Row] = [((name, number), (), 0) for name in "abc" for number in (1, 2)]
    one, other = bucket.file(rows[:4], BitMap64([0])), bucket.file(rows[4:])
    keys = pa.table({"key 1": [2, 1, 2, 9], "key 0": ["c", "a", "b", "b"], "more": [0, 0, 0, 0]})
    found = match(bucket.order(), [one, other], keys)
    assert {path: (m.positions.to_pylist(), m.index.to_pylist()) for path, m in found.items()} == {
        one.path: ([3], [2]),
        other.path: ([1], [0]),
    }


def test_files_and_row_groups_that_cannot_hold_a_changed_key_are_not_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = bucket_of(store, ["STRING", "BIGINT"], 0)
    rows: list[Row] = [(("tenant", number), (), 0) for number in range(30)]
    old, elsewhere = bucket.file(rows), bucket.file([(("zebra", 1), (), 0)])
    new = bucket.file(rows[13:14], unsettled=True)
    read: list[tuple[str | None, list[int]]] = []
    whole = KeyFile.frame

    def spy(file: KeyFile, groups: Sequence[RowGroup]) -> Any:
        read.append((file.path, [group.index for group in groups]))
        return whole(file, groups)

    monkeypatch.setattr(KeyFile, "frame", spy)
    found = resolve(bucket.order(), BucketFiles((old, elsewhere), (new,)))
    assert found.dead == {old.path: BitMap64([13])}
    assert sorted(read) == sorted([(store.path(old.path), [4]), (store.path(new.path), [0])])


def test_an_older_narrower_key_type_is_matched_as_today_s(store: Store) -> None:
    narrow, wide = bucket_of(store, ["INT"], 0), bucket_of(store, ["BIGINT"], 0)
    old, new = narrow.file(rows_of(1, 2, 3)), wide.file(rows_of(2, 2**40), unsettled=True)
    assert resolve(wide.order(), BucketFiles((old,), (new,))).dead == {old.path: BitMap64([1])}


def test_files_that_are_not_sorted_are_matched_too(store: Store) -> None:
    bucket = bucket_of(store, ["BIGINT"], 0)
    old, new = bucket.file(rows_of(3, 1, 2, 9, 4)), bucket.file(rows_of(9, 3, 5), unsettled=True)
    assert resolve(bucket.order(), BucketFiles((old,), (new,))).dead == {old.path: BitMap64([0, 3])}


def test_a_missing_file_is_named_with_its_table(store: Store) -> None:
    bucket = bucket_of(store, ["BIGINT"], 0)
    new = bucket.file(rows_of(1), unsettled=True)
    gone = replace(new, path="gone.parquet", tags=file_tags(0))
    with pytest.raises(FileMissingError, match=r"db\.t.*gone\.parquet"):
        resolve(bucket.order(), BucketFiles((gone,), (new,)))


def test_a_damaged_file_is_named(store: Store) -> None:
    bucket = bucket_of(store, ["BIGINT"], 0)
    old, new = bucket.file(rows_of(*range(9))), bucket.file(rows_of(1), unsettled=True)
    path = Path(store.path(old.path))
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=old.path):
        resolve(bucket.order(), BucketFiles((old,), (new,)))


@pytest.mark.s3
def test_the_files_may_be_on_s3(s3: Any) -> None:
    store = open_store(Location.parse(f"s3://{s3.new_bucket()}/table"), Options.parse(s3.options()))
    bucket = bucket_of(store, ["STRING", "DECIMAL(9,2)"], 1)
    keys: list[Key] = [(name, Exact(number)) for name in "ab" for number in range(4)]
    old: list[Row] = [(key, (2,), 0) for key in keys]
    new: list[Row] = [(key, (number % 3,), 3 * (number % 2)) for number, key in enumerate(keys)]
    check(bucket, [old, new, new[2:5]], settled=1)
