"""Defects that were found by trying to break the engine; each test failed once."""

from __future__ import annotations

import errno
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakebed
from lakebed.core.location import Location
from lakebed.core.steps import Step, observe
from lakebed.storage.store import open_store


def data_files(table: lakebed.Table) -> list[str]:
    """What lies in a local table's directory beside its log."""
    root = Path(table.location.removeprefix("file://"))
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "_delta_log" not in p.parts)


@pytest.mark.parametrize("txn", [("loader", 2**63), ("\ud800", 1)], ids=["too large", "no text"])
def test_a_txn_that_cannot_be_stored_is_refused_before_anything_is_written(
    local_lake: lakebed.Warehouse, txn: tuple[str, int]
) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.InputError, match="txn="):
        table.append([{"id": 1}], txn=txn)
    assert (table.version, data_files(table)) == (0, [])


def test_an_append_does_not_outlive_the_restore_that_took_its_column(local_lake: lakebed.Warehouse) -> None:
    """Otherwise its values would come back, with a wrong type, in a column that is added later."""
    table = local_lake.create_table("t", "id BIGINT")
    table.append([{"id": 1}])
    table.alter(add={"a": "STRING"})
    late = local_lake.transaction()
    late.table("t").append([{"id": 2, "a": "text"}])
    table.restore(version=1)
    with pytest.raises(lakebed.ConflictError, match="'a'"):
        late.commit()
    table.alter(add={"a": "BIGINT"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "a": None}]


def test_an_append_does_not_outlive_the_restore_that_took_its_nested_column(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "s STRUCT<x INT>")
    table.alter(add={"s.y": "STRING"})
    late = local_lake.transaction()
    late.table("t").append([{"s": {"x": 1, "y": "text"}}])
    table.restore(version=0)
    with pytest.raises(lakebed.ConflictError, match="y"):
        late.commit()


def test_an_append_survives_the_drop_of_its_column(local_lake: lakebed.Warehouse) -> None:
    """A drop turns the column mapping on, so that a new column of the name is another one."""
    table = local_lake.create_table("t", "id BIGINT, a STRING")
    late = local_lake.transaction()
    late.table("t").append([{"id": 2, "a": "text"}])
    table.alter(drop=["a"])
    late.commit()
    table.alter(add={"a": "BIGINT"})
    assert table.to_arrow().to_pylist() == [{"id": 2, "a": None}]


def test_an_empty_text_as_partition_value_is_null_from_the_start(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, p STRING", partition_by=["p"])
    with pytest.raises(lakebed.DataError):
        table.overwrite([{"id": 1, "p": ""}], where="p = ''")  # it would not be replaced by the next one
    for n in (1, 2):
        table.overwrite([{"id": n, "p": ""}], where="p is null")
    assert table.to_arrow().to_pylist() == [{"id": 2, "p": None}]


def test_an_empty_text_is_refused_in_a_partition_column_that_cannot_be_null(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, p STRING NOT NULL", partition_by=["p"])
    with pytest.raises(lakebed.DataError, match="column p: 1 null in a NOT NULL column"):
        table.append([{"id": 1, "p": ""}])
    assert data_files(table) == []


def test_both_zeros_are_one_partition(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT, p DOUBLE", partition_by=["p"])
    table.append([{"id": 1, "p": -0.0}])
    table.overwrite([{"id": 2, "p": 0.0}], where="dynamic")
    assert table.to_arrow()["id"].to_pylist() == [2]


def test_a_vector_that_was_replaced_in_its_own_transaction_leaves_no_file(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    table.append(pa.table({"id": range(200_000)}))
    with local_lake.transaction() as tx:
        tx.table("t").delete("id % 7 = 3")
        tx.table("t").delete("id % 11 = 5")
    vectors = [name for name in data_files(table) if name.endswith(".bin")]
    assert len(vectors) == 1
    assert table.count() == table.to_arrow().num_rows == sum(n % 7 != 3 and n % 11 != 5 for n in range(200_000))


def test_a_forked_process_writes_and_reads(local_lake: lakebed.Warehouse) -> None:
    """The threads of polars do not survive a fork, and it would wait for them for ever."""
    table = local_lake.create_table("t", "id BIGINT, s STRING")
    table.append(pa.table({"id": range(1000), "s": ["x"] * 1000}))
    table.to_polars()
    child = multiprocessing.get_context("fork").Process(target=_write_in_child, args=(table,))
    child.start()
    child.join(30)
    hangs = child.is_alive()
    child.kill()
    assert (hangs, child.exitcode) == (False, 0)
    assert (table.version, table.count()) == (3, 1000)


def _write_in_child(table: Any) -> None:
    table.append([{"id": -1, "s": "y"}])
    table.delete("id = 7")
    assert table.to_arrow().num_rows == sum(batch.num_rows for batch in table.to_batches()) == 1000
    with pytest.raises(lakebed.LakebedError, match="fork"):
        table.to_polars()


def test_a_purge_goes_on_when_a_file_was_deleted_under_it(tmp_path: Path) -> None:
    """A writer that deletes its own files meanwhile made the rest of the table stay."""
    store = open_store(Location.parse(str(tmp_path / "table")))
    store.put("a/b.parquet", b"rows")
    real = store.filesystem

    class Meddled:
        """The file system, with one failure as of a file that another process was quicker to delete."""

        left = 1

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def delete_dir(self, path: str) -> None:
            if self.left:
                self.left -= 1
                raise FileNotFoundError(errno.ENOENT, "cannot delete file")
            real.delete_dir(path)

    store._filesystem = Meddled()
    store.delete_dir()
    assert not (tmp_path / "table").exists()
    store.delete_dir()


WRONG: dict[str, Callable[[lakebed.Warehouse, lakebed.Table], Any]] = {
    "namespace to list": lambda lake, _: lake.tables(5),
    "namespace to drop": lambda lake, _: lake.drop_namespace(5),
    "properties of a namespace": lambda lake, _: lake.create_namespace("x", [1]),
    "partition_by": lambda lake, _: lake.create_table("x", "a INT", partition_by=5),
    "partition_by, inside": lambda lake, _: lake.create_table("x", "a INT", partition_by=[5]),
    "properties of a table": lambda lake, _: lake.create_table("x", "a INT", properties=[1]),
    "name of a property": lambda lake, _: lake.create_table("x", "a INT", properties={5: 1}),
    "comment of a new table": lambda lake, _: lake.create_table("x", "a INT", comment=5),
    "location": lambda lake, _: lake.create_table("x", "a INT", location=5),
    "path to register": lambda lake, _: lake.register("x", None),
    "path to read": lambda _, __: lakebed.read_delta(5),
    "path to recover": lambda _, __: lakebed.recover(5),
    "second of two batches": lambda _, t: t.append(iter([pa.record_batch({"id": [1]}), 5])),
    "columns to drop": lambda _, t: t.alter(drop=5),
    "column to drop": lambda _, t: t.alter(drop=[5]),
    "new name": lambda _, t: t.alter(rename={"id": 5}),
    "comment of a column": lambda _, t: t.alter(comments={"id": 5}),
    "comment of a table": lambda _, t: t.alter(comment=5),
    "properties to set": lambda _, t: t.alter(properties=5),
    "name of a property to set": lambda _, t: t.alter(properties={5: 1}),
    "text of a property": lambda _, t: t.alter(properties={"a.b": "\ud800"}),
    "text of a comment": lambda _, t: t.alter(comment="\ud800"),
    "text of a column name": lambda _, t: t.alter(add={"\ud800": "INT"}),
    "time": lambda _, t: t.at(timestamp=2**70),
    "length of time": lambda _, t: t.tag("x", retain=2**70),
    "tag": lambda _, t: t.delete_tag(5),
    "limit": lambda _, t: t.history(limit=2**70),
    "columns to read": lambda _, t: t.to_arrow(columns=5),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_argument_gives_an_error_of_lakebed(
    local_lake: lakebed.Warehouse, call: Callable[[lakebed.Warehouse, lakebed.Table], Any]
) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with pytest.raises(lakebed.LakebedError):
        call(local_lake, table)
    assert (table.version, data_files(table), local_lake.tables()) == (0, [], ["default.t"])


def test_a_table_that_cannot_be_made_leaves_no_directory(local_lake: lakebed.Warehouse) -> None:
    with pytest.raises(lakebed.NotFoundError, match="nope"):
        local_lake.create_table("nope.t", "id BIGINT")
    assert not (Path(local_lake.location.removeprefix("file://")) / "nope").exists()


@pytest.mark.parametrize("step", [Step.COMMIT_PREPARED, Step.COMMIT_BEGUN, Step.COMMIT_INSERTED, Step.COMMIT_DONE])
def test_an_interrupted_commit_keeps_its_files_only_if_it_landed(local_lake: lakebed.Warehouse, step: Step) -> None:
    table = local_lake.create_table("t", "id BIGINT")

    def interrupt(reached: Step) -> None:
        if reached is step:
            raise KeyboardInterrupt

    stop = observe(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            table.append([{"id": 1}])
    finally:
        stop()
    landed = step is Step.COMMIT_DONE
    assert (table.version, table.count(), len(data_files(table))) == ((1, 1, 1) if landed else (0, 0, 0))
    table.append([{"id": 2}])
    assert lakebed.read_delta(table.location).count() == table.count() == 1 + landed


def test_an_interrupted_commit_to_a_table_that_was_dropped_keeps_its_files(local_lake: lakebed.Warehouse) -> None:
    """The log that the dropped table has left may name them."""
    table = local_lake.create_table("t", "id BIGINT")

    def drop_and_interrupt(reached: Step) -> None:
        if reached is Step.COMMIT_DONE:
            local_lake.drop_table("t")
            raise KeyboardInterrupt

    stop = observe(drop_and_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            table.append([{"id": 1}])
    finally:
        stop()
    assert lakebed.read_delta(table.location).to_arrow().to_pylist() == [{"id": 1}]


def test_the_newest_txn_of_a_transaction_counts(local_lake: lakebed.Warehouse) -> None:
    table = local_lake.create_table("t", "id BIGINT")
    with local_lake.transaction() as tx:
        tx.table("t").append([{"id": 1}], txn=("loader", 7))
        tx.table("t").append([{"id": 2}], txn=("loader", 6))
    assert table.transactions() == {"loader": 7}


def test_a_transaction_that_was_written_in_part_is_no_repetition(local_lake: lakebed.Warehouse) -> None:
    """It was passed over as a whole, so that the rows of the other table vanished without an error."""
    one, two = local_lake.create_table("one", "id BIGINT"), local_lake.create_table("two", "id BIGINT")
    one.append([{"id": 1}], txn=("loader", 7))
    tx = local_lake.transaction()
    tx.table("one").append([{"id": 1}], txn=("loader", 7))
    tx.table("two").append([{"id": 1}], txn=("loader", 7))
    with pytest.raises(lakebed.ConflictError, match=r"default.two: .*\('loader', 7\) has not been written before"):
        tx.commit()
    assert (one.count(), two.count(), len(data_files(two))) == (1, 0, 0)


@pytest.mark.parametrize("url", ["postgresql:ann:hunter2@db/lake", "ann:hunter2@db/lake", "postgres:/ann:hunter2@db"])
def test_a_mistyped_metastore_does_not_show_its_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(lakebed.OptionError) as caught:
        lakebed.connect(tmp_path, metastore=url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["s3://bucket/warehouse?secret_key=hunter2", "s3:key:hunter2@bucket/warehouse"])
def test_a_mistyped_location_does_not_show_its_key(text: str) -> None:
    with pytest.raises(lakebed.InputError) as caught:
        Location.parse(text)
    assert "hunter2" not in str(caught.value)


def test_a_foreign_table_that_says_it_has_no_column_mapping(local_lake: lakebed.Warehouse, tmp_path: Path) -> None:
    """Its columns were renamed with a mapping that stayed off, and a restore failed."""
    place = tmp_path / "foreign"
    deltalake.write_deltalake(place, pa.table({"id": [1], "a": ["q"]}))
    first = place / "_delta_log" / "00000000000000000000.json"
    first.write_text(
        first.read_text().replace('"configuration":{', '"configuration":{"delta.columnMapping.mode":"none"')
    )
    table = local_lake.register("t", place)
    table.delete("true")
    table.restore(version=0)
    table.alter(rename={"a": "b"})
    configuration = lakebed.read_delta(place)._point().metadata.configuration
    assert configuration["delta.columnMapping.mode"] == "name"
    assert _outside(place) == [{"id": 1, "b": "q"}]
    table.restore(version=0)
    assert _outside(place) == [{"id": 1, "a": "q"}]


def _outside(place: Path) -> list[dict[str, Any]]:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(place)).execute("SELECT * FROM t")
    return pa.table(query.read_all()).to_pylist()


@pytest.mark.parametrize("key", [(), ("id",)], ids=["without a key", "with a key"])
def test_a_dropped_column_is_restored_with_its_values_although_compaction_left_them_out(
    local_lake: lakebed.Warehouse, key: tuple[str, ...]
) -> None:
    """The version's own files have them, as long as it has not expired; what was compacted since does not matter."""
    table = local_lake.create_table("t", "id BIGINT, v STRING, w STRING", primary_key=key)
    write = table.upsert if key else table.append
    before = [{"id": number, "v": f"v{number}", "w": f"w{number}"} for number in range(6)]
    for row in before:
        write([row])
    version = table.version
    table.alter(drop=["w"])
    write([{"id": 6, "v": "v6"}])
    table.compact(full=True)
    table.restore(version=version)
    assert table.to_arrow().sort_by("id").to_pylist() == before
    # Rows that were there before, and are there again, have not changed, whatever they were in between.
    assert table.changes(version).to_arrow().num_rows == 0
