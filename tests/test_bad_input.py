"""What a user reads after a mistake, and that the mistake changed nothing.

Each case is: its name, what the user does, the error, and the essential text of its message. After each of them
the table has the same version, rows, tags and files, byte by byte.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from lakebed import (
    AlreadyExistsError,
    ConflictError,
    CorruptFileError,
    DataError,
    FileMissingError,
    InputError,
    LakebedError,
    MetastoreError,
    MetastoreVersionError,
    NoSpaceError,
    NotFoundError,
    OptionError,
    PredicateError,
    SchemaError,
    StorageError,
    UnsupportedFeatureError,
)

SCHEMA = "id BIGINT NOT NULL, dt DATE, amount DECIMAL(10,2), home STRUCT<zip: STRING NOT NULL, city: STRING>, n INT"
DAY = dt.date(2026, 11, 15)
SECRET = "hunter2"
FIX = "fix: nothing was written; change the rows, or the table with alter()"


@dataclass
class Shop:
    """A warehouse with two tables; ``orders`` has five rows in one file, one of them deleted, and one tag."""

    root: Path
    lake: lakebed.Warehouse
    orders: lakebed.Table
    setenv: Callable[[str, str], None]

    @property
    def folder(self) -> Path:
        return self.root / "lake/shop/orders"

    @property
    def data_file(self) -> Path:
        return next(self.folder.rglob("*.parquet"))

    def commit_file(self, version: int) -> Path:
        return self.folder / f"_delta_log/{version:020}.json"

    def settings(self, file: str, text: str) -> lakebed.Warehouse:
        """Connect with a settings file."""
        home = self.root / "home"
        home.mkdir()
        (home / file).write_text(text)
        self.setenv("LAKEBED_HOME", str(home))
        return lakebed.connect(self.root / "lake")

    def state(self) -> dict[str, Any]:
        """All that a mistake must not change; ``rows`` is missing while the files are damaged on purpose."""
        files = [path for path in sorted((self.root / "lake").rglob("*")) if ".lakebed" not in path.parts]
        found: dict[str, Any] = {
            "tables": {name: self.lake.tables(name) for name in self.lake.namespaces()},
            "history": self.orders.history(),
            "tags": self.orders.tags(),
            "schema": self.orders.schema,
            "directories and files": {
                str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None for path in files
            },
        }
        try:
            found["rows"] = self.orders.to_arrow()
        except StorageError:
            pass
        return found


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with lakebed.connect(tmp_path / "lake") as lake:
        lake.create_namespace("shop")
        orders = lake.create_table("shop.orders", SCHEMA, partition_by=["dt"])
        orders.append([{"id": n, "dt": DAY, "amount": Decimal("1.50"), "home": {"zip": "1"}} for n in range(5)])
        orders.delete("id = 0")
        orders.tag("good")
        lake.create_table("shop.audit", "note STRING")
        (tmp_path / "notes.txt").write_text("a file, not a directory")
        yield Shop(tmp_path, lake, orders, monkeypatch.setenv)


class Case(NamedTuple):
    name: str
    do: Callable[[Shop], object]
    error: type[LakebedError]
    message: str


def check(shop: Shop, case: Case) -> None:
    """Do it, and look at the message and at what is left."""
    before = shop.state()
    with pytest.raises(LakebedError) as caught:
        case.do(shop)
    message = str(caught.value)
    print(f"{type(caught.value).__name__}: {message}")  # `pytest -rP -k name` shows what a user sees
    assert type(caught.value) is case.error
    assert case.message.replace("ROOT", str(shop.root)) in message
    link: BaseException | None = caught.value
    while link is not None:
        assert SECRET not in str(link)
        link = link.__cause__
    assert shop.state() == before


def cases(*listed: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", listed, ids=[case.name for case in listed])


# Rows


@cases(
    Case(
        "text in a number column",
        lambda shop: shop.orders.append([{"id": 1}, {"id": "two"}]),
        DataError,
        "table shop.orders: the rows do not fit:\n  - column id: expected BIGINT, found 'two' (in row 1)\n" + FIX,
    ),
    Case(
        "a fraction in an integer column",
        lambda shop: shop.orders.append([{"id": 1.5}]),
        DataError,
        "- column id: expected BIGINT, found 1.5 (in row 0)",
    ),
    Case(
        "a time in a date column",
        lambda shop: shop.orders.append([{"id": 1, "dt": dt.datetime(2026, 11, 15, 10)}]),
        DataError,
        "- column dt: expected DATE, found datetime.datetime(2026, 11, 15, 10, 0) (in row 0)",
    ),
    Case(
        "a number that is too large",
        lambda shop: shop.orders.append([{"id": 1, "n": 2**40}]),
        DataError,
        "- column n: expected INT, found 1099511627776 (in row 0)",
    ),
    Case(
        "too many digits",
        lambda shop: shop.orders.append(pa.table({"id": [1, 2], "amount": [Decimal("1.250"), Decimal("1.234")]})),
        DataError,
        "- column amount: 1 value with more digits than DECIMAL(10,2) has (in row 1)",
    ),
    Case(
        "an Arrow type that may not fit",
        lambda shop: shop.orders.append(pa.table({"id": [1], "n": pa.array([1], pa.int64())})),
        DataError,
        "- column n: expected INT, found int64 (a value may not fit; cast it with cast(pa.int32()), or widen the",
    ),
    Case(
        "a column that is missing",
        lambda shop: shop.orders.append([{"n": 1}]),
        DataError,
        "- column id: BIGINT NOT NULL is missing\n" + FIX,
    ),
    Case(
        "a column that is not in the table",
        lambda shop: shop.orders.append([{"id": 1, "amonut": 1}]),
        DataError,
        "- column amonut: not in the table (did you mean 'amount'?); drop it, or add it to the table first",
    ),
    Case(
        "nulls",
        lambda shop: shop.orders.append([{"id": 1}, {"id": None}, {}]),
        DataError,
        "- column id: 2 nulls in a NOT NULL column (first in row 1)",
    ),
    Case(
        "a null inside a struct",
        lambda shop: shop.orders.append([{"id": 1, "home": {"city": "Oslo"}}]),
        DataError,
        "- column home.zip: 1 null in a NOT NULL column (in row 0)",
    ),
    Case(
        "several problems of an Arrow table",
        lambda shop: shop.orders.append(pa.table({"ids": [1], "dt": ["2026-11-15"], "n": [1.5]})),
        DataError,
        "table shop.orders: the rows do not fit:\n"
        "  - column ids: not in the table (did you mean 'id'?); drop it, or add it to the table first\n"
        "  - column id: BIGINT NOT NULL is missing (did you mean 'ids'?)\n"
        "  - column dt: expected DATE, found string (cast it to that type before the write)\n"
        "  - column n: expected INT, found double (cast it to that type before the write)\n" + FIX,
    ),
    Case(
        "several problems of Python rows",
        lambda shop: shop.orders.append([{"dt": "today", "n": "one", "color": "red"}]),
        DataError,
        "table shop.orders: the rows do not fit:\n"
        "  - column dt: expected DATE, found 'today' (in row 0)\n"
        "  - column n: expected INT, found 'one' (in row 0)\n"
        "  - column color: not in the table (there is id, dt, amount, home, n); drop it, or add it to the table first\n"
        "  - column id: BIGINT NOT NULL is missing\n" + FIX,
    ),
    Case(
        "one name twice",
        lambda shop: shop.orders.append(pa.table([[1], [2]], names=["id", "id"])),
        DataError,
        "- column id: the name is there 2 times; rename or drop the others",
    ),
    Case(
        "one row instead of a list",
        lambda shop: shop.orders.append({"id": 1}),
        InputError,
        "a list of dicts, or any object with the Arrow C stream interface; found dict; fix: pass a list with it: [row]",
    ),
    Case(
        "rows that are not dicts",
        lambda shop: shop.orders.append([(1, DAY)]),
        InputError,
        "a list of rows must hold dicts; expected [{'id': 1}, …]; found a list with (1, datetime.date(2026, 11, 15))",
    ),
    Case(
        "rows outside of the part that is overwritten",
        lambda shop: shop.orders.overwrite([{"id": 1, "dt": dt.date(2026, 1, 1)}], where="dt = '2026-11-15'"),
        DataError,
        "table shop.orders: rows lie outside of the part that is overwritten:\n"
        "  - 1 row(s) do not satisfy dt = DATE '2026-11-15', for example {'id': 1, 'dt': datetime.date(2026, 1, 1)",
    ),
    Case(
        "txn without a version",
        lambda shop: shop.orders.append([{"id": 1}], txn="loader"),  # type: ignore[arg-type]
        InputError,
        "expected text and a whole number from 0, like ('loader', 7); found 'loader'",
    ),
)
def test_rows(shop: Shop, case: Case) -> None:
    check(shop, case)


# Predicates and columns


@cases(
    Case(
        "syntax", lambda shop: shop.orders.delete("amount <"), PredicateError, "'amount <' cannot be parsed at line 1"
    ),
    Case(
        "unknown column",
        lambda shop: shop.orders.delete("amonut > 1"),
        PredicateError,
        "no such column 'amonut'; fix: did you mean 'amount'?",
    ),
    Case(
        "no condition",
        lambda shop: shop.orders.delete("id + 1"),
        PredicateError,
        "`id + 1` at character 1 is BIGINT; expected a condition that is true or false",
    ),
    Case(
        "subquery",
        lambda shop: shop.orders.delete("id IN (SELECT 1)"),
        PredicateError,
        "a subquery is not supported in a predicate: `(SELECT 1)` at character 15; fix: run the subquery first",
    ),
    Case(
        "types that do not compare",
        lambda shop: shop.orders.delete("id = 'x'"),
        PredicateError,
        "`id = 'x'` at character 1: BIGINT and STRING do not compare; fix: compare with a number",
    ),
    Case(
        "no date", lambda shop: shop.orders.delete("dt > 'May'"), PredicateError, "'May' is not a date; expected YYYY-"
    ),
    Case(
        "two statements",
        lambda shop: shop.orders.delete("id = 1; DROP TABLE orders"),
        PredicateError,
        "the predicate 'id = 1; DROP TABLE orders' is not one expression",
    ),
    Case(
        "pyarrow expression of an unknown column",
        lambda shop: shop.orders.delete(pc.field("nope") == 1),
        PredicateError,
        "no such column 'nope'; fix: there is id, dt, amount, home, n",
    ),
    Case("delete of what?", lambda shop: shop.orders.delete(None), InputError, "fix: delete('true') removes all rows"),
    Case(
        "unknown column to read",
        lambda shop: shop.orders.to_arrow(["ids"]),
        InputError,
        "table shop.orders has no column 'ids'; expected some of id, dt, amount, home, n; fix: did you mean 'id'?",
    ),
    Case(
        "columns that are no list",
        lambda shop: shop.orders.to_arrow("id"),
        InputError,
        "columns is a list of column names; found 'id'; fix: columns=['id', 'dt']",
    ),
)
def test_predicates(shop: Shop, case: Case) -> None:
    check(shop, case)


# Time travel


@cases(
    Case(
        "unknown version",
        lambda shop: shop.orders.at(version=99),
        NotFoundError,
        "table shop.orders has no version 99; expected a version from 0 to 2",
    ),
    Case(
        "version below zero",
        lambda shop: shop.orders.at(version=-1),
        InputError,
        "a version is a whole number from 0; found -1",
    ),
    Case(
        "before the table was there",
        lambda shop: shop.orders.at(timestamp="2001-01-01"),
        NotFoundError,
        "table shop.orders has no version at ",
    ),
    Case(
        "no time",
        lambda shop: shop.orders.at(timestamp="yesterday"),
        InputError,
        "this is no point in time; expected text like '2026-11-15 10:00:00', a datetime, or milliseconds since 1970; "
        "found 'yesterday'",
    ),
    Case(
        "unknown tag",
        lambda shop: shop.orders.at(tag="god"),
        NotFoundError,
        "table shop.orders has no tag 'god'; expected one of good; fix: did you mean 'good'?",
    ),
    Case(
        "version and tag",
        lambda shop: shop.orders.at(version=1, tag="good"),
        InputError,
        "table shop.orders: say which version; expected one of version=, timestamp=, tag=; found version= and tag=",
    ),
    Case(
        "restore of an unknown version",
        lambda shop: shop.orders.restore(99),
        NotFoundError,
        "table shop.orders has no version 99; expected a version from 0 to 2",
    ),
    Case(
        "tag that exists",
        lambda shop: shop.orders.tag("good"),
        AlreadyExistsError,
        "table shop.orders has a tag 'good' already; found version 2",
    ),
    Case(
        "tag for a while",
        lambda shop: shop.orders.tag("new", retain="a while"),
        InputError,
        "this is no length of time; expected text like '7 days' or '12 hours', or a timedelta; found 'a while'",
    ),
)
def test_time_travel(shop: Shop, case: Case) -> None:
    check(shop, case)


# Names and places


@cases(
    Case(
        "unknown table",
        lambda shop: shop.lake.table("shop.order"),
        NotFoundError,
        "there is no table shop.order; fix: did you mean",
    ),
    Case(
        "unknown namespace",
        lambda shop: shop.lake.table("shp.orders"),
        NotFoundError,
        "there is no namespace 'shp'; expected one of default, shop; fix: did you mean 'shop'?",
    ),
    Case(
        "name with a slash",
        lambda shop: shop.lake.create_table("shop/orders", "id INT"),
        InputError,
        "'shop/orders' is no name for a table; expected 1 to 200 letters, digits, '_' or '-'; no blanks, dots, quotes",
    ),
    Case(
        "name that climbs",
        lambda shop: shop.lake.create_namespace(".."),
        InputError,
        "'..' is no name for a namespace",
    ),
    Case(
        "name with too many parts",
        lambda shop: shop.lake.create_table("a.b.c", "id INT"),
        InputError,
        "'a.b.c' is no table name; expected 'namespace.table' or 'table'",
    ),
    Case(
        "table exists",
        lambda shop: shop.lake.create_table("shop.orders", "id INT"),
        AlreadyExistsError,
        "table shop.orders exists already; fix: choose another name, or drop it first",
    ),
    Case(
        "new name is taken",
        lambda shop: shop.lake.rename_table("shop.orders", "shop.audit"),
        AlreadyExistsError,
        "table shop.audit exists already; fix: choose another name",
    ),
    Case(
        "location of another table",
        lambda shop: shop.lake.create_table("shop.copy", "id INT", location=shop.orders.location),
        AlreadyExistsError,
        "table shop.copy: table shop.orders is at file://ROOT/lake/shop/orders; fix: pass another location=, or leave",
    ),
    Case(
        "location inside another table",
        lambda shop: shop.lake.create_table("shop.copy", "id INT", location=str(shop.folder / "copy")),
        AlreadyExistsError,
        "table shop.copy: file://ROOT/lake/shop/orders/copy is inside the table at file://ROOT/lake/shop/orders",
    ),
    Case(
        "location of the warehouse",
        lambda shop: shop.lake.create_table("shop.copy", "id INT", location=str(shop.root / "lake")),
        InputError,
        "table shop.copy cannot be at file://ROOT/lake: the warehouse itself is there",
    ),
    Case(
        "location above the root",
        lambda shop: shop.lake.create_table("shop.copy", "id INT", location="s3://bucket/../../etc"),
        InputError,
        "s3://bucket/../../etc: '..' goes above the root",
    ),
    Case(
        "location with a password",
        lambda shop: shop.lake.create_table("shop.copy", "id INT", location=f"s3://ann:{SECRET}@bucket/x"),
        InputError,
        "s3://***@bucket/x: a location cannot hold credentials; fix: pass them as options, like s3.access_key",
    ),
    Case(
        "location below a file",
        lambda shop: shop.lake.create_table("shop.copy", "id INT", location=str(shop.root / "notes.txt/copy")),
        StorageError,
        "cannot write it, a file is where a directory should be; fix: move the file, or use another place",
    ),
    Case(
        "namespace with tables",
        lambda shop: shop.lake.drop_namespace("shop"),
        InputError,
        "namespace shop is not empty; found 2 table(s): audit, orders; fix: drop or rename them first",
    ),
    Case(
        "register what is registered",
        lambda shop: shop.lake.register("shop.again", shop.orders.location),
        AlreadyExistsError,
        "file://ROOT/lake/shop/orders belongs to table shop.orders",
    ),
    Case(
        "register what is no Delta table",
        lambda shop: shop.lake.register("shop.again", str(shop.root)),
        NotFoundError,
        "file://ROOT is no Delta table; expected commits in _delta_log; found none; fix: check the path",
    ),
)
def test_names_and_places(shop: Shop, case: Case) -> None:
    check(shop, case)


# Schemas and properties


def create(schema: Any, **more: Any) -> Callable[[Shop], object]:
    return lambda shop: shop.lake.create_table("shop.new", schema, **more)


@cases(
    Case(
        "SQL text",
        create("id BIGINT NOT, dt DATE"),
        SchemaError,
        "SQL schema, line 1, column 14 ('id BIGINT NOT▸, dt DATE'): unexpected ','; expected NULL after NOT",
    ),
    Case(
        "unknown type", create("id UUID"), SchemaError, "column 4 ('id ▸UUID'): unknown type UUID; expected one of BOO"
    ),
    Case("no schema", create(42), SchemaError, "this is no schema; expected a pyarrow.Schema, "),
    Case(
        "type that no table has",
        create(pa.schema({"wait": pa.duration("s")})),
        SchemaError,
        "Arrow schema: column wait is duration[s], which a table cannot have (fix: cast it to int64, and put the unit",
    ),
    Case(
        "names that differ in case only",
        create("id INT, ID STRING"),
        SchemaError,
        "column ID: the name is taken by id (names must differ by more than case)",
    ),
    Case(
        "name of ours",
        create("_lakebed_row_id BIGINT"),
        SchemaError,
        "column _lakebed_row_id: names that start with _lakebed_ belong to Lakebed (fix: choose another name)",
    ),
    Case(
        "partition column that is not there",
        create("id INT, dt DATE", partition_by=["day"]),
        SchemaError,
        "partition column 'day' is not in the schema (there is id, dt)",
    ),
    Case(
        "nothing but partition columns",
        create("id INT", partition_by=["id"]),
        SchemaError,
        "every column is a partition column; at least one must not be",
    ),
    Case(
        "unknown property",
        create("id INT", properties={"checkpoint-intervall": 5}),
        OptionError,
        "unknown table property 'checkpoint-intervall'; expected one of append-only, checkpoint-interval, compact-",
    ),
    Case(
        "wrong value of a property",
        create("id INT", properties={"checkpoint-interval": "often"}),
        OptionError,
        "table property 'checkpoint-interval' has a wrong value; expected a whole number of at least 1; found 'often'",
    ),
    Case(
        "alter of an unknown column",
        lambda shop: shop.orders.alter(drop=["amuont"]),
        SchemaError,
        "the schema cannot be changed so: there is no column amuont; fix: did you mean 'amount'?",
    ),
    Case(
        "a narrower type",
        lambda shop: shop.orders.alter(widen={"id": "INT"}),
        SchemaError,
        "column id cannot become INT; expected DECIMAL(p,s) with p - s >= 20; found BIGINT",
    ),
    Case(
        "drop of a partition column",
        lambda shop: shop.orders.alter(drop=["dt"]),
        SchemaError,
        "column dt cannot be dropped, the table is partitioned by it; fix: write a new table without it",
    ),
    Case(
        "add of what is there",
        lambda shop: shop.orders.alter(add={"Amount": "INT"}),
        SchemaError,
        "column Amount is there already; found 'amount'; fix: choose another name",
    ),
    Case(
        "add of a required column",
        lambda shop: shop.orders.alter(add={"note": "STRING NOT NULL"}),
        SchemaError,
        "column 'note' cannot be added as NOT NULL: the rows that are there have no value for it; fix: add it without "
        "NOT NULL, write its values, then alter(nullable={'note': False})",
    ),
    Case(
        "required, but there are nulls",
        lambda shop: shop.orders.alter(nullable={"n": False}),
        DataError,
        "table shop.orders: column n cannot become non-null:\n  - 4 row(s) have a null in it\nfix: delete or overwrite",
    ),
    Case(
        "alter by a list",
        lambda shop: shop.orders.alter(add=["note"]),  # type: ignore[arg-type]
        InputError,
        "add= maps column names; expected a dict; found ['note']",
    ),
    Case(
        "alter of nothing", lambda shop: shop.orders.alter(), InputError, "alter was asked to change nothing; fix: pass"
    ),
)
def test_schemas(shop: Shop, case: Case) -> None:
    check(shop, case)


# Connections


def connect(*arguments: Any, **options: Any) -> Callable[[Shop], object]:
    return lambda shop: lakebed.connect(shop.root / "other", *arguments, **options)


def with_environment(name: str, value: str) -> Callable[[Shop], object]:
    def do(shop: Shop) -> object:
        shop.setenv(name, value)
        return lakebed.connect(shop.root / "lake")

    return do


def not_a_database(shop: Shop) -> object:
    (shop.root / "notes.db").write_text("these are my notes, not a database\n" * 100)
    return lakebed.connect(shop.root / "lake", str(shop.root / "notes.db"))


def from_the_future(shop: Shop) -> object:
    copy = shop.root / "future.db"
    with sqlite3.connect(shop.root / "lake/.lakebed/metastore.db") as mine, sqlite3.connect(copy) as theirs:
        mine.backup(theirs)
        theirs.execute("UPDATE lakebed_meta SET schema_version = 99")
    return lakebed.connect(shop.root / "lake", str(copy))


@cases(
    Case(
        "unknown option",
        connect(batchsize=1),
        OptionError,
        "argument: unknown option 'batchsize'; fix: use 'batch_size'",
    ),
    Case(
        "unknown environment variable",
        with_environment("LAKEBED_WAREHOSE", "/lake"),
        OptionError,
        "environment variable LAKEBED_WAREHOSE: unknown option 'warehose'; fix: use 'warehouse'",
    ),
    Case(
        "unknown key of lakebed.toml",
        lambda shop: shop.settings("lakebed.toml", 'sync = true\n[s3]\nendpont = "http://store"\n'),
        OptionError,
        "ROOT/home/lakebed.toml, line 3: unknown option 's3.endpont'; fix: use 's3.endpoint'",
    ),
    Case(
        "line of lakebed.properties",
        lambda shop: shop.settings("lakebed.properties", "sync true\n"),
        OptionError,
        "ROOT/home/lakebed.properties, line 1: not a setting; expected key=value",
    ),
    Case(
        "wrong number",
        connect(batch_size="many"),
        OptionError,
        "argument: option 'batch_size' has a wrong value; expected a whole number; found 'many'",
    ),
    Case(
        "wrong size",
        connect(writer_memory_limit="lots"),
        OptionError,
        "expected a size in bytes like 134217728 or '128MiB'; found 'lots'",
    ),
    Case(
        "wrong choice",
        connect(compression="rar"),
        OptionError,
        "option 'compression' has a wrong value; expected one of auto, zstd, snappy, gzip, lz4, none; found 'rar'",
    ),
    Case(
        "one option in two spellings",
        connect(**{"s3.endpoint": "http://a", "fs.s3a.endpoint": "http://b"}),
        OptionError,
        "'s3.endpoint' (argument) and 'fs.s3a.endpoint' (argument) are the same setting with two values; fix: keep one",
    ),
    Case(
        "unknown database",
        connect(f"mysql://ann:{SECRET}@db/lake"),
        OptionError,
        "this is no address of a metastore; expected postgresql://user@host/database, sqlite:///path or a path that "
        "ends in .db; found mysql://ann:***@db/lake",
    ),
    Case(
        "remote warehouse without metastore",
        lambda shop: lakebed.connect("s3://bucket/lake"),
        OptionError,
        "the warehouse s3://bucket/lake needs a metastore: SQLite cannot live there",
    ),
    Case(
        "no warehouse",
        lambda shop: lakebed.connect(),
        OptionError,
        "no warehouse is given; fix: pass it, as in lakebed",
    ),
    Case(
        "unknown kind of warehouse",
        lambda shop: lakebed.connect("gs://bucket/lake"),
        InputError,
        "gs://bucket/lake: unknown kind of location 'gs'; expected a local path or one of file://, s3://, hdfs://",
    ),
    Case(
        "server that is not there",
        connect(f"postgresql://ann:{SECRET}@127.0.0.1:1/lake"),
        MetastoreError,
        "metastore postgresql://127.0.0.1:1/lake cannot be reached; found connection failed: ",
    ),
    Case("file that is no database", not_a_database, MetastoreError, "ROOT/notes.db"),
    Case(
        "metastore of a newer Lakebed",
        from_the_future,
        MetastoreVersionError,
        "has a schema that this Lakebed does not know; expected schema version 4 or older; found schema version 99",
    ),
    Case(
        "warehouse in a file",
        lambda shop: lakebed.connect(shop.data_file),
        MetastoreError,
        ".parquet/.lakebed cannot be made; found [Errno 20] Not a directory",
    ),
)
def test_connections(shop: Shop, case: Case) -> None:
    check(shop, case)


# Transactions


def used_after_its_end(shop: Shop) -> object:
    with shop.lake.transaction() as tx:
        table = tx.table("shop.orders")
    return table.append([{"id": 9}])


def mistake_in_the_second_step(shop: Shop) -> None:
    with shop.lake.transaction() as tx:
        tx.table("shop.orders").delete("true")
        tx.table("shop.orders").append([{"id": "nine"}])


def mistake_in_the_second_table(shop: Shop) -> None:
    with shop.lake.transaction() as tx:
        tx.table("shop.orders").append([{"id": 9}])
        tx.table("shop.odrers").append([{"id": 9}])


@cases(
    Case(
        "used after its end",
        used_after_its_end,
        InputError,
        "this transaction has ended; fix: begin a new one with lake.transaction()",
    ),
    Case(
        "mistake in the second step", mistake_in_the_second_step, DataError, "column id: expected BIGINT, found 'nine'"
    ),
    Case(
        "mistake in the second table", mistake_in_the_second_table, NotFoundError, "there is no table shop.odrers; fix:"
    ),
)
def test_transactions(shop: Shop, case: Case) -> None:
    check(shop, case)


def test_a_conflict_names_both_sides(shop: Shop) -> None:
    with pytest.raises(ConflictError) as caught, shop.lake.transaction() as tx:
        tx.table("shop.orders").delete("id = 1")
        shop.orders.delete("id = 1")
    assert "table shop.orders: the delete conflicts with version 3 (delete), which landed meanwhile" in str(
        caught.value
    )
    assert "fix: nothing was changed; run the delete again; it will then see version 3" in str(caught.value)
    assert shop.orders.version == 3
    assert shop.orders.count() == 3


# Damaged files: made by hand, because Lakebed does not make them


def with_vector_file(shop: Shop) -> tuple[lakebed.Table, Path]:
    """A table whose deletion vector is too large to be kept in the log."""
    table = shop.lake.create_table("shop.numbers", "n BIGINT")
    table.append(pa.table({"n": range(20_000)}))
    table.delete("n % 3 = 0")
    return table, next((shop.root / "lake/shop/numbers").glob("*.bin"))


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@cases(
    Case(
        "missing data file",
        lambda shop: shop.data_file.unlink(),
        FileMissingError,
        "table shop.orders: a file of this version is missing: file://ROOT/lake/shop/orders/dt=2026-11-15/",
    ),
    Case(
        "data file cut short",
        lambda shop: os.truncate(shop.data_file, 100),
        CorruptFileError,
        ".parquet: cannot read it, the content is not valid; found Parquet magic bytes not found",
    ),
    Case(
        "empty data file", lambda shop: os.truncate(shop.data_file, 0), CorruptFileError, "Parquet file size is 0 bytes"
    ),
)
def test_damaged_data_files(shop: Shop, case: Case) -> None:
    case.do(shop)
    for read in (shop.orders.to_arrow, lambda: list(shop.orders.to_batches()), lambda: shop.orders.delete("id = 1")):
        check(shop, case._replace(do=lambda _, read=read: read()))


def test_damaged_deletion_vector(shop: Shop) -> None:
    table, file = with_vector_file(shop)
    flip_a_bit(file)
    wrong_sum = f"file://{file}: the checksum of the deletion vector at offset 1 is wrong"
    check(shop, Case("", lambda _: table.to_arrow(), CorruptFileError, wrong_sum))
    os.truncate(file, 20)
    check(shop, Case("", lambda _: table.to_arrow(), CorruptFileError, f"file://{file}: no deletion vector of "))
    file.unlink()
    missing = "table shop.numbers: a file of this version is missing: "
    check(shop, Case("", lambda _: table.to_arrow(), FileMissingError, missing + f"file://{file}"))


def test_a_table_whose_directory_became_a_file(shop: Shop) -> None:
    shutil.rmtree(shop.folder)
    shop.folder.write_text("")
    message = "cannot write it, a file is where a directory should be; fix: move the file, or use another place"
    check(shop, Case("", lambda shop: shop.orders.append([{"id": 9}]), StorageError, message))


def test_a_full_disk(shop: Shop) -> None:
    disk = shop.root / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk: " + mounted.stderr.decode().strip())
    try:
        table = shop.lake.create_table("shop.noise", "data BINARY", location=str(disk / "noise"))
        noise = pa.table({"data": [os.urandom(1000) for _ in range(2000)]})
        message = "cannot write it, the disk or the quota is full; fix: free space and try again"
        check(shop, Case("", lambda _: table.append(noise), NoSpaceError, message))
        assert [file.name for file in disk.rglob("*") if file.is_file()] == [f"{0:020}.json"]
        table.append(noise.slice(0, 10))
        assert table.count() == 10
    finally:
        subprocess.run(["umount", disk], check=True)


# The open log, when others write into it


def with_reader_feature(shop: Shop, feature: str) -> None:
    """As if a newer Delta writer had made the table."""
    first = shop.commit_file(0)
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"]["readerFeatures"].append(feature)
            action["protocol"]["writerFeatures"].append(feature)
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))


@cases(
    Case(
        "no table",
        lambda shop: shutil.rmtree(shop.folder / "_delta_log"),
        NotFoundError,
        "file://ROOT/lake/shop/orders is no Delta table; expected commits in _delta_log; found none; fix: check the",
    ),
    Case(
        "unknown reader feature",
        lambda shop: with_reader_feature(shop, "timeMachine"),
        UnsupportedFeatureError,
        "file://ROOT/lake/shop/orders needs reader features that this Lakebed does not know: timeMachine; expected ",
    ),
    Case(
        "commit that is no JSON",
        lambda shop: shop.commit_file(1).write_text('{"add":'),
        CorruptFileError,
        '_delta_log/00000000000000000001.json, line 1 is not an action; found {"add":',
    ),
    Case(
        "commit that is missing",
        lambda shop: shop.commit_file(1).unlink(),
        FileMissingError,
        "version 2 cannot be rebuilt, since _delta_log/00000000000000000001.json is missing; expected every commit "
        "from 0 to 2; fix: restore the file, or read version 0 or earlier",
    ),
)
def test_read_delta(shop: Shop, case: Case) -> None:
    case.do(shop)
    check(shop, case._replace(do=lambda shop: lakebed.read_delta(shop.folder)))


def test_read_delta_of_an_unknown_version(shop: Shop) -> None:
    message = "file://ROOT/lake/shop/orders has no version 99; expected 0 to 2"
    check(shop, Case("", lambda shop: lakebed.read_delta(shop.folder, version=99), NotFoundError, message))


def test_a_foreign_commit_in_our_log(shop: Shop) -> None:
    foreign = '{"commitInfo":{"operation":"WRITE"}}\n'
    shop.commit_file(3).write_text(foreign)
    with pytest.warns(lakebed.PublicationWarning) as warned:
        commit = shop.orders.append([{"id": 9}])
    assert commit.version == 3
    assert not commit.published
    assert shop.orders.count() == 5
    message = "_delta_log/00000000000000000003.json is not the commit that Lakebed made as version 3"
    assert "table shop.orders: the commit has landed, but its log file could not be written" in str(warned[0].message)
    assert message in str(warned[0].message)
    check(shop, Case("", lambda shop: shop.orders.publish(), CorruptFileError, message))
    assert shop.commit_file(3).read_text() == foreign
    shop.commit_file(3).rename(shop.root / "away.json")
    assert shop.orders.publish() == 3
    assert lakebed.read_delta(shop.folder).count() == 5
