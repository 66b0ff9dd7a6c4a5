"""What a user of a primary-key table reads after a mistake, and that the mistake changed nothing.

As in ``test_bad_input``: each case is its name, what the user does, the error, and the essential text of its message.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_bad_input import FIX, Case, Shop, cases, check

import lakebed
from lakebed import (
    CorruptFileError,
    DataError,
    FileMissingError,
    InputError,
    NoSpaceError,
    OptionError,
    SchemaError,
    StorageError,
)

KEY = {"primary_key": ["id"]}
MERGES = ("on-write", "on-read", "copy-on-write")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Key tables, each with a row; no mistake may change them, so all cases share them."""
    root = tmp_path_factory.mktemp("shop")
    with lakebed.connect(root / "lake") as lake:
        lake.create_namespace("shop")
        orders = lake.create_table("shop.orders", "id BIGINT, name STRING, n INT", **KEY, merge="on-read", buckets=2)
        orders.upsert([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        orders.upsert([{"id": 1, "name": "c"}])
        lake.create_table("shop.plain", "id BIGINT").append([{"id": 1}])
        ordered = lake.create_table("shop.ordered", "id BIGINT, s INT, t INT", **KEY, sequence=["s", "t"])
        ordered.upsert([{"id": 1, "s": 1, "t": 1}])
        for engine in ("first-row", "partial-update"):
            lake.create_table(f"shop.{engine}", "id BIGINT, v INT", **KEY, merge_engine=engine).upsert([{"id": 1}])
        functions = {"fields.v.aggregate-function": "max", "fields.w.aggregate-function": "listagg"}
        lake.create_table(
            "shop.sums", "id BIGINT, v INT, w STRING", **KEY, merge_engine="aggregation", properties=functions
        )
        lake.create_table("shop.moving", "id BIGINT, p STRING", **KEY, partition_by=["p"], merge="on-read")
        yield Shop(root, lake, orders, lambda name, value: None)


def create(schema: Any, **more: Any) -> Callable[[Shop], object]:
    return lambda shop: shop.lake.create_table("shop.new", schema, **more)


NOT_POSSIBLE = "table shop.new: the primary key is not possible: "


@cases(
    Case(
        "float key",
        create("id DOUBLE, f FLOAT, v INT", primary_key=["id", "f"]),
        SchemaError,
        "table shop.new: the primary key is not possible:\n"
        "  - column 'id' cannot be a key: a float is no key: values that print alike can differ, and NaN equals "
        "nothing\n  - column 'f' cannot be a key: a float is no key",
    ),
    Case(
        "key that is no column",
        create("id INT, v INT", primary_key=["idd"]),
        SchemaError,
        NOT_POSSIBLE + "primary_key= 'idd' is not a column; did you mean 'id'?",
    ),
    Case(
        "key column twice",
        create("id INT, v INT", primary_key=["id", "ID"]),
        SchemaError,
        NOT_POSSIBLE + "primary_key= names 'id' twice",
    ),
    Case(
        "struct as key",
        create("id STRUCT<a: INT>, v INT", **KEY),
        SchemaError,
        NOT_POSSIBLE + "column 'id' cannot be a key: a nested value (struct) is no key: it has no order; use columns",
    ),
    Case(
        "member of a struct as key",
        create("id STRUCT<a: INT>, v INT", primary_key=["id.a"]),
        SchemaError,
        "primary_key= 'id.a' is not a column",
    ),
    Case(
        "map and array as key",
        create("id MAP<STRING, INT>, a ARRAY<INT>, v INT", primary_key=["id", "a"]),
        SchemaError,
        "a nested value (map) is no key: it has no order; use columns of plain types\n  - column 'a' cannot be a key",
    ),
    Case(
        "key with a name of ours",
        create("_lakebed_kind TINYINT, v INT", primary_key=["_lakebed_kind"]),
        SchemaError,
        "column _lakebed_kind: names that start with _lakebed_ belong to Lakebed (fix: choose another name)",
    ),
    Case(
        "key that is no name",
        create("id INT, v INT", primary_key=[1]),
        InputError,
        "primary_key= is a list of column names; expected text, like ['id', 'dt']; found [1]",
    ),
    *(
        Case(
            f"buckets={buckets!r}",
            create("id INT", **KEY, buckets=buckets),
            SchemaError,
            f"buckets= is a whole number from 1 to 100000, 'dynamic' or 'postpone', not {buckets!r}",
        )
        for buckets in (0, -1, "8", True, 1.0, 10**6, "unaware", [4])
    ),
    Case(
        "unknown merge",
        create("id INT", **KEY, merge="on_read"),
        SchemaError,
        "merge= is one of on-write, on-read, copy-on-write, not 'on_read'",
    ),
    Case(
        "unknown engine",
        create("id INT", **KEY, merge_engine="dedupe"),
        SchemaError,
        "merge_engine= is one of deduplicate, first-row, partial-update, aggregation, not 'dedupe'",
    ),
    Case(
        "everything but a key",
        create("id INT", merge="on-read", merge_engine="deduplicate", sequence=["id"], buckets=3),
        InputError,
        "table shop.new has no primary key; found merge= and merge_engine= and sequence= and buckets=; fix: pass "
        "primary_key=[…] too",
    ),
    *(
        Case(
            f"{name} without a key",
            create("id INT", properties={name: value, "team.owner": "me"}),
            OptionError,
            f"table shop.new has no primary key; found property {name!r}; fix: leave it out",
        )
        for name, value in (
            ("merge", "on-read"),
            ("dynamic-bucket.target-rows", 5),
            ("row-kind", "op"),
            ("row-kind-values", "d=delete"),
            ("ignore-delete", False),
            ("remove-record-on-delete", True),
            ("remove-record-on-sequence-group", "s"),
            ("fields.default-aggregate-function", "sum"),
            ("fields.id.aggregate-function", "sum"),
        )
    ),
    Case(
        "sequence as a property",
        create("id INT, v INT", **KEY, properties={"sequence": "v"}),
        OptionError,
        "'sequence' is no table property; fix: pass sequence= to create_table; it cannot change",
    ),
    Case(
        "sequence in the key",
        create("id INT, v INT", **KEY, sequence=["id"]),
        SchemaError,
        "column 'id' is in the key: it cannot order rows of one key",
    ),
    Case(
        "sequence that is no column",
        create("id INT, seq INT", **KEY, sequence=["sequ"]),
        SchemaError,
        "sequence= 'sequ' is not a column; did you mean 'seq'?",
    ),
    Case(
        "sequence without an order",
        create("id INT, s STRUCT<a: INT>", **KEY, sequence=["s"]),
        SchemaError,
        "column 's' cannot order rows: STRUCT<a: INT> has no order",
    ),
    Case(
        "sequence of first-row",
        create("id INT, s INT", **KEY, sequence=["s"], merge_engine="first-row"),
        OptionError,
        "first-row keeps the row that came first: it cannot have a sequence",
    ),
    Case(
        "unknown function",
        create("id INT, v INT", **KEY, merge_engine="aggregation", properties={"fields.v.aggregate-function": "summ"}),
        OptionError,
        "column 'v' has unknown function 'summ': did you mean 'sum'?",
    ),
    Case(
        "function that does not fit",
        create(
            "id INT, v STRING", **KEY, merge_engine="aggregation", properties={"fields.v.aggregate-function": "sum"}
        ),
        OptionError,
        "column 'v' of type STRING cannot have sum: it takes a number",
    ),
    Case(
        "function of no column",
        create(
            "id INT, val INT", **KEY, merge_engine="aggregation", properties={"fields.vall.aggregate-function": "sum"}
        ),
        OptionError,
        "property 'fields.vall.…' names no column: did you mean 'val'?",
    ),
    Case(
        "unknown option of a column",
        create("id INT, v INT", **KEY, merge_engine="aggregation", properties={"fields.v.agregate-function": "sum"}),
        OptionError,
        "unknown property 'fields.v.agregate-function': did you mean 'aggregate-function'?",
    ),
    Case(
        "functions of deduplicate",
        create("id INT, v INT", **KEY, properties={"fields.v.aggregate-function": "sum"}),
        OptionError,
        "functions of columns are for partial-update and aggregation",
    ),
    Case(
        "row kinds that mean nothing",
        create("id INT", **KEY, properties={"row-kind-values": "c=create"}),
        OptionError,
        "expected pairs like c=insert,u=update,d=delete, with insert, update, delete, update_before, update_after; "
        "found 'c=create'",
    ),
    Case(
        "split at no row",
        create("id INT", **KEY, properties={"dynamic-bucket.target-rows": 0}),
        OptionError,
        "table property 'dynamic-bucket.target-rows' has a wrong value; expected a whole number of at least 1",
    ),
    Case(
        "buckets as a property",
        create("id INT", **KEY, properties={"lakebed.buckets": 5}),
        OptionError,
        "table property 'lakebed.buckets' is managed by Lakebed; fix: leave it out",
    ),
    Case(
        "all at once",
        create("id DOUBLE, s INT", primary_key=["id", "x"], buckets=0, merge="m", merge_engine="e", sequence=["q"]),
        SchemaError,
        "the primary key is not possible:\n"
        "  - primary_key= 'x' is not a column; the columns are id, s\n"
        "  - sequence= 'q' is not a column; the columns are id, s\n"
        "  - merge= is one of on-write, on-read, copy-on-write, not 'm'\n"
        "  - merge_engine= is one of deduplicate, first-row, partial-update, aggregation, not 'e'\n"
        "  - buckets= is a whole number from 1 to 100000, 'dynamic' or 'postpone', not 0\n"
        "  - column 'id' cannot be a key: a float",
    ),
)
def test_creation(made: Shop, case: Case) -> None:
    check(made, case)


def upsert(rows: Any, table: str = "shop.orders", **more: Any) -> Callable[[Shop], object]:
    return lambda shop: shop.lake.table(table).upsert(rows, **more)


def delete(where: Any, table: str = "shop.orders") -> Callable[[Shop], object]:
    return lambda shop: shop.lake.table(table).delete(where)


KINDS = "fix: use +I, -U, +U, -D, insert, update, delete, update_before, update_after, or the codes 0 to 3"


@cases(
    Case(
        "null keys",
        upsert([{"id": 3, "name": "x"}, {"id": None, "name": "y"}, {"name": "z"}]),
        DataError,
        "table shop.orders: the rows do not fit:\n"
        "  - 2 rows with a null in the primary key (id), like row 1: id=None, name='y', n=None\n" + FIX,
    ),
    Case(
        "null keys, late in a stream",
        lambda shop: shop.orders.upsert(
            pa.record_batch({"id": pa.array([None if n == 7 else n], pa.int64())}) for n in range(9)
        ),
        DataError,
        "1 row with a null in the primary key (id), like row 7: id=None, name=None, n=None",
    ),
    Case("no key at all", upsert([{"name": "z"}]), DataError, "- column id: BIGINT NOT NULL is missing\n" + FIX),
    Case(
        "a column that is not in the table",
        upsert([{"id": 1, "nmae": "z"}]),
        DataError,
        "- column nmae: not in the table (did you mean 'name'?); drop it, or add it to the table first\n" + FIX,
    ),
    Case(
        "a key of the wrong type",
        upsert([{"id": "one"}]),
        DataError,
        "- column id: expected BIGINT, found 'one' (in row 0)\n" + FIX,
    ),
    Case(
        "an Arrow key of the wrong type",
        upsert(pa.table({"id": [1.5]})),
        DataError,
        "- column id: expected BIGINT, found double (cast it to that type before the write)",
    ),
    Case(
        "upsert without a key",
        upsert([{"id": 1}], "shop.plain"),
        InputError,
        "table shop.plain has no primary key, which upsert needs; fix: create the table with primary_key=[…], or use",
    ),
    Case(
        "delete of keys without a key",
        delete([{"id": 1}], "shop.plain"),
        InputError,
        "table shop.plain has no primary key, which delete by keys needs",
    ),
    Case(
        "row kinds of no column",
        upsert([{"id": 1}], row_kind="op"),
        InputError,
        "table shop.orders: the rows have no column 'op' for row kinds; fix: the columns are id",
    ),
    Case(
        "row kind that is none",
        upsert([{"id": 1, "op": "+I"}, {"id": 2, "op": "upsert"}], row_kind="op"),
        DataError,
        "table shop.orders: the rows do not fit:\n"
        "  - 1 row with no row kind that is known in column 'op', like row 1: op='upsert', id=2\n" + KINDS,
    ),
    Case(
        "row kind that is null",
        upsert([{"id": 1, "op": None}, {"id": 2, "op": "+I"}], row_kind="op"),
        DataError,
        "1 row with no row kind that is known in column 'op', like row 0: op=None, id=1\n" + KINDS,
    ),
    Case(
        "row kind that is no code",
        upsert([{"id": 1, "op": 7}], row_kind="op"),
        DataError,
        "1 row with no row kind that is known in column 'op', like row 0: op=7, id=1\n" + KINDS,
    ),
    Case(
        "row kind that is a fraction",
        upsert([{"id": 1, "op": 1.5}], row_kind="op"),
        DataError,
        "the column of row kinds has a wrong type:\n  - expected text or whole numbers, found double",
    ),
    Case(
        "row kind that is no name",
        upsert([{"id": 1}], row_kind=3),
        InputError,
        "row_kind= is the name of a column; found 3",
    ),
    Case(
        "row kind without a name",
        upsert([{"id": 1}], row_kind=""),
        InputError,
        "row_kind= is the name of a column; found ''",
    ),
    Case(
        "sorted by no column",
        upsert([{"id": 1}], sort_by="at"),
        InputError,
        "table shop.orders: the rows have no column 'at' for sort_by; fix: the columns are id",
    ),
    Case(
        "sorted by a struct",
        upsert([{"id": 1, "at": {"a": 1}}], sort_by=["at"]),
        InputError,
        "table shop.orders: rows cannot be sorted by 'at'; expected a column of a plain type; found struct<a: int64>",
    ),
    Case(
        "delete without sequence",
        delete([{"id": 1, "s": 1}], "shop.ordered"),
        DataError,
        "table shop.ordered: delete needs the key and sequence columns:\n  - column 't' is missing\n"
        "fix: pass them, or delete with a predicate",
    ),
    Case(
        "delete without key",
        delete([{"name": "a"}]),
        DataError,
        "table shop.orders: delete needs the key and sequence columns:\n  - column 'id' is missing",
    ),
    Case("delete of a null key", delete([{"id": None}]), DataError, "1 row with a null in the primary key (id), like"),
    Case("delete of a text", delete([{"id": "x"}]), DataError, "column id: expected BIGINT, found 'x' (in row 0)"),
    Case(
        "delete of bare keys",
        delete([1]),
        InputError,
        "a list of rows must hold dicts; expected [{'id': 1}, …]; found a list with 1",
    ),
    Case("delete of one key", delete({"id": 1}), InputError, "found dict; fix: pass a list with it: [row]"),
    Case("delete of what?", delete(None), InputError, "delete needs a predicate or keys; fix: delete('true') removes"),
    Case(
        "delete in first-row",
        upsert([{"id": 1, "op": "-D"}, {"id": 2, "op": "-U"}, {"id": 3, "op": "+I"}], "shop.first-row", row_kind="op"),
        DataError,
        "merge engine 'first-row' cannot take back 2 rows of kind -D or -U:\n  - for example -D of {'id': 1}\n"
        "fix: set property 'ignore-delete' to true",
    ),
    Case(
        "delete in partial-update",
        delete([{"id": 1}], "shop.partial-update"),
        DataError,
        "merge engine 'partial-update' cannot take back 1 row of kind -D or -U:\n  - for example -D of {'id': 1}\n"
        "fix: set property 'ignore-delete' to true, or 'remove-record-on-delete' to true to remove whole rows, or use",
    ),
    Case(
        "delete in aggregation",
        delete([{"id": 1}], "shop.sums"),
        DataError,
        "cannot take back 1 row of kind -D or -U: columns that cannot take a row back are v (max), w (listagg):\n"
        "  - for example -D of {'id': 1}\n"
        "fix: set 'fields.<column>.ignore-retract' to true for these columns, or 'remove-record-on-delete' to true",
    ),
    Case(
        "txn without a version",
        upsert([{"id": 1}], txn="loader"),
        InputError,
        "expected text and a whole number from 0, like ('loader', 7); found 'loader'",
    ),
    Case(
        "our own column",
        upsert([{"id": 1, "_lakebed_kind": 3}]),
        DataError,
        "- column _lakebed_kind: not in the table",
    ),
    Case(
        "dynamic without partitions",
        lambda shop: shop.orders.overwrite([{"id": 1}], where="dynamic"),
        InputError,
        "table shop.orders has no partitions to overwrite dynamically; fix: leave out where='dynamic'",
    ),
    Case(
        "outside of what is overwritten",
        lambda shop: shop.orders.overwrite([{"id": 1}], where="id = 2"),
        DataError,
        "- 1 row(s) do not satisfy id = 2, for example {'id': 1, 'name': None, 'n': None}",
    ),
    Case(
        "hidden column",
        lambda shop: shop.orders.to_arrow(["_lakebed_kind"]),
        InputError,
        "table shop.orders has no column '_lakebed_kind'; expected some of id, name, n",
    ),
)
def test_rows(made: Shop, case: Case) -> None:
    check(made, case)


def alter(table: str = "shop.orders", **changes: Any) -> Callable[[Shop], object]:
    return lambda shop: shop.lake.table(table).alter(**changes)


@cases(
    Case(
        "drop of a key column",
        alter(drop=["id"]),
        SchemaError,
        "column id cannot be dropped, it is a key or the table depends on it",
    ),
    Case(
        "wider key",
        alter(widen={"id": "DECIMAL(20,0)"}),
        SchemaError,
        "column id cannot be widened, it is a key or the table depends on its type",
    ),
    Case("key with nulls", alter(nullable={"id": True}), SchemaError, "column id cannot become nullable, it is a key"),
    Case("drop of a sequence", alter("shop.ordered", drop=["s"]), SchemaError, "column s cannot be dropped"),
    Case("wider sequence", alter("shop.ordered", widen={"s": "BIGINT"}), SchemaError, "column s cannot be widened"),
    Case("drop with a function", alter("shop.sums", drop=["v"]), OptionError, "property 'fields.v.…' names no column"),
    Case(
        "merge at some time",
        alter(properties={"merge": "later"}),
        OptionError,
        "table property 'merge' has a wrong value; expected on-write, on-read or copy-on-write; found 'later'",
    ),
    Case("other buckets", alter(properties={"lakebed.buckets": 5}), OptionError, "is managed by Lakebed"),
    Case(
        "other engine",
        alter(properties={"merge-engine": "first-row"}),
        OptionError,
        "'merge-engine' is no table property; fix: pass merge_engine= to create_table; it cannot change",
    ),
    Case(
        "properties of key tables",
        alter("shop.plain", properties={"team.owner": "me", "lakebed.merge": "on-read", "fields.v.distinct": True}),
        OptionError,
        "table shop.plain has no primary key; found property 'merge' and property 'fields.v.distinct'; "
        "fix: leave them out",
    ),
    Case(
        "settle of some rows",
        lambda shop: shop.orders.settle("id = 1"),
        InputError,
        "table shop.orders: maintenance works on whole partitions; "
        "expected no predicate: it has no partitions; found one on id",
    ),
    Case(
        "compact where buckets span partitions",
        lambda shop: shop.lake.table("shop.moving").compact("p = 'a'"),
        InputError,
        "table shop.moving: its buckets span partitions, since the primary key lacks a partition column; fix: leave",
    ),
)
def test_changes(made: Shop, case: Case) -> None:
    check(made, case)


def test_a_name_of_ours_cannot_come_later(made: Shop) -> None:
    message = "column _lakebed_row_version: names that start with _lakebed_ belong to Lakebed"
    check(made, Case("", alter(add={"_lakebed_row_version": "BIGINT"}), SchemaError, message))


# Damaged files


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Shop]:
    """``shop.orders`` has one settled file with a vector, and one file that is not settled."""
    with lakebed.connect(tmp_path / "lake") as lake:
        lake.create_namespace("shop")
        orders = lake.create_table("shop.orders", "id BIGINT, v STRING", **KEY, merge="on-read", buckets=1)
        orders.upsert(pa.table({"id": range(20_000), "v": ["x"] * 20_000}))
        orders.upsert(pa.table({"id": range(0, 20_000, 3), "v": ["y"] * 6667}))
        orders.settle()
        orders.upsert([{"id": 1, "v": "z"}])
        yield Shop(tmp_path, lake, orders, lambda name, value: None)


def file_of(shop: Shop, *, unsettled: bool) -> Path:
    found = [row["path"] for row in shop.orders.files().to_pylist() if row["unsettled"] is unsettled]
    return shop.folder / found[0]


MISSING = "table shop.orders: a file of this version is missing: file://ROOT/lake/shop/orders/"
OPERATIONS: dict[str, Callable[[lakebed.Table], object]] = {
    "read": lambda table: table.to_arrow(),
    "stream": lambda table: list(table.to_batches()),
    "settle": lambda table: table.settle(),
    "compact": lambda table: table.compact(full=True),
    "delete": lambda table: table.delete("v = 'z'"),
    "overwrite": lambda table: table.overwrite([], where="v = 'x'"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_missing_files(fresh: Shop, operation: str) -> None:
    do = OPERATIONS[operation]
    file = file_of(fresh, unsettled=True)
    file.rename(fresh.root / "away")
    check(fresh, Case("", lambda shop: do(shop.orders), FileMissingError, MISSING))
    (fresh.root / "away").rename(file)
    vectors = next(fresh.folder.glob("*.bin"))
    vectors.unlink()
    check(fresh, Case("", lambda shop: do(shop.orders), FileMissingError, MISSING + vectors.name))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_corrupt_files(fresh: Shop, operation: str) -> None:
    do = OPERATIONS[operation]
    file, vectors = file_of(fresh, unsettled=True), next(fresh.folder.glob("*.bin"))
    whole = file.read_bytes()
    os.truncate(file, len(whole) // 2)
    check(
        fresh, Case("", lambda shop: do(shop.orders), CorruptFileError, f"file://{file}: cannot read it, the content")
    )
    file.write_bytes(whole)
    data = bytearray(vectors.read_bytes())
    data[len(data) // 2] ^= 1
    vectors.write_bytes(data)
    wrong = f"file://{vectors}: the checksum of the deletion vector at offset 1 is wrong"
    check(fresh, Case("", lambda shop: do(shop.orders), CorruptFileError, wrong))


def test_an_upsert_does_not_need_the_damaged_file(fresh: Shop) -> None:
    """What is written later is not lost because something else is."""
    file = file_of(fresh, unsettled=True)
    file.rename(fresh.root / "away")
    fresh.orders.upsert([{"id": 5, "v": "new"}])
    (fresh.root / "away").rename(file)
    assert fresh.orders.to_arrow(where="id in (1, 5)")["v"].to_pylist() == ["z", "new"]


# No space, no permission, forks


@pytest.mark.parametrize("merge", MERGES)
def test_a_full_disk(tmp_path: Path, merge: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk: " + mounted.stderr.decode().strip())
    try:
        with lakebed.connect(tmp_path / "lake") as lake:
            table = lake.create_table(
                "noise", "id INT, data BINARY", **KEY, merge=merge, buckets=2, location=str(disk / "noise")
            )
            table.upsert([{"id": n, "data": os.urandom(1000)} for n in range(100)])
            before = sorted(path for path in disk.rglob("*") if path.is_file())
            rows = table.to_arrow()
            noise = [{"id": n, "data": os.urandom(1000)} for n in range(2000)]
            with pytest.raises(NoSpaceError, match="cannot write it, the disk or the quota is full; fix: free space"):
                table.upsert(noise)
            assert sorted(path for path in disk.rglob("*") if path.is_file()) == before
            assert table.version == 1
            assert table.to_arrow().equals(rows)
            table.upsert(noise[:10])
            assert table.count() == 100
    finally:
        subprocess.run(["umount", disk], check=True)


READ_ONLY = """
import os, sys, tempfile, lakebed
CHANGES = ("table.upsert([{'id': 1, 'v': 2}])", "table.delete([{'id': 0}])", "table.overwrite([{'id': 0}])")
with lakebed.connect(tempfile.mkdtemp()) as lake:  # the other user may not be able to import what is needed
    table = lake.create_table("t", "id INT, v INT", primary_key=["id"], merge="on-read", buckets=1)
    for change in CHANGES * 2:
        eval(change), table.count()
os.setgid(65534); os.setuid(65534)
lake = lakebed.connect(sys.argv[1])
table = lake.table("t")
print(table.count())
for change in CHANGES:
    try:
        eval(change)
    except lakebed.LakebedError as error:
        print(type(error).__name__, error)
"""


def test_a_directory_that_may_only_be_read(tmp_path: Path) -> None:
    """Another user may read the key table, unsettled rows included, and change nothing of it."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    root = Path("/tmp") / f"lakebed-read-only-{os.getpid()}"
    try:
        with lakebed.connect(root) as lake:
            table = lake.create_table("t", "id INT, v INT", **KEY, merge="on-read", buckets=1)
            table.upsert([{"id": n, "v": 0} for n in range(3)])
            table.upsert([{"id": 1, "v": 1}])
            metastore = root / ".lakebed"
            for path in (root, *root.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
            metastore.chmod(0o777)
            for path in metastore.iterdir():
                path.chmod(path.stat().st_mode | stat.S_IWOTH)
            before = sorted(root.glob("default/**/*"))
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, str(root)], capture_output=True, text=True, check=False
            )
            lines = done.stdout.splitlines()
            if done.returncode != 0 and "Permission" in done.stderr and not lines:
                pytest.skip("another user cannot run this Python")
            assert lines[0] == "3", done.stderr
            refused = "cannot write it, access is denied"
            assert [refused in line for line in lines[1:]] == [True] * 3, done.stdout
            assert sorted(root.glob("default/**/*")) == before
            assert table.version == 2
            assert table.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "v": 1}]
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_an_upsert_after_a_fork(tmp_path: Path) -> None:
    """polars is not usable in a forked child of a process that has used it: the child writes, or says why not."""
    with lakebed.connect(tmp_path / "lake") as lake:
        table = lake.create_table("t", "id INT, v INT", **KEY, merge="on-read", buckets=1)
        table.upsert([{"id": n, "v": 0} for n in range(3)])
        table.to_polars()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            with lakebed.connect(tmp_path / "lake") as lake:
                lake.table("t").upsert([{"id": 1, "v": 1}])
                text = str(sorted(lake.table("t").to_arrow()["v"].to_pylist()))
        except lakebed.LakebedError as error:
            text = str(error)
        except BaseException as error:
            text = f"! {type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text == "[0, 0, 1]" or "fork" in text, text
    with lakebed.connect(tmp_path / "lake") as lake:
        assert lake.table("t").count() == 3


def test_a_source_that_breaks_leaves_nothing(fresh: Shop) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [7], "v": ["w"]})
        raise RuntimeError("the source broke")

    before = fresh.state()
    with pytest.raises(RuntimeError, match="the source broke"):
        fresh.orders.upsert(batches())
    assert fresh.state() == before


def test_a_file_where_a_bucket_should_be(fresh: Shop) -> None:
    folder = file_of(fresh, unsettled=True).parent
    folder.rename(fresh.root / "bucket")
    folder.write_text("")
    message = "cannot write it, a file is where a directory should be; fix: move the file, or use another place"
    check(fresh, Case("", lambda shop: shop.orders.upsert([{"id": 9}]), StorageError, message))
