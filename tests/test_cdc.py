"""Change messages into tables, end to end: out of order, doubled, with new columns."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from cdc_messages import Source, debezium, maxwell

import lakebed
from lakebed import cdc

FORMATS = ("debezium", "maxwell", "canal")
DDL = "id INT, name STRING, amount BIGINT, _position STRING"


def table_of(lake: lakebed.Warehouse, **more: Any) -> lakebed.Table:
    given = {"primary_key": ["id"], "sequence": ["_position"], "buckets": 2, **more}
    return lake.create_table("t", DDL, **given)


def rows(table: lakebed.Table) -> dict[int, dict[str, Any]]:
    found = table.to_arrow().drop_columns("_position").to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "merge", ["on-write", *(pytest.param(merge, marks=pytest.mark.soak) for merge in ("on-read", "copy-on-write"))]
)
def test_messages_out_of_order_and_doubled(local_lake: lakebed.Warehouse, format: str, merge: str) -> None:
    source = Source(format, random.Random(f"{format} {merge}"))
    table = table_of(local_lake, merge=merge)
    for _ in range(200):
        source.change()
    sent = source.sent()
    for at in range(0, len(sent), 40):
        table.upsert(cdc.parse(sent[at : at + 40], format, table), row_kind=cdc.ROW_KIND)
    assert rows(table) == source.rows
    table.compact(full=True)
    assert rows(table) == source.rows
    # All of it once more, as after a consumer that was set back.
    table.upsert(cdc.parse(sent, format, table), row_kind=cdc.ROW_KIND)
    assert rows(table) == source.rows


@pytest.mark.parametrize("format", FORMATS)
def test_without_a_sequence_the_position_orders_a_batch(local_lake: lakebed.Warehouse, format: str) -> None:
    source = Source(format, random.Random(format))
    table = local_lake.create_table("t", "id INT, name STRING, amount BIGINT", primary_key=["id"])
    for _ in range(4):
        before = len(source.messages)
        for _ in range(30):
            source.change()
        batch = source.messages[before:]
        source.chance.shuffle(batch)
        table.upsert(cdc.parse(batch, format, table), row_kind=cdc.ROW_KIND, sort_by=cdc.POSITION)
        assert {row["id"]: row for row in table.to_arrow().to_pylist()} == source.rows


@pytest.mark.parametrize("format", FORMATS)
def test_new_columns_are_added_to_the_table(local_lake: lakebed.Warehouse, format: str) -> None:
    source = Source(format, random.Random(format))
    table = table_of(local_lake)
    for _ in range(30):
        source.change()
    source.columns.append("note")
    for _ in range(30):
        source.change()
    sent = source.sent()
    with pytest.raises(lakebed.DataError, match="column 'note' is not one of the table"):
        cdc.parse(sent, format, table)
    found = cdc.parse(sent, format, table, new_columns="add")
    table.upsert(found, row_kind=cdc.ROW_KIND, merge_schema=True)
    assert table.schema.names == ["id", "name", "amount", "_position", "note"]
    expected = {key: {"note": None, **row} for key, row in source.rows.items()}
    assert {key: row["note"] for key, row in rows(table).items()} == {key: row["note"] for key, row in expected.items()}
    assert rows(table) == expected
    left_out = cdc.parse(sent, format, DDL, new_columns="ignore")
    assert left_out.schema.names == ["id", "name", "amount", "_row_kind", "_position"]


def test_sums_of_a_source_that_sends_images_before(local_lake: lakebed.Warehouse) -> None:
    """What an update takes back is its image before: a sum is right after updates and deletes."""
    table = local_lake.create_table(
        "t", "k INT, total BIGINT", primary_key=["k"], merge_engine="aggregation",
        properties={"fields.total.aggregate-function": "sum"},
    )  # fmt: skip
    messages = [
        maxwell("insert", {"k": 1, "total": 5}),
        maxwell("update", {"k": 1, "total": 7}, {"total": 5}),
        maxwell("insert", {"k": 1, "total": 1}),
        maxwell("delete", {"k": 1, "total": 1}),
    ]
    table.upsert(
        cdc.parse(messages, "maxwell", table, before_images=True).drop_columns(cdc.POSITION), row_kind=cdc.ROW_KIND
    )
    assert table.to_arrow().to_pylist() == [{"k": 1, "total": 7}]


def test_values_that_postgres_leaves_out_are_kept_by_partial_updates(local_lake: lakebed.Warehouse) -> None:
    table = table_of(local_lake, merge_engine="partial-update")
    given = [
        debezium("c", None, {"id": 1, "name": "large", "amount": 1}, lsn=1),
        debezium("u", None, {"id": 1, "name": "__debezium_unavailable_value", "amount": 2}, lsn=2),
    ]
    table.upsert(cdc.parse(given, "debezium", table), row_kind=cdc.ROW_KIND)
    assert rows(table) == {1: {"id": 1, "name": "large", "amount": 2}}


def test_kinds_of_messages() -> None:
    """Text and bytes, arrays and tables; nothing at all; more than one batch."""
    text = maxwell("insert", {"id": 1})
    given = [
        [text, None], [text.encode()], pa.array([text]), pa.chunked_array([[text], [None]]),
        pa.table({"value": [text]}),
        pa.record_batch({"value": [text.encode()]}),
    ]  # fmt: skip
    for messages in given:
        assert cdc.parse(messages, "maxwell", "id INT").column("id").to_pylist() == [1]
    for nothing in ([], [None], pa.array([], pa.string()), pa.table({"value": pa.nulls(2)})):
        assert cdc.parse(nothing, "maxwell", "id INT").num_rows == 0
    many = [maxwell("insert", {"id": n}) for n in range(25_000)]
    assert cdc.parse(many, "maxwell", "id INT").column("id").to_pylist() == list(range(25_000))
    not_text = cdc.parse([b"\xff", text.encode()], "maxwell", "id INT", malformed="aside")
    assert not_text.select(["id", "_malformed"]).to_pylist() == [
        {"id": 1, "_malformed": None},
        {"id": None, "_malformed": "it is not UTF-8"},
    ]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": "avro"}, "one of debezium, maxwell, canal; found 'avro'"),
    "new columns": ({"new_columns": "drop"}, "one of refuse, ignore, add"),
    "malformed": ({"malformed": "skip"}, "one of fail, aside"),
    "order": ({"source": cdc.Source(order="offset")}, "one of position, time"),
    "timestamps": ({"source": cdc.Source(timestamps="seconds")}, "one of millis, micros, nanos"),
    "decimals": ({"source": cdc.Source(decimals="hex")}, "one of text, base64"),
    "zone": ({"source": cdc.Source(time_zone="Mars")}, "time_zone= is no time zone"),
    "key": ({"primary_key": ["di"]}, "names a column 'di' that there is not; expected one of id"),
    "column": ({"messages": pa.table({"v": ["{}"]})}, "there is no column 'value' of messages; expected one of v"),
    "numbers": ({"messages": [1, 2]}, "expected a column of text or bytes; found int64"),
    "nothing": ({"messages": 5}, "these are no change messages"),
    "schema": ({"schema": 5}, "this is no schema"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case: str) -> None:
    given, message = WRONG[case]
    with pytest.raises(lakebed.InputError, match=message):
        cdc.parse(**{"messages": ["{}"], "format": "debezium", "schema": "id INT", **given})
