"""``sort_by`` orders a batch as a whole, however little of it fits into memory."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from upserting import content, contents, order_for, upsert

from lakebed.core.errors import DataError, StorageError
from lakebed.core.file_tags import KIND_COLUMN
from lakebed.core.options import Options
from lakebed.core.steps import Step, observe
from lakebed.engine import key_runs, large_batch
from lakebed.engine.keyed_write import KeyedWriter
from lakebed.storage import forked

TINY = Options(sync=False, writer_memory_limit=3 * 1024)
LARGE = Options(sync=False)


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local directory for parts that wait; a test must leave it empty."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def put_aside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each part that had to wait on the disk."""
    found: list[int] = []
    original = large_batch.LargeBatch.put

    def put(self: large_batch.LargeBatch, block: Any) -> None:
        found.append(block.num_rows)
        original(self, block)

    monkeypatch.setattr(large_batch.LargeBatch, "put", put)
    return found


def shuffled(rows: int, keys: int) -> list[dict[str, Any]]:
    """Rows whose helper ``lsn`` tells another order than that of their arrival."""
    return [{"id": n * 31 % keys, "n": n, "lsn": n * 7919 % 1009} for n in range(rows)]


def in_fold_order(rows: list[dict[str, Any]], *by: str) -> dict[Any, list[int]]:
    """For each key what ``n`` its rows have, as they are folded: nulls first, equal rows as they came."""
    found: dict[Any, list[int]] = {}
    for row in sorted(rows, key=lambda row: [(row[name] is not None, row[name] or 0) for name in by]):
        found.setdefault(row["id"], []).append(row["n"])
    return found


@pytest.mark.parametrize(("engine", "chosen"), [("deduplicate", -1), ("first-row", 0)])
@pytest.mark.parametrize("buckets", [1, 3, "dynamic", "postpone"])
def test_the_row_that_counts_is_that_of_the_whole_batch(
    tmp_path: Path, scratch: Path, put_aside: list[int], engine: str, chosen: int, buckets: object
) -> None:
    order = order_for(
        tmp_path, "id BIGINT, n BIGINT", ["id"],
        buckets=buckets, engine=engine, options=TINY, sort_by=("lsn",),
        properties={"lakebed.dynamic-bucket.target-rows": "40"},
    )  # fmt: skip
    rows = shuffled(1000, 97)
    done = upsert(order, pa.Table.from_pylist(rows))
    assert (done.rows, sum(put_aside), len(put_aside) > 10) == (1000, 1000, True)
    found = contents(order, done)
    expected = in_fold_order(rows, "lsn")
    assert sorted((row["id"], row["n"]) for row in found) == sorted((key, ns[chosen]) for key, ns in expected.items())
    for file in done.files:
        table = content(order, file)
        assert table.schema.names == ["id", "n"]
        assert table["id"].to_pylist() == sorted(table["id"].to_pylist())
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.parametrize("partitions", [(), ("dt",)], ids=["whole", "spanning"])
def test_rows_to_combine_are_in_the_order_of_the_whole_batch(
    tmp_path: Path, put_aside: list[int], engine: str, partitions: tuple[str, ...]
) -> None:
    order = order_for(
        tmp_path, "id BIGINT, n BIGINT, dt STRING, s BIGINT", ["id"],
        buckets=2, engine=engine, options=TINY, sequence=("s",), sort_by=("lsn",), partitions=partitions,
    )  # fmt: skip
    rows = [row | {"dt": "abc"[row["n"] % 3], "s": [None, 1, 2][row["n"] % 7 % 3]} for row in shuffled(600, 23)]
    done = upsert(order, pa.Table.from_pylist(rows))
    assert len(put_aside) > 10
    found: dict[int, list[int]] = {}
    for row in contents(order, done):
        found.setdefault(row["id"], []).append(row["n"])
    assert found == in_fold_order(rows, "s", "lsn")
    assert len({(file.tags or {})["lakebed.batch"] for file in done.files}) == 1


@pytest.mark.parametrize("key", [["id", "dt"], ["id"]], ids=["within", "spanning"])
def test_partitions(tmp_path: Path, put_aside: list[int], key: list[str]) -> None:
    order = order_for(
        tmp_path, "id BIGINT, n BIGINT, dt STRING", key, partitions=("dt",), buckets=2, options=TINY, sort_by=("lsn",)
    )
    rows = [row | {"dt": "abc"[row["n"] * row["lsn"] % 3]} for row in shuffled(900, 41)]
    done = upsert(order, pa.Table.from_pylist(rows))
    assert len(put_aside) > 10
    expected: dict[Any, Any] = {}
    for row in sorted(rows, key=lambda row: row["lsn"]):
        expected[tuple(row[name] for name in key)] = (row["n"], row["dt"])
    found = contents(order, done)
    assert len(found) == len(expected)
    assert {tuple(row[name] for name in key): (row["n"], row["dt"]) for row in found} == expected
    for file in done.files:
        assert set(content(order, file)["dt"].to_pylist()) == {file.partition_values["dt"]}


def test_deletes_are_ordered_among_the_other_rows(tmp_path: Path, put_aside: list[int]) -> None:
    order = order_for(
        tmp_path, "id BIGINT, n BIGINT NOT NULL", ["id"], buckets=2, options=TINY, row_kind="op", sort_by=("lsn",)
    )
    rows = [row | {"op": "-D" if row["n"] % 3 == 0 else "+U"} for row in shuffled(900, 41)]
    done = upsert(order, pa.Table.from_pylist([row | {"n": row["n"] if row["n"] % 3 else None} for row in rows]))
    assert (done.deletes, len(put_aside) > 10) == (300, True)
    last = {key: ns[-1] for key, ns in in_fold_order(rows, "lsn").items()}
    found = {row["id"]: (row["n"], row.get(KIND_COLUMN)) for row in contents(order, done)}
    assert found == {key: (n, None) if n % 3 else (None, 3) for key, n in last.items()}


HELPERS: dict[str, Callable[[int], Any]] = {
    "int": lambda n: n,
    "float": lambda n: float("nan") if n == 99 else n / 7,
    "string": lambda n: f"{n:03}ü",
    "binary": lambda n: bytes([n]),
    "decimal": lambda n: Decimal(n) / 4,
    "date": lambda n: dt.date(1969, 11, 1) + dt.timedelta(n),
    "timestamp": lambda n: dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
    "time": lambda n: dt.time(second=n % 60, minute=n // 60),
    "duration": lambda n: dt.timedelta(seconds=n - 50),
    "dictionary": lambda n: f"{n:03}",
    "null first": lambda n: n or None,
}


@pytest.mark.parametrize("forks", [False, True])
@pytest.mark.parametrize("kind", HELPERS)
def test_helpers_of_every_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_aside: list[int], kind: str, forks: bool
) -> None:
    monkeypatch.setattr(forked, "_lost", forks)
    order = order_for(tmp_path, "id BIGINT, n BIGINT", ["id"], options=TINY, sort_by=("h",))
    numbers = [n * 37 % 100 for n in range(400)]
    helper = pa.array([HELPERS[kind](n) for n in numbers])
    if kind == "dictionary":
        helper = helper.dictionary_encode()
    done = upsert(order, pa.table({"id": [n % 3 for n in range(400)], "n": range(400), "h": helper}))
    assert len(put_aside) > 3
    rows = [{"id": n % 3, "n": n, "lsn": number} for n, number in enumerate(numbers)]
    expected = {key: ns[-1] for key, ns in in_fold_order(rows, "lsn").items()}
    assert {row["id"]: row["n"] for row in contents(order, done)} == expected


KEYS: dict[str, Callable[[int], Any]] = {
    "STRING": lambda n: ["", "a", "ä", "\U0001f600", "\uffee"][n],
    "BINARY": lambda n: bytes([n * 60]),
    "BOOLEAN": lambda n: n % 2 == 0,
    "DECIMAL(20,2)": lambda n: Decimal(n - 3) / 4,
    "DATE": lambda n: dt.date(1969, 12, 29) + dt.timedelta(n),
    "TIMESTAMP": lambda n: dt.datetime(1969, 12, 31, 23, 59, 57, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
    "TINYINT": lambda n: n - 3,
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(tmp_path: Path, put_aside: list[int], kind: str) -> None:
    ddl = f"a {kind}, b INT, n BIGINT, m MAP<STRING, INT>"
    order = order_for(tmp_path, ddl, ["a", "b"], options=TINY, sort_by=("lsn",))
    rows = [
        {"a": KEYS[kind](n % 5), "b": n % 2, "n": n, "m": [("k", n)], "lsn": n * 7919 % 1009}
        for n in range(500)
    ]  # fmt: skip
    done = upsert(order, rows)
    assert len(put_aside) > 5
    expected = {(row["a"], row["b"]): (row["n"], row["m"]) for row in sorted(rows, key=lambda row: row["lsn"])}
    found = contents(order, done)
    assert {(row["a"], row["b"]): (row["n"], row["m"]) for row in found} == expected
    assert len(found) == len(expected)


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 3), st.none() | st.integers(0, 3))),
    engine=st.sampled_from(["deduplicate", "first-row", "aggregation"]),
    limit=st.sampled_from([1, 200, 3000]),
    fan_in=st.sampled_from([2, 64]),
)
def test_any_batch(rows: list[tuple[int, int | None, int | None]], engine: str, limit: int, fan_in: int) -> None:
    """The same rows stay, in the same order for each key, as with memory for all of them."""
    table = pa.table(
        {
            "id": pa.array([id for id, _, _ in rows], pa.int64()),
            "s": pa.array([s for _, s, _ in rows], pa.int64()),
            "lsn": pa.array([lsn for _, _, lsn in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    found = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_runs, "FAN_IN", fan_in)
        patch.setattr(large_batch, "FAN_IN", fan_in)
        for options in (LARGE, Options(sync=False, writer_memory_limit=limit)):
            order = order_for(
                Path(folder), "id BIGINT, s BIGINT, n BIGINT", ["id"],
                sequence=() if engine == "first-row" else ("s",), engine=engine, options=options, sort_by=("lsn",),
            )  # fmt: skip
            stayed: dict[int, list[int]] = {}
            for row in contents(order, upsert(order, table)):
                stayed.setdefault(row["id"], []).append(row["n"])
            found.append(stayed)
    assert found[0] == found[1]


def test_a_batch_that_fits_into_memory_needs_no_disk(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, put_aside: list[int]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(scratch / "missing"))
    rows = shuffled(1000, 97)
    order = order_for(tmp_path, "id BIGINT, n BIGINT", ["id"], options=LARGE, sort_by=("lsn",))
    assert len(upsert(order, pa.Table.from_pylist(rows)).files) == 1
    order = order_for(tmp_path, "id BIGINT, n BIGINT, lsn BIGINT", ["id"], options=TINY)
    assert len(upsert(order, pa.Table.from_pylist(rows)).files) > 10
    assert not put_aside


def test_a_local_directory_that_is_missing_is_named(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(scratch / "missing"))
    order = order_for(tmp_path / "t", "id BIGINT, n BIGINT", ["id"], options=TINY, sort_by=("lsn",))
    with pytest.raises(StorageError, match="missing"):
        upsert(order, pa.Table.from_pylist(shuffled(1000, 97)))
    assert not list((tmp_path / "t").rglob("*"))


@pytest.mark.parametrize("step", [Step.WRITE_OPENED, Step.WRITE_CLOSED])
def test_a_failure_while_files_are_written_leaves_nothing(tmp_path: Path, scratch: Path, step: Step) -> None:
    order = order_for(tmp_path / "t", "id BIGINT, n BIGINT", ["id"], buckets=2, options=TINY, sort_by=("lsn",))
    reached: list[Step] = []

    def fail(at: Step) -> None:
        reached.append(at)
        if at is step and reached.count(step) >= 3:
            raise KeyboardInterrupt

    stop = observe(fail)
    try:
        with pytest.raises(KeyboardInterrupt):
            upsert(order, pa.Table.from_pylist(shuffled(1000, 997)))
    finally:
        stop()
    assert 3 <= reached.count(step) < 8, "at most four files are written at a time"
    assert not list((tmp_path / "t").rglob("*"))
    assert not list(scratch.iterdir())


def test_a_failure_while_rows_come_in_leaves_nothing(tmp_path: Path, scratch: Path, put_aside: list[int]) -> None:
    order = order_for(tmp_path / "t", "id BIGINT, n BIGINT", ["id"], options=TINY, sort_by=("lsn",))
    whole = pa.Table.from_pylist(shuffled(1000, 997))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from whole.to_batches()
        assert list(scratch.iterdir())
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        upsert(order, pa.RecordBatchReader.from_batches(whole.schema, batches()))
    with pytest.raises(DataError, match="1 row with a null in the primary key"):
        upsert(order, pa.concat_tables([whole, pa.table({"id": pa.array([None], pa.int64()), "n": [1], "lsn": [1]})]))
    writer = KeyedWriter(order)
    writer.write(whole.to_batches()[0])
    assert list(scratch.iterdir())
    writer.abort()
    assert len(put_aside) > 10
    assert not list((tmp_path / "t").rglob("*"))
    assert not list(scratch.iterdir())
