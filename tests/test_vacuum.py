"""Vacuum: what nobody needs goes, and nothing else ever does."""

from __future__ import annotations

import os
import stat
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from conftest import on_every_pair
from crash_worker import Order
from deltalake import write_deltalake
from worker_processes import Worker

import lakebed
from lakebed.core.actions import now_ms
from lakebed.core.steps import Step, observe
from lakebed.engine.vacuum import TEMPORARY_MS
from lakebed.storage.deletion_vector import vector_path

AT_ONCE = timedelta(0)


def stored(table: lakebed.Table) -> set[str]:
    """All files of the table but its log."""
    return {file.path for file in table._store.list() if not file.path.startswith("_delta_log/")}


def referenced(table: lakebed.Table) -> set[str]:
    """All files that some version of the table needs."""
    found: set[str] = set()
    for commit in table.history():
        for add in table.at(version=commit.version)._point().files(None):
            found.add(add.file_path)
            vector = add.deletion_vector
            if vector is not None and vector.storage_type == "u":
                found.add(vector_path(vector.path_or_inline_dv))
    return found


def rows(table: lakebed.Table | lakebed.TableView) -> list[str]:
    return sorted(map(str, table.to_arrow().to_pylist()))


def put(table: lakebed.Table, path: str, *, age: int = 0) -> str:
    """A file of a stranger, or of a dead writer, below the table."""
    table._store.put(path, b"12345")
    if table._store.location.is_local:
        seconds = (now_ms() - age) / 1000
        os.utime(table._store.path(path), (seconds, seconds))
    return path


def worked_on(lake: lakebed.Warehouse, **options: Any) -> lakebed.Table:
    """A key table with upserts, vectors in files, a compaction, and partitions whose names need escapes."""
    table = lake.create_table(
        "t",
        "id BIGINT NOT NULL, _p STRING, v STRING",
        primary_key=["id", "_p"],
        partition_by=["_p"],
        buckets=2,
        properties={"checkpoint-interval": 3},
        **options,
    )
    base = [{"id": i, "_p": p, "v": "base"} for p in ("a b", "ü%/x") for i in range(600)]
    table.upsert(base)
    table.upsert([row | {"v": "two"} for row in base if row["id"] % 3 == 0 and row["_p"] == "a b"])
    table.upsert([row | {"v": "three"} for row in base if row["id"] % 5 == 0])
    table.delete("id < 100")
    table.compact(full=True)
    table.upsert([row | {"v": "four"} for row in base if row["id"] % 7 == 0])
    return table


@on_every_pair
def test_only_what_is_needed_remains(lake: lakebed.Warehouse) -> None:
    """Both metastores, local files and S3. A dry run says exactly what a real one removes, and changes nothing."""
    table = worked_on(lake)
    table.tag("kept", 2)
    expected = {version: rows(table.at(version=version)) for version in (2, table.version)}
    before, log = stored(table), {file.path for file in table._store.list("_delta_log")}
    assert before == referenced(table)
    assert table.vacuum().paths == []  # nothing is older than seven days

    would = table.vacuum(AT_ONCE, dry_run=True)
    assert (stored(table), {file.path for file in table._store.list("_delta_log")}) == (before, log)
    assert len(table.history()) == table.version + 1
    with table._handle.metastore._database._engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM lakebed_condemned").scalar() == 0

    done = table.vacuum(AT_ONCE)
    assert done.files.equals(would.files)
    assert (done.versions, would.versions) == (table.version - 1, table.version - 1)
    assert (done.bytes, done.dry_run, would.dry_run) == (would.bytes, False, True)
    assert set(done.paths) == before - stored(table)
    assert any(path.endswith(".bin") for path in done.paths)
    assert set(done.files["reason"].to_pylist()) == {"no version needs it"}
    assert done.bytes > 0
    assert stored(table) == referenced(table)
    for version, content in expected.items():
        assert rows(table.at(version=version)) == content
    assert rows(lakebed.read_delta(table.location, **place_options(lake))) == expected[table.version]
    again = table.vacuum(AT_ONCE)
    assert (again.paths, again.versions, again.bytes) == ([], 0, 0)
    table.delete_tag("kept")
    assert table.vacuum(AT_ONCE).versions == 1
    assert stored(table) == referenced(table)
    table.upsert([{"id": 1, "_p": "a b", "v": "after"}])
    assert table.count("v = 'after'") == 1


def place_options(lake: lakebed.Warehouse) -> dict[str, Any]:
    options = lake._options
    return {name: getattr(options, name) for name in ("s3_endpoint", "s3_access_key", "s3_secret_key")}


def test_strangers_are_left_alone(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("t", "id BIGINT, _p STRING", partition_by=["_p"])
    table.append([{"id": 1, "_p": "x"}])
    hex32 = uuid.uuid4().hex
    strangers = [
        put(table, path)
        for path in (
            "_change_data/a.parquet",
            "_other=1/a.parquet",
            "_p/a.parquet",
            ".hidden/a.parquet",
            "_committed.parquet",
            ".a.parquet.crc",
            ".mine.tmp",
            "notes.txt",
            "_p=x/_SUCCESS",
            "_p=x/deletion_vector_mine.bin",
            "_delta_log/_sidecars/a.parquet",
            "_delta_log/notes.json",
            "inner/table/_delta_log/00000000000000000000.json",
            "inner/table/a.parquet",
            "inner/table/deep/a.parquet",
        )
    ]
    own = [
        put(table, path)
        for path in (
            "a.parquet",
            "_p=x/a.parquet",
            "_p=gone/bucket-00001/a.parquet",
            "inner/a.parquet",
            f"deletion_vector_{uuid.uuid4()}.bin",
            f"ab/deletion_vector_{uuid.uuid4()}.bin",
        )
    ]
    young = put(table, f"_p=x/.a.parquet.{hex32}.tmp")
    would = table.vacuum(AT_ONCE, dry_run=True)
    done = table.vacuum(AT_ONCE)
    assert done.files.equals(would.files)
    assert sorted(done.paths) == sorted(own)
    assert set(done.files["reason"].to_pylist()) == {"orphan"}
    assert done.bytes == 5 * len(own)
    left = {file.path for file in table._store.list()}
    assert left >= {*strangers, young}
    assert table.count() == 1
    assert rows(table.at(version=1)) == ["{'id': 1, '_p': 'x'}"]


def test_orphans_younger_than_the_retention_stay(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    old = put(table, "old.parquet", age=3_700_000)
    put(table, "young.parquet", age=3_500_000)
    hex32 = uuid.uuid4().hex
    tmp = put(table, f".a.parquet.{hex32}.tmp", age=TEMPORARY_MS + 60_000)
    log = put(table, f"_delta_log/.1.json.{hex32}.tmp", age=TEMPORARY_MS + 60_000)
    put(table, f"_delta_log/.2.json.{hex32}.tmp")
    assert table.vacuum("1 hour").paths == sorted([old, tmp, log])
    assert table.vacuum("1 hour").paths == []


def test_empty_directories_of_dead_writers_go(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, p STRING", partition_by=["p"])
    table.append([{"id": 1, "p": "x"}, {"id": 2, "p": "y"}])
    root = Path(table._store.location.path)
    (root / "p=dead/deeper").mkdir(parents=True)
    (root / "p=new").mkdir()
    (root / "_others").mkdir()
    long_ago = now_ms() / 1000 - 8 * 86_400
    for name in ("p=dead/deeper", "p=dead", "_others"):
        os.utime(root / name, (long_ago, long_ago))
    table.vacuum(AT_ONCE, dry_run=True)
    assert (root / "p=dead/deeper").exists()
    table.overwrite([{"id": 3, "p": "y"}])
    table.vacuum(AT_ONCE)
    assert sorted(p.name for p in root.iterdir()) == ["_delta_log", "_others", "p=new", "p=y"]


@pytest.mark.parametrize(
    ("operation", "step"),
    [
        ("append", Step.WRITE_OPENED),
        ("append", Step.WRITE_CLOSED),
        ("append", Step.COMMIT_INSERTED),
        ("delete", Step.VECTOR_WRITTEN),
        ("overwrite", Step.COMMIT_PREPARED),
        ("transaction", Step.COMMIT_BEGUN),
        ("append", Step.COMMIT_DONE),
    ],
)
def test_what_a_killed_writer_left(tmp_path: Path, doomed: Callable[[], Worker], operation: str, step: Step) -> None:
    root = tmp_path / "w"
    with lakebed.connect(root) as lake:
        table = lake.create_table("t", "id BIGINT NOT NULL, part STRING", partition_by=["part"])
        table.append([{"id": i, "part": "a"} for i in range(400)])
        lake.create_table("side", "id BIGINT")
    doomed().die_of(Order(str(root), None, "t", operation, step, "side"))
    with lakebed.connect(root) as lake:
        table = lake.table("t")
        content = rows(table)
        left = {path for path in stored(table) - referenced(table) if not path.endswith(".tmp")}
        assert bool(left) == (step not in (Step.WRITE_OPENED, Step.COMMIT_DONE))
        assert table.vacuum("1 hour").paths == []
        done = table.vacuum(AT_ONCE)
        assert set(done.files.filter(pa.compute.equal(done.files["reason"], "orphan"))["path"].to_pylist()) == left
        assert {path for path in stored(table) if not path.endswith(".tmp")} == referenced(table)
        assert rows(table) == content
        table.append([{"id": 5000, "part": "b"}])
        assert table.count("id = 5000") == 1


@pytest.mark.parametrize("step", [Step.EXPIRE_FORGOTTEN, Step.EXPIRE_DONE, Step.VACUUM_CONDEMNED, Step.VACUUM_DELETED])
def test_a_vacuum_that_ends_early_is_finished_by_the_next(local_lake: lakebed.Warehouse, step: Step) -> None:
    table = worked_on(local_lake)
    content = rows(table)

    class StopError(Exception):
        pass

    def stop_there(reached: Step) -> None:
        if reached is step:
            raise StopError

    stop = observe(stop_there)
    with pytest.raises(StopError):
        table.vacuum(AT_ONCE)
    stop()
    assert rows(table) == content
    assert referenced(table) <= stored(table)
    table.upsert([{"id": 1, "_p": "a b", "v": "between"}])
    content = rows(table)
    table.vacuum(AT_ONCE)
    assert stored(table) == referenced(table)
    assert rows(table) == content == rows(lakebed.read_delta(table.location))


def test_a_write_that_takes_longer_than_the_retention(lake: lakebed.Warehouse) -> None:
    """Its files are gone, so it must not land; nothing else is lost, and nothing of it is left."""
    table = lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])

    def clean(step: Step) -> None:
        if step is Step.COMMIT_PREPARED:
            stop()
            assert len(lake.table("t").vacuum(AT_ONCE).paths) == 1

    stop = observe(clean)
    with pytest.raises(
        lakebed.ConflictError,
        match=r"table default\.t: the append conflicts .*vacuum has deleted file .*\.parquet that this commit adds; "
        r"it was older than the retention; fix: nothing was changed; run the append again; .* longer retention",
    ):
        table.append([{"id": 2}])
    assert table.version == 1
    assert stored(table) == referenced(table)
    assert table.append([{"id": 2}]).version == 2
    assert table.count() == 2


def in_transaction(lake: lakebed.Warehouse) -> None:
    with lake.transaction() as tx:
        tx.table("t").overwrite([{"id": 1, "v": 5}])


CLEANED: dict[str, Callable[[lakebed.Warehouse], object]] = {
    "overwrite": lambda lake: lake.table("t").overwrite([{"id": 1, "v": 5}]),
    "upsert": lambda lake: lake.table("t").upsert([{"id": 1, "v": 5}]),
    "transaction": in_transaction,
}


@pytest.mark.parametrize("write", CLEANED)
def test_a_write_whose_files_go_while_it_settles_them(local_lake: lakebed.Warehouse, write: str) -> None:
    """It is told the same, and not that a file of the table is lost."""
    sums = {"fields.v.aggregate-function": "sum"}
    table = local_lake.create_table(
        "t", "id BIGINT, v BIGINT", primary_key=["id"], buckets=1, merge_engine="aggregation", properties=sums
    )
    table.upsert([{"id": 1, "v": 1}])

    def clean(step: Step) -> None:
        if step is Step.WRITE_CLOSED:
            stop()
            assert len(local_lake.table("t").vacuum(AT_ONCE).paths) == 1

    stop = observe(clean)
    with pytest.raises(lakebed.ConflictError, match=r"vacuum has deleted file .* before it was committed"):
        CLEANED[write](local_lake)
    assert rows(table) == ["{'id': 1, 'v': 1}"]
    assert stored(table) == referenced(table)
    CLEANED[write](local_lake)
    assert table.version == 2


def test_a_restore_beside_vacuum(local_lake: lakebed.Warehouse) -> None:
    """Files that come back while they are deleted: one of the two wins, never both."""
    table = local_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    table.overwrite([{"id": 2}])

    def clean(step: Step) -> None:
        if step is Step.COMMIT_PREPARED:
            stop()
            local_lake.table("t").vacuum(AT_ONCE)

    stop = observe(clean)
    with pytest.raises(lakebed.ConflictError, match="vacuum has deleted"):
        table.restore(version=1)
    assert rows(table) == ["{'id': 2}"]
    assert stored(table) == referenced(table)


def test_condemned_files_do_not_pile_up(local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    put(table, "a.parquet")
    table.vacuum(AT_ONCE)
    metastore, table_id = table._handle.metastore, table._handle.table_id
    monkeypatch.setattr("lakebed.engine.vacuum.CONDEMNED_MS", -1)
    table.vacuum(AT_ONCE)
    assert metastore.forget_condemned(table_id, now_ms() + 10_000) == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_cannot_be_deleted_is_reported(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, p STRING", partition_by=["p"])
    table.append([{"id": 1, "p": "x"}])
    bad, good = put(table, "p=x/a.parquet"), put(table, "b.parquet")
    folder = Path(table._store.path("p=x"))
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = table.vacuum(AT_ONCE)
    folder.chmod(stat.S_IRWXU)
    assert (done.paths, list(done.failed)) == ([good], [bad])


def test_failures_are_reported(local_lake: lakebed.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    bad, good = put(table, "a.parquet"), put(table, "b.parquet")
    delete: Callable[[str], None] = os.unlink

    def unlink(path: str) -> None:
        if path.endswith(bad):
            raise PermissionError(13, "Permission denied")
        delete(path)

    monkeypatch.setattr(os, "unlink", unlink)
    done = table.vacuum(AT_ONCE)
    monkeypatch.undo()
    assert done.paths == [good]
    assert "access is denied" in done.failed[bad]
    assert table.vacuum(AT_ONCE).paths == [bad]


def test_files_by_absolute_paths_are_known(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """Another writer's log may name files of the table itself by whole paths or URIs."""
    source = tmp_path / "other dir"
    write_deltalake(str(source), pa.table({"id": [1, 2]}))
    write_deltalake(str(source), pa.table({"id": [3]}), mode="append")
    for file in source.glob("*.parquet"):
        for commit in (source / "_delta_log").glob("*.json"):
            whole = file.as_uri() if commit.name.endswith("0.json") else quote(str(file))
            commit.write_text(commit.read_text().replace(f'"path":"{file.name}"', f'"path":"{whole}"'))
    table = local_lake.register("other", str(source))
    orphan = put(table, "orphan.parquet")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert table.vacuum(AT_ONCE).paths == [orphan]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    table.overwrite([{"id": 9}])
    table.vacuum(AT_ONCE)
    assert len(list(source.glob("*.parquet"))) == 1


READ = [{"id": i, "v": 0} for i in range(400)]


@pytest.mark.parametrize("metastore", ["sqlite", "postgres"])
@pytest.mark.parametrize("merge", ["on-write", pytest.param("on-read", marks=pytest.mark.soak)])
def test_vacuum_beside_writers_and_readers(
    request: pytest.FixtureRequest, tmp_path: Path, metastore: str, merge: str
) -> None:
    """DuckLake #527, #530, #815: no live file goes, whatever others do; readers of old versions never notice.

    A writer may be told that vacuum came before it, since the retention is nothing: then it writes again.
    """
    url = request.getfixturevalue("postgres_metastore")() if metastore == "postgres" else None
    with lakebed.connect(tmp_path / "w", url, batch_size=16) as lake:
        table = lake.create_table(
            "t",
            "id BIGINT NOT NULL, v BIGINT",
            primary_key=["id"],
            buckets=2,
            merge=merge,
            properties={"checkpoint-interval": 3},
        )
        table.upsert(READ)
        old = table.at(version=1).to_batches()
        next(old)
        beside = Beside(table)
        writers = [beside.writer(number) for number in range(3)]
        others = [beside.repeat(work) for work in (beside.maintain, beside.read, beside.read_old, beside.vacuum)]
        for thread in [*writers, *others]:
            thread.start()
        for thread in writers:
            thread.join()
        beside.stopped.set()
        for thread in others:
            thread.join()
        assert beside.failures == []
        assert sum(batch.num_rows for batch in old) == len(READ) - 16
        final = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
        assert final == beside.expected()
        table.settle()
        table.vacuum(AT_ONCE)
        assert {path for path in stored(table) if not path.endswith(".tmp")} == referenced(table)
        assert {row["id"]: row["v"] for row in lakebed.read_delta(table.location).to_arrow().to_pylist()} == final


class Beside:
    """What happens at the same time to one table."""

    def __init__(self, table: lakebed.Table) -> None:
        self.table = table
        self.stopped = threading.Event()
        self.failures: list[BaseException] = []
        self.written: dict[int, dict[int, int | None]] = {}

    def expected(self) -> dict[int, int]:
        state: dict[int, int | None] = {row["id"]: row["v"] for row in READ}
        for version in sorted(self.written):
            state.update(self.written[version])
        return {key: value for key, value in state.items() if value is not None}

    def writer(self, number: int) -> threading.Thread:
        def write() -> None:
            for turn in range(4):
                low = (number * 97 + turn * 31) % 300
                keys = range(low, low + 60)
                change: Callable[[], lakebed.Commit]
                if turn % 3 == 2:
                    change = partial(self.table.delete, [{"id": key} for key in keys])
                    new: dict[int, int | None] = dict.fromkeys(keys)
                else:
                    new = dict.fromkeys(keys, 1000 * number + turn + 1)
                    change = partial(self.table.upsert, [{"id": key, "v": value} for key, value in new.items()])
                self.written[self.landed(change)] = new

        return self.guarded(write)

    def landed(self, change: Callable[[], lakebed.Commit]) -> int:
        while True:
            try:
                return change().version
            except lakebed.ConflictError as error:
                if "vacuum has deleted" not in str(error):
                    raise

    def maintain(self) -> None:
        for work in (self.table.settle, partial(self.table.compact, full=True)):
            try:
                work()
            except lakebed.ConflictError as error:
                if "vacuum has deleted" not in str(error):
                    raise

    def read(self) -> None:
        self.table.to_arrow()
        assert sum(batch.num_rows for batch in self.table.to_batches()) <= len(READ) + 300
        self.table.count("v > 1")

    def read_old(self) -> None:
        view = self.table.at(version=1)
        assert view.to_arrow().num_rows == view.count() == len(READ)

    def vacuum(self) -> None:
        done = self.table.vacuum(AT_ONCE)
        assert done.failed == {}
        self.stopped.wait(0.05)  # else no write would ever be quicker than the retention

    def repeat(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            while not self.stopped.is_set():
                work()

        return self.guarded(run)

    def guarded(self, run: Callable[[], None]) -> threading.Thread:
        def attempt() -> None:
            try:
                run()
            except BaseException as error:
                self.failures.append(error)
                raise

        return threading.Thread(target=attempt)
