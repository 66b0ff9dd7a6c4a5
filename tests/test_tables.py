"""What a table without primary key does: one suite over both metastores, local files and S3."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import on_every_pair

import lakebed
from lakebed import ConflictError, DataError, InputError, NotFoundError, SchemaError


@pytest.fixture
def sales(lake: lakebed.Warehouse) -> lakebed.Table:
    """Four rows in three partitions, one of them null."""
    table = lake.create_table("sales", "id BIGINT NOT NULL, region STRING, amount DOUBLE", partition_by=["region"])
    table.append(
        [
            {"id": 1, "region": "eu", "amount": 10.0},
            {"id": 2, "region": "us", "amount": 20.0},
            {"id": 3, "region": None, "amount": None},
            {"id": 4, "region": "eu", "amount": -5.0},
        ]
    )
    return table


def ids(table: lakebed.Table | lakebed.TableView, where: object = None) -> list[int]:
    return sorted(table.to_arrow(["id"], where)["id"].to_pylist())


def test_create_and_read_empty(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("t", pa.schema({"a": pa.int32(), "b": pa.list_(pa.string())}))
    assert table.version == 0
    assert table.to_arrow().num_rows == 0
    assert table.to_arrow().schema.names == ["a", "b"]
    assert list(table.to_batches()) == []
    assert table.count() == 0


@on_every_pair
def test_append_and_read(sales: lakebed.Table) -> None:
    assert ids(sales) == [1, 2, 3, 4]
    assert sales.to_arrow(["amount", "id"]).schema.names == ["amount", "id"]
    assert sales.version == 1


def test_append_empty_is_a_version(sales: lakebed.Table) -> None:
    sales.append(sales.schema.empty_table())
    assert sales.version == 2
    assert ids(sales) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("amount > 0", [1, 2]),
        ("region = 'eu'", [1, 4]),
        ("region is null", [3]),
        ("region <> 'eu'", [2]),
        ("not (region = 'eu')", [2]),
        ("amount is null or amount < 0", [3, 4]),
        ("region in ('us', 'xx')", [2]),
        ("id between 2 and 3", [2, 3]),
        ("region <=> null", [3]),
        ("false", []),
        (pc.field("region") == "eu", [1, 4]),
        (pc.field("amount").is_null(), [3]),
        (~(pc.field("region") == "eu"), [2]),
        (pc.field("id").isin([1, 3]), [1, 3]),
    ],
)
def test_predicates(sales: lakebed.Table, where: object, expected: list[int]) -> None:
    assert ids(sales, where) == expected
    assert sales.count(where) == len(expected)


def test_partition_and_statistics_prune_files(sales: lakebed.Table) -> None:
    assert sales.files().num_rows == 3
    assert sales.files("region = 'eu'").num_rows == 1
    assert sales.files("id > 100").num_rows == 0
    assert sales.files("amount is null").num_rows == 1


def test_inputs(lake: lakebed.Warehouse) -> None:
    import pandas as pd

    rows = pa.table({"id": [1, 2], "name": ["a", None]})
    table = lake.create_table("inputs", "id BIGINT, name STRING")

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return rows.__arrow_c_stream__(requested_schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()

    for data in (
        rows,
        rows.to_batches()[0],
        rows.to_reader(),
        pl.from_arrow(rows),
        pl.from_arrow(rows).lazy(),
        pd.DataFrame({"id": [1, 2], "name": ["a", None]}),
        rows.to_pylist(),
        Stream(),
        batches(),
    ):
        before = table.count()
        table.append(data)
        assert table.count() == before + 2
    assert set(table.to_arrow()["name"].to_pylist()) == {"a", None}


def test_outputs(sales: lakebed.Table) -> None:
    arrow = sales.to_arrow(where="id = 1")
    assert arrow.to_pylist() == [{"id": 1, "region": "eu", "amount": 10.0}]
    assert sales.to_polars(where="id = 1").to_dicts() == arrow.to_pylist()
    assert sales.to_pandas(where="id = 1").to_dict("records") == arrow.to_pylist()
    assert sum(b.num_rows for b in sales.to_batches()) == 4


def test_every_type_comes_back(lake: lakebed.Warehouse) -> None:
    schema = pa.schema(
        [
            pa.field("i8", pa.int8()),
            pa.field("i16", pa.int16()),
            pa.field("i32", pa.int32()),
            pa.field("i64", pa.int64(), nullable=False),
            pa.field("f", pa.float32()),
            pa.field("d", pa.float64()),
            pa.field("b", pa.bool_()),
            pa.field("s", pa.string()),
            pa.field("bin", pa.binary()),
            pa.field("date", pa.date32()),
            pa.field("ts", pa.timestamp("us", "UTC")),
            pa.field("ntz", pa.timestamp("us")),
            pa.field("dec", pa.decimal128(38, 10)),
            pa.field("st", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.list_(pa.string()))])),
            pa.field("l", pa.list_(pa.struct([pa.field("z", pa.date32())]))),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ]
    )
    moment = dt.datetime(2026, 11, 15, 12, 30, 0, 123456)
    full = {
        "i8": -128,
        "i16": 32767,
        "i32": -(2**31),
        "i64": 2**63 - 1,
        "f": 0.5,
        "d": float("inf"),
        "b": True,
        "s": "żółw 🐢",
        "bin": b"\x00\xff",
        "date": dt.date(1, 1, 1),
        "ts": moment.replace(tzinfo=dt.UTC),
        "ntz": moment,
        "dec": Decimal("-1234567890123456789012345678.0123456789"),
        "st": {"x": None, "y": ["a", None]},
        "l": [{"z": dt.date(9999, 12, 31)}, None],
        "m": [("k", [1, None]), ("", None)],
    }
    empty = dict.fromkeys(full) | {"i64": 0}
    table = lake.create_table("types", schema)
    table.append(pa.Table.from_pylist([full, empty], schema))
    assert table.schema.equals(schema)
    assert table.to_arrow().to_pylist() == pa.Table.from_pylist([full, empty], schema).to_pylist()


def test_timestamps_of_any_zone_are_instants(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("times", "at TIMESTAMP")
    moment = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    table.append(pa.table({"at": pa.array([moment], pa.timestamp("ns", "Asia/Karachi"))}))
    assert table.to_arrow()["at"].to_pylist() == [moment.astimezone(dt.UTC)]


def test_partitions_of_every_type(lake: lakebed.Warehouse) -> None:
    values = {
        "i": pa.array([-5, None], pa.int32()),
        "s": pa.array(["a/b =%ü", None], pa.string()),
        "d": pa.array([dt.date(2026, 1, 1), None], pa.date32()),
        "b": pa.array([True, None], pa.bool_()),
        "dec": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "ts": pa.array([dt.datetime(2026, 1, 1, 1, 2, 3, 4, dt.UTC), None], pa.timestamp("us", "UTC")),
        "f": pa.array([0.1, None], pa.float64()),
    }
    rows = pa.table({"n": pa.array([1, 2]), **values})
    table = lake.create_table("parts", rows.schema, partition_by=list(values))
    table.append(rows)
    found = table.to_arrow().sort_by("n").to_pylist()
    assert found == rows.to_pylist()
    assert table.to_arrow(where="i = -5 and b and d = '2026-01-01' and dec = 1.5").num_rows == 1
    assert lakebed.read_delta(table.location, **_options(table)).to_arrow().sort_by("n").to_pylist() == found


def _options(table: lakebed.Table) -> dict[str, object]:
    """The storage options of a test's table, for calls that have no warehouse."""
    options = table._options
    found = {
        "s3_endpoint": options.s3_endpoint,
        "s3_region": options.s3_region,
        "s3_access_key": options.s3_access_key,
        "s3_secret_key": options.s3_secret_key,
        "s3_path_style": options.s3_path_style,
    }
    return {name: value for name, value in found.items() if value is not None}


def test_overwrite_all(sales: lakebed.Table) -> None:
    sales.overwrite([{"id": 9, "region": "us", "amount": 1.0}])
    assert ids(sales) == [9]
    assert ids(sales.at(version=1)) == [1, 2, 3, 4]


def test_overwrite_by_predicate(sales: lakebed.Table) -> None:
    sales.overwrite([{"id": 9, "region": "eu", "amount": 1.0}], where="region = 'eu'")
    assert ids(sales) == [2, 3, 9]


def test_overwrite_by_predicate_on_data_column(sales: lakebed.Table) -> None:
    sales.overwrite([{"id": 9, "region": "eu", "amount": -1.0}], where="amount < 0")
    assert ids(sales) == [1, 2, 3, 9]


def test_overwrite_refuses_rows_outside(sales: lakebed.Table) -> None:
    with pytest.raises(DataError, match="do not satisfy"):
        sales.overwrite([{"id": 9, "region": "us", "amount": 1.0}], where="region = 'eu'")
    assert ids(sales) == [1, 2, 3, 4]
    assert sales.version == 1


def test_overwrite_dynamic(sales: lakebed.Table) -> None:
    rows = [{"id": 8, "region": None, "amount": 1.0}, {"id": 9, "region": "us", "amount": 1.0}]
    sales.overwrite(rows, where="dynamic")
    assert ids(sales) == [1, 4, 8, 9]


def test_delete_by_predicate(sales: lakebed.Table) -> None:
    commit = sales.delete("amount < 0")
    assert commit.metrics["numDeletedRows"] == 1
    assert ids(sales) == [1, 2, 3]
    assert sum(sales.files()["dead_rows"].to_pylist()) == 1


def test_delete_whole_partition_removes_files(sales: lakebed.Table) -> None:
    sales.delete("region = 'eu'")
    assert sales.files().num_rows == 2
    sales.delete("true")
    assert sales.files().num_rows == 0


def test_delete_again_in_the_same_file(sales: lakebed.Table) -> None:
    sales.delete("id = 1")
    sales.delete("id = 4")
    assert ids(sales) == [2, 3]
    assert sales.files().num_rows == 2


def test_delete_nothing_is_a_version_without_files(sales: lakebed.Table) -> None:
    before = sales.files().to_pylist()
    assert sales.delete("id = 77").metrics["numDeletedRows"] == 0
    assert sales.files().to_pylist() == before


def test_time_travel(sales: lakebed.Table) -> None:
    first = sales.history()[0]
    sales.append([{"id": 5}])
    assert ids(sales.at(version=1)) == [1, 2, 3, 4]
    assert ids(sales.at(timestamp=first.timestamp)) == [1, 2, 3, 4]
    assert sales.at(timestamp=first.timestamp.isoformat()).version == 1
    assert sales.at(timestamp=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).version == 2
    with pytest.raises(NotFoundError, match="0 to 2"):
        sales.at(version=3)
    with pytest.raises(NotFoundError):
        sales.at(timestamp="1999-01-01")
    with pytest.raises(InputError, match="version"):
        sales.at()


def test_history(sales: lakebed.Table) -> None:
    sales.delete("id = 1")
    newest, middle, oldest = sales.history()
    assert [c.operation for c in (oldest, middle, newest)] == ["create", "append", "delete"]
    assert newest.timestamp > middle.timestamp > oldest.timestamp
    assert newest.parameters["predicate"]
    assert len(sales.history(limit=1)) == 1


def test_restore(sales: lakebed.Table) -> None:
    sales.delete("id < 3")
    sales.alter(rename={"amount": "money"}, add={"note": "STRING"})
    sales.append([{"id": 5, "note": "x"}])
    sales.restore(version=1)
    assert sales.schema.names == ["id", "region", "amount"]
    assert ids(sales) == [1, 2, 3, 4]
    assert sales.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "region": "eu", "amount": 10.0}]
    sales.append([{"id": 6, "region": "eu", "amount": 6.0}])
    assert ids(sales) == [1, 2, 3, 4, 6]


def test_tags(sales: lakebed.Table) -> None:
    sales.tag("before", retain="30 days")
    sales.delete("true")
    assert ids(sales.at(tag="before")) == [1, 2, 3, 4]
    (tag,) = sales.tags()
    assert tag.retain_until is not None
    assert tag.retain_until - tag.created >= dt.timedelta(days=29)
    sales.delete_tag("before")
    with pytest.raises(NotFoundError):
        sales.at(tag="before")


def test_evolve_add_drop_rename_reorder_widen(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("e", "a INT, b FLOAT, c STRING, d DECIMAL(5,2), e DATE")
    table.append([{"a": 1, "b": 0.5, "c": "x", "d": Decimal("1.25"), "e": dt.date(2026, 1, 2)}])
    table.alter(widen={"a": "BIGINT", "b": "DOUBLE", "d": "DECIMAL(10,4)", "e": "TIMESTAMP_NTZ"})
    table.alter(rename={"c": "text"}, add={"f": pa.int64()}, move={"text": "first"})
    table.append([{"text": "y", "a": 2**40, "f": 7}])
    table.alter(drop=["f"])
    table.alter(add={"f": "STRING"})
    assert table.schema.names == ["text", "a", "b", "d", "e", "f"]
    found = sorted(table.to_arrow().to_pylist(), key=lambda r: r["text"])
    assert found[0] == {
        "text": "x",
        "a": 1,
        "b": 0.5,
        "d": Decimal("1.2500"),
        "e": dt.datetime(2026, 1, 2),
        "f": None,
    }
    assert found[1]["a"] == 2**40
    assert found[1]["f"] is None
    assert table.at(version=1).schema.names == ["a", "b", "c", "d", "e"]
    assert table.to_arrow(where="a = 1 and d = 1.25 and e < timestamp_ntz'2026-01-03 00:00:00'").num_rows == 1


def test_evolve_nested(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("n", "s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<k: INT>>, m MAP<STRING, INT>")
    table.append([{"s": {"a": 1, "b": "x"}, "l": [{"k": 1}], "m": [("q", 1)]}])
    table.alter(
        add={"s.c": "DATE", "l.element.j": "STRING"},
        widen={"s.a": "BIGINT", "m.value": "BIGINT"},
        rename={"s.b": "bb", "l.element.k": "kk"},
    )
    table.append(
        [{"s": {"a": 2**40, "bb": "y", "c": dt.date(2026, 1, 1)}, "l": [{"kk": 2, "j": "z"}], "m": [("r", 2**40)]}]
    )
    old, new = sorted(table.to_arrow().to_pylist(), key=lambda r: r["s"]["a"])
    assert old == {"s": {"a": 1, "bb": "x", "c": None}, "l": [{"kk": 1, "j": None}], "m": [("q", 1)]}
    assert new["m"] == [("r", 2**40)]
    table.alter(drop=["s.bb"])
    assert set(table.to_arrow()["s"][0].as_py()) == {"a", "c"}


def test_nullability(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("n", "a INT NOT NULL, b INT")
    table.append([{"a": 1, "b": None}])
    with pytest.raises(DataError, match="null"):
        table.alter(nullable={"b": False})
    table.alter(nullable={"a": True})
    table.append([{"a": None, "b": 2}])
    table.delete("b is null or a is null")
    table.alter(nullable={"b": False})
    with pytest.raises(DataError, match="b"):
        table.append([{"a": 1, "b": None}])


def test_rename_partition_column(sales: lakebed.Table) -> None:
    sales.alter(rename={"region": "area"})
    assert sales.partition_by == ("area",)
    sales.append([{"id": 7, "area": "eu"}])
    assert ids(sales, "area = 'eu'") == [1, 4, 7]


def test_comments_and_properties(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("c", "a INT COMMENT 'first'", comment="all of it", properties={"team.owner": "ann"})
    assert table.comment == "all of it"
    assert table.properties == {"team.owner": "ann"}
    table.alter(comments={"a": "changed"}, comment="less", properties={"team.owner": None, "checkpoint-interval": 7})
    assert table.comment == "less"
    assert table.properties == {"checkpoint-interval": "7"}
    assert table.schema.field("a").metadata[b"comment"] == b"changed"


def test_append_only(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("ao", "a INT", properties={"append-only": True})
    table.append([{"a": 1}])
    for call in (lambda: table.delete("a = 1"), lambda: table.overwrite([{"a": 2}]), lambda: table.restore(0)):
        with pytest.raises(InputError, match="append-only"):
            call()
    assert table.version == 1


def test_repeated_transaction_is_written_once(sales: lakebed.Table) -> None:
    first = sales.append([{"id": 5}], txn=("job", 3))
    again = sales.append([{"id": 5}], txn=("job", 3))
    older = sales.append([{"id": 6}], txn=("job", 2))
    assert (first.repeated, again.repeated, older.repeated) == (False, True, True)
    assert again.version == first.version
    assert ids(sales) == [1, 2, 3, 4, 5]
    assert sales.transactions() == {"job": 3}


@on_every_pair
def test_transaction_over_namespaces(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    lake.create_namespace("audit")
    log = lake.create_table("audit.log", "what STRING")
    with lake.transaction() as tx:
        tx.table("sales").delete("id = 1")
        tx.table("audit.log").append([{"what": "deleted 1"}])
        sales.append([{"id": 50}])
        assert ids(tx.table("sales")) == [2, 3, 4]
        assert tx.table("audit.log").count() == 1
        assert log.count() == 0
    assert tx.versions == {"default.sales": 3, "audit.log": 1}
    assert ids(sales) == [2, 3, 4, 50]


def test_transaction_is_all_or_nothing(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    other = lake.create_table("other", "id BIGINT")
    with pytest.raises(ConflictError, match=r"default\.sales.*version 2"), lake.transaction() as tx:
        tx.table("other").append([{"id": 1}])
        tx.table("sales").delete("id >= 1")
        sales.append([{"id": 50}])
    assert other.count() == 0
    assert other.version == 0
    assert ids(sales) == [1, 2, 3, 4, 50]


def test_transaction_reads_one_state(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    other = lake.create_table("other", "id BIGINT")
    with lake.transaction() as tx:
        sales.append([{"id": 50}])
        other.append([{"id": 1}])
        assert tx.table("sales").count() == 4
        assert tx.table("other").count() == 0
    assert tx.versions == {}


def test_failed_operation_in_transaction_leaves_it_usable(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    with lake.transaction() as tx:
        table = tx.table("sales")
        table.append([{"id": 60}])
        with pytest.raises(DataError):
            table.append([{"id": None}])
        with pytest.raises(SchemaError):
            table.alter(drop=["nothing"])
    assert ids(sales) == [1, 2, 3, 4, 60]


def test_append_then_overwrite_in_one_transaction(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    with lake.transaction() as tx:
        table = tx.table("sales")
        table.append([{"id": 70, "region": "eu"}])
        table.overwrite([{"id": 71, "region": "eu"}])
        table.alter(add={"note": "STRING"})
        table.append([{"id": 72, "note": "n"}])
    assert ids(sales) == [71, 72]
    assert sales.version == 2
    assert len(_parquet_files(sales)) == sales.files().num_rows + 3


def _parquet_files(table: lakebed.Table) -> list[str]:
    return [f.path for f in table._store.list() if f.path.endswith(".parquet") and "_delta_log" not in f.path]


def test_namespaces(lake: lakebed.Warehouse) -> None:
    lake.create_namespace("shop", {"owner": "ann"})
    assert lake.namespaces() == ["default", "shop"]
    assert lake.namespace_properties("shop") == {"owner": "ann"}
    lake.create_table("shop.a", "x INT")
    with pytest.raises(InputError, match=r"shop.*a"):
        lake.drop_namespace("shop")
    lake.drop_table("shop.a", purge=True)
    lake.drop_namespace("shop")
    assert lake.namespaces() == ["default"]


def test_rename_and_drop_table(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    lake.create_namespace("shop")
    lake.rename_table("sales", "shop.orders")
    assert lake.tables() == []
    assert ids(lake.table("shop.orders")) == [1, 2, 3, 4]
    lake.drop_table("shop.orders")
    assert ids(lakebed.read_delta(sales.location, **_options(sales))) == [1, 2, 3, 4]
    back = lake.register("again", sales.location)
    assert ids(back) == [1, 2, 3, 4]
    lake.drop_table("again", purge=True)
    assert list(sales._store.list()) == []


@on_every_pair
def test_reopen(place: object, sales: lakebed.Table) -> None:
    with place.connect() as other:  # type: ignore[attr-defined]
        assert ids(other.table("sales")) == [1, 2, 3, 4]
        other.table("sales").append([{"id": 5}])
    assert ids(sales) == [1, 2, 3, 4, 5]


def test_streamed_batches_are_small(lake: lakebed.Warehouse) -> None:
    table = lake.create_table("big", "n BIGINT")
    table.append(pa.table({"n": pa.array(range(50_000))}))
    sizes = [b.num_rows for b in table.to_batches()]
    assert sum(sizes) == 50_000
    assert max(sizes) <= 8192


@on_every_pair
def test_failed_write_leaves_no_file(sales: lakebed.Table) -> None:
    before = {f.path for f in sales._store.list()}

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([1, 2]), "region": pa.array(["eu", "new"])})
        yield pa.record_batch({"id": pa.array([3, None]), "region": pa.array(["eu", "us"])})

    with pytest.raises(DataError, match="id"):
        sales.append(batches())
    assert {f.path for f in sales._store.list()} == before
    assert sales.version == 1


@on_every_pair
def test_drop_keeps_every_commit_in_the_log(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    (newest,) = sales.history(limit=1)
    assert newest.published
    lake._metastore.commit([_prepared(sales)])
    lake.drop_table("sales")
    assert lakebed.read_delta(sales.location, **_options(sales)).version == newest.version + 1


def _prepared(table: lakebed.Table) -> Any:
    """A commit that lands, but is not published."""
    from lakebed.core.commit import Claim, Kind
    from lakebed.engine.draft import Draft

    draft = Draft(table._handle, table._state())
    draft.claims.append(Claim(Kind.APPEND))
    return draft.prepare()


def test_create_refuses_a_place_with_other_files(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    lake.drop_table("sales", purge=True)
    sales._store.put("mine.txt", b"precious")
    with pytest.raises(lakebed.AlreadyExistsError, match="not empty"):
        lake.create_table("sales", "id BIGINT")
    assert sales._store.read("mine.txt") == b"precious"


def test_rename_to_the_same_name_changes_nothing(lake: lakebed.Warehouse, sales: lakebed.Table) -> None:
    lake.rename_table("sales", "default.sales")
    assert sales.version == 1
