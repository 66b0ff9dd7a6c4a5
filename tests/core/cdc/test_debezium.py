"""Debezium's messages: operations, images, positions, and every logical type."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from cdc_messages import CUSTOMERS, debezium

import lakebed
from lakebed import cdc

DDL = "id INT, first_name STRING, email STRING"
ANNE = {"id": 1004, "first_name": "Anne", "email": "annek@noanswer.org"}
MARIE = {**ANNE, "first_name": "Anne Marie"}


def told(messages: list[str | None], ddl: str = DDL, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    rows = cdc.parse(messages, "debezium", ddl, primary_key=["id"], **options)
    names = columns or ("_row_kind", "id", "first_name")
    return [tuple(row[name] for name in names) for row in rows.to_pylist()]


@pytest.mark.parametrize("fields", [None, CUSTOMERS], ids=["without schema", "with schema"])
def test_operations(fields: Any) -> None:
    messages = [
        debezium("c", None, ANNE, fields),
        debezium("u", ANNE, MARIE, fields, pos=500),
        debezium("d", MARIE, None, fields, pos=600),
        None,  # the tombstone that follows a delete
        debezium("r", None, ANNE, fields, snapshot="true"),
    ]
    assert told(messages) == [
        ("+I", 1004, "Anne"), ("+U", 1004, "Anne Marie"), ("-D", 1004, "Anne Marie"), ("+I", 1004, "Anne"),
    ]  # fmt: skip
    assert told(messages[1:2], before_images=True) == [("-U", 1004, "Anne"), ("+U", 1004, "Anne Marie")]


def test_what_tells_of_no_row_is_passed_over() -> None:
    passed = [
        json.dumps({"schema": None, "payload": None}),  # a tombstone with schemas
        json.dumps({"ts_ms": 1465491411568}),  # a heartbeat
        json.dumps({"status": "BEGIN", "id": "571:53195829", "ts_ms": 1486500577125, "event_count": None}),
        json.dumps({"source": {"file": "b.1"}, "databaseName": "inventory", "ddl": "ALTER TABLE t ADD c INT"}),
        debezium("m", lsn=46523128),
        debezium("c", None, ANNE, table="addresses"),
    ]
    assert told([*passed, debezium("c", None, ANNE)], source="inventory.customers") == [("+I", 1004, "Anne")]
    assert told([debezium("c", None, ANNE, lsn=1)], source="public.customers") == [("+I", 1004, "Anne")]


def test_a_row_whose_key_changes() -> None:
    """Debezium sends a delete and a create; other writers of its format one update."""
    moved = {**ANNE, "id": 7}
    assert told([debezium("u", ANNE, moved)]) == [("-D", 1004, "Anne"), ("+U", 7, "Anne")]
    sent = [debezium("d", ANNE, None), None, debezium("c", None, moved)]
    assert told(sent) == [("-D", 1004, "Anne"), ("+I", 7, "Anne")]
    # An update of PostgreSQL with the default replica identity has no image before.
    assert told([debezium("u", None, moved, lsn=5)]) == [("+U", 7, "Anne")]


POSITIONS = {
    "mysql": [
        {"file": "mysql-bin.000003", "pos": 99}, {"file": "mysql-bin.000003", "pos": 484, "row": 0},
        {"file": "mysql-bin.000003", "pos": 484, "row": 2}, {"file": "mysql-bin.000003", "pos": 484, "row": 10},
        {"file": "mysql-bin.000010", "pos": 4}, {"file": "mysql-bin.1000000", "pos": 4},
    ],
    "postgres": [{"lsn": 99}, {"lsn": 24023128}, {"lsn": 110240231280}],
    "sqlserver": [
        {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": None, "event_serial_no": None},
        {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000758:0003", "event_serial_no": 1},
        {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2},
        {"commit_lsn": "00000027:00000d00:0002", "change_lsn": "00000027:00000758:0001", "event_serial_no": 1},
    ],
    "oracle": [{"scn": "999"}, {"scn": "1513734", "ssn": 0}, {"scn": "1513734", "ssn": 1}],
    "time only": [{"ts_ms": 5}, {"ts_ms": 1465491411000}],
}  # fmt: skip


@pytest.mark.parametrize("connector", POSITIONS)
def test_positions_compare_as_places_in_the_log_do(connector: str) -> None:
    """Hudi's text of file and position is not padded, so that place 99 comes after place 484."""
    sources = POSITIONS[connector]
    messages = [json.dumps({"op": "c", "after": ANNE, "source": source}) for source in sources]
    positions = [position for (position,) in told(messages, DDL, "_position")]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(sources)


def test_times_of_mysql_may_go_back_in_the_log() -> None:
    """A statement that waited for a lock is told with the time at which it began."""
    first, second = debezium("c", None, ANNE, pos=1, ts_ns=9), debezium("u", ANNE, MARIE, pos=2, ts_ns=8)
    by_place = [position for (position,) in told([first, second], DDL, "_position")]
    by_time = [position for (position,) in told([first, second], DDL, "_position", source=cdc.Source(order="time"))]
    assert by_place == sorted(by_place)
    assert by_time == sorted(by_time, reverse=True)


def field(name: str, type: str, meaning: str | None = None, **parameters: str) -> dict[str, Any]:
    made: dict[str, Any] = {"field": name, "type": type, "optional": True}
    return (
        made | ({"name": meaning, "version": 1} if meaning else {}) | ({"parameters": parameters} if parameters else {})
    )


def b64(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


NOON = dt.datetime(2018, 6, 20, 15, 13, 16, 945104)
DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
# What the column is declared as, the value in the message, the table's type, the value in the table.
VALUES: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "boolean": (field("v", "boolean"), True, "BOOLEAN", True),
    "tinyint(1)": (field("v", "int16"), 1, "BOOLEAN", True),
    "int16": (field("v", "int16"), -3, "SMALLINT", -3),
    "int64": (field("v", "int64"), 2**62, "BIGINT", 2**62),
    "float": (field("v", "float"), 5.25, "FLOAT", 5.25),
    "double": (field("v", "double"), 0.1, "DOUBLE", 0.1),
    "double without a point": (field("v", "double"), 3, "DOUBLE", 3.0),
    "text": (field("v", "string"), "é\U0001f600", "STRING", "é\U0001f600"),
    "date": (field("v", "int32", DEBEZIUM + "Date"), 17702, "DATE", NOON.date()),
    "date before 1970": (field("v", "int32", CONNECT + "Date"), -1, "DATE", dt.date(1969, 12, 31)),
    "date as text": (field("v", "int32", DEBEZIUM + "Date"), 17702, "STRING", "2018-06-20"),
    "millis": (field("v", "int64", DEBEZIUM + "Timestamp"), 1529507596945, "TIMESTAMP_NTZ",
               NOON.replace(microsecond=945000)),
    "micros": (field("v", "int64", DEBEZIUM + "MicroTimestamp"), 1529507596945104, "TIMESTAMP_NTZ", NOON),
    "nanos": (field("v", "int64", DEBEZIUM + "NanoTimestamp"), 1529507596945104999, "TIMESTAMP_NTZ", NOON),
    "nanos before 1970": (field("v", "int64", DEBEZIUM + "NanoTimestamp"), -1, "TIMESTAMP_NTZ",
                          dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    "connect": (field("v", "int64", CONNECT + "Timestamp"), 1529507596945, "TIMESTAMP",
                NOON.replace(microsecond=945000, tzinfo=dt.UTC)),
    "zoned": (field("v", "string", DEBEZIUM + "ZonedTimestamp"), "2018-06-20T15:13:16.945104Z", "TIMESTAMP",
              NOON.replace(tzinfo=dt.UTC)),
    "zoned, offset": (field("v", "string", DEBEZIUM + "ZonedTimestamp"), "2018-06-20T17:13:16.945104+02:00",
                      "TIMESTAMP", NOON.replace(tzinfo=dt.UTC)),
    "time": (field("v", "int32", DEBEZIUM + "Time"), 37_000_001, "STRING", "10:16:40.001000"),
    "micro time": (field("v", "int64", DEBEZIUM + "MicroTime"), -3_020_399_000_000, "STRING", "-838:59:59"),
    "time as a number": (field("v", "int64", DEBEZIUM + "MicroTime"), 5, "BIGINT", 5),
    "bytes": (field("v", "bytes"), "AP9h", "BINARY", b"\x00\xffa"),
    "bits": (field("v", "bytes", "io.debezium.data.Bits", length="9"), "gwE=", "BINARY", b"\x83\x01"),
    "decimal": (field("v", "bytes", CONNECT + "Decimal", scale="2"), b64(12345, 2), "DECIMAL(10,2)", Decimal("123.45")),
    "decimal, negative": (field("v", "bytes", CONNECT + "Decimal", scale="2"), b64(-1, 1), "DECIMAL(10,2)",
                          Decimal("-0.01")),
    "decimal, large": (field("v", "bytes", CONNECT + "Decimal", scale="4"), b64(-(10**38) + 1, 16), "DECIMAL(38,4)",
                       Decimal("-" + 34 * "9" + ".9999")),
    "decimal as text": (field("v", "string"), "-0.10", "DECIMAL(10,2)", Decimal("-0.10")),
    "decimal as double": (field("v", "double"), 123.45, "DECIMAL(10,2)", Decimal("123.45")),
    "decimal, own scale": (field("v", "struct", "io.debezium.data.VariableScaleDecimal"),
                           {"scale": 3, "value": b64(-1500, 2)}, "DECIMAL(10,2)", Decimal("-1.50")),
    "decimal into text": (field("v", "bytes", CONNECT + "Decimal", scale="2"), b64(100, 1), "STRING", "1.00"),
    "json": (field("v", "string", "io.debezium.data.Json"), '{"a": [1]}', "STRING", '{"a": [1]}'),
    "uuid": (field("v", "string", "io.debezium.data.Uuid"), "a7b8", "STRING", "a7b8"),
    "year": (field("v", "int32", DEBEZIUM + "Year"), 2018, "INT", 2018),
    "array": (field("v", "array"), [1, None, 3], "ARRAY<INT>", [1, None, 3]),
    "map": (field("v", "map"), {"k": "v"}, "MAP<STRING, STRING>", [("k", "v")]),
    "point": (field("v", "struct", "io.debezium.data.geometry.Point"), {"x": 1.5, "y": 2},
              "STRUCT<x: DOUBLE, y: DOUBLE>", {"x": 1.5, "y": 2.0}),
    "null": (field("v", "bytes", CONNECT + "Decimal", scale="2"), None, "DECIMAL(10,2)", None),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_values(case: str) -> None:
    declared, value, kind, expected = VALUES[case]
    fields = (CUSTOMERS[0], declared)
    rows = [debezium("c", None, {"id": n, "v": one}, fields) for n, one in enumerate([None, value, value])]
    found = told(rows, f"id INT, v {kind}", "v")
    assert found == [(None,), (expected,), (expected,)]


# Without a schema the table's type tells, and for two kinds the caller.
BARE: dict[str, tuple[Any, str, dict[str, str], Any]] = {
    "date": (17702, "DATE", {}, NOON.date()),
    "millis": (1529507596945, "TIMESTAMP", {"timestamps": "millis"}, NOON.replace(microsecond=945000, tzinfo=dt.UTC)),
    "micros": (1529507596945104, "TIMESTAMP_NTZ", {"timestamps": "micros"}, NOON),
    "text": ("2018-06-20T15:13:16.945104Z", "TIMESTAMP", {}, NOON.replace(tzinfo=dt.UTC)),
    "local": (1529507596945104, "TIMESTAMP", {"timestamps": "micros", "time_zone": "Europe/Berlin"},
              NOON.replace(hour=13, tzinfo=dt.UTC)),
    "decimal, base64": (b64(1234, 3), "DECIMAL(10,2)", {"decimals": "base64"}, Decimal("12.34")),
    "decimal, text": ("1234", "DECIMAL(10,2)", {"decimals": "text"}, Decimal("1234.00")),
    "decimal, number": (12.34, "DECIMAL(10,2)", {"decimals": "text"}, Decimal("12.34")),
    "bytes": ("AP9h", "BINARY", {}, b"\x00\xffa"),
}  # fmt: skip


@pytest.mark.parametrize("case", BARE)
def test_values_without_a_schema(case: str) -> None:
    value, kind, options, expected = BARE[case]
    assert told(
        [debezium("c", None, {"id": 1, "v": value})], f"id INT, v {kind}", "v", source=cdc.Source(**options)
    ) == [(expected,)]


# What is never guessed, and what does not fit.
WRONG: dict[str, tuple[str, str, str]] = {
    "not JSON": ("{", DDL, "it is not JSON: Expecting property name"),
    "two in one": ('{"op": "m"}, {"op": "m"}', DDL, "it is not JSON: Extra data"),
    "a list": ("[]", DDL, "it is no object"),
    "no op": ("{}", DDL, "'op' is None; expected c \\(create\\)"),
    "unknown op": (debezium("x"), DDL, "'op' is 'x'"),
    "no image": (debezium("c"), DDL, "'after' is missing where the columns of a row were expected"),
    "no image before": (debezium("d"), DDL, "'before' is missing"),
    "truncated": (debezium("t"), DDL, "was truncated, which no row can tell"),
    "new column": (debezium("c", None, {**ANNE, "x": 1}), DDL, "column 'x' is not one of the table: pass new_columns="),
    "no key": (debezium("d", {"email": "x"}), DDL, "column 'id' of the primary key has no value"),
    "too large": (debezium("c", None, {"id": 2**40}), DDL, "column 'id' has 1099511627776: Integer value"),
    "not a number": (debezium("c", None, {"id": "x"}), DDL, "column 'id' has 'x': Failed to parse"),
    "unit": (debezium("c", None, {"id": 1, "v": 1}), "id INT, v TIMESTAMP", "pass timestamps='millis', 'micros'"),
    "decimal": (debezium("c", None, {"id": 1, "v": "1234"}), "id INT, v DECIMAL(9,2)", "pass decimals='text' or"),
    "cut": (
        debezium("c", None, {"id": 1, "v": "1.234"}, (CUSTOMERS[0], field("v", "string"))),
        "id INT, v DECIMAL(9,2)",
        "column 'v' has '1.234': Rescaling",
    ),
    "left out": (
        debezium("u", None, {"id": 1, "first_name": "__debezium_unavailable_value"}, lsn=1),
        DDL,
        "column 'first_name' has a value that the source left out: let .* REPLICA IDENTITY FULL",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_malformed_messages(case: str) -> None:
    message, ddl, why = WRONG[case]
    good = debezium("c", None, {"id": 5})
    with pytest.raises(lakebed.DataError, match=f"(?s){why}.*the message is .*malformed='aside'"):
        told([good, message], ddl)
    names = ("id", "_row_kind", "_message")
    put_aside = told([good, message, good], ddl, *names, malformed="aside")
    assert put_aside == [(5, "+I", None), (5, "+I", None), (None, None, message)]
    ((reason,),) = told([message], ddl, "_malformed", malformed="aside")
    assert reason is not None


def test_names_of_columns_differ_in_case() -> None:
    assert told([debezium("c", None, {"ID": 1, "FIRST_NAME": "x"})]) == [("+I", 1, "x")]
