"""The messages of Maxwell's daemon."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from cdc_messages import maxwell

import lakebed
from lakebed import cdc

DDL = "id INT, m DOUBLE, c TIMESTAMP, comment STRING"
ROW = {"id": 1, "m": 4.2341, "c": "2016-10-21 05:33:37.523000", "comment": "I am a creature of light."}
CHANGED = {**ROW, "m": 5.444, "c": "2016-10-21 05:33:54.631000"}
MOMENT = dt.datetime(2016, 10, 21, 5, 33, 37, 523000, dt.UTC)


def told(messages: list[str | None], ddl: str = DDL, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    rows = cdc.parse(messages, "maxwell", ddl, primary_key=["id"], **options)
    names = columns or ("_row_kind", "id", "m")
    return [tuple(row[name] for name in names) for row in rows.to_pylist()]


def test_operations() -> None:
    messages = [
        maxwell("insert", ROW),
        maxwell("update", CHANGED, {"m": 4.2341, "c": ROW["c"]}),
        maxwell("delete", CHANGED),
        maxwell("bootstrap-insert", ROW),
    ]
    assert told(messages) == [("+I", 1, 4.2341), ("+U", 1, 5.444), ("-D", 1, 5.444), ("+I", 1, 4.2341)]
    assert told(messages[1:2], before_images=True) == [("-U", 1, 4.2341), ("+U", 1, 5.444)]
    assert told(messages[:1], DDL, "c", "comment") == [(MOMENT, ROW["comment"])]


def test_a_row_whose_key_changes() -> None:
    moved = maxwell("update", {**ROW, "id": 2}, {"id": 1})
    assert told([moved]) == [("-D", 1, 4.2341), ("+U", 2, 4.2341)]


def test_what_tells_of_no_row_is_passed_over() -> None:
    passed = [
        json.dumps(
            {"type": "table-alter", "database": "test", "table": "e", "old": {}, "def": {}, "ts": 1477053308000}
        ),
        json.dumps({"type": "database-create", "database": "test"}),
        maxwell("bootstrap-start", {}),
        maxwell("bootstrap-complete", {}),
        maxwell("insert", ROW, table="other"),
    ]
    assert told([*passed, None, maxwell("insert", ROW)], source="test.e") == [("+I", 1, 4.2341)]


def test_positions() -> None:
    ordered = [
        maxwell("bootstrap-insert", ROW, position=None),  # what the log tells of the row counts
        maxwell("insert", ROW, position="master.000006:99", xoffset=0),
        maxwell("update", ROW, {}, position="master.000006:800911", xoffset=9),
        maxwell("update", ROW, {}, position="master.000006:800911", xoffset=10),
        maxwell("update", ROW, {}, position="master.000010:4", xoffset=0, ts=1),
    ]
    positions = [position for (position,) in told(ordered, DDL, "_position")]
    assert positions == sorted(positions)
    without = [maxwell("insert", ROW, position=None, ts=ts, xid=xid) for ts, xid in ((9, 7), (10, 3), (10, 20))]
    timed = [position for (position,) in told(without, DDL, "_position")]
    assert timed == sorted(timed)
    assert len({*positions, *timed}) == 8
    (late, early) = (position for (position,) in told(ordered[3:], DDL, "_position", source=cdc.Source(order="time")))
    assert early < late


VALUES: dict[str, tuple[Any, str, Any]] = {
    "blob": ("AP9h", "BINARY", b"\x00\xffa"),
    "decimal": (Decimal("12345678901234567890123456.789"), "DECIMAL(38,3)", Decimal("12345678901234567890123456.789")),
    "unsigned": (2**64 - 1, "DECIMAL(20,0)", Decimal(2**64 - 1)),
    "set": (["b_val", "c_val"], "STRING", '["b_val", "c_val"]'),
    "set as array": (["b_val", "c_val"], "ARRAY<STRING>", ["b_val", "c_val"]),
    "json": ({"a": [1, 2.5]}, "STRING", '{"a": [1, 2.5]}'),
    "no date": ("0000-00-00 00:00:00", "TIMESTAMP", None),
    "no day": ("0000-00-00", "DATE", None),
    "day": ("2016-10-21", "DATE", MOMENT.date()),
    "datetime": ("2016-10-21 05:33:37.523", "TIMESTAMP_NTZ", MOMENT.replace(tzinfo=None)),
    "null": (None, "BINARY", None),
}


@pytest.mark.parametrize("case", VALUES)
def test_values(case: str) -> None:
    value, kind, expected = VALUES[case]
    message = maxwell("insert", {"id": 1, "v": "@"}).replace('"@"', _json(value))
    assert told([message], f"id INT, v {kind}", "v") == [(expected,)]


def _json(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def test_local_times() -> None:
    berlin = told([maxwell("insert", ROW)], DDL, "c", source=cdc.Source(time_zone="Europe/Berlin"))
    assert berlin == [(MOMENT - dt.timedelta(hours=2),)]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("{}", "'type' is missing"),
        (maxwell("upsert", ROW), "'type' is 'upsert'; expected insert, update"),
        (json.dumps({"type": "insert"}), "'data' is missing"),
        (maxwell("insert", {"id": 1, "c": "2016-13-01 00:00:00"}), "column 'c' has '2016-13-01"),
    ],
)
def test_malformed_messages(message: str, why: str) -> None:
    with pytest.raises(lakebed.DataError, match=why):
        told([message])


def test_types_of_new_columns_are_those_of_their_values() -> None:
    rows = [{"id": 1, "n": 1, "x": 1, "t": "a", "b": True, "nothing": None}, {"id": 2, "x": 2.5, "b": 1, "s": ["a"]}]
    found = cdc.parse([maxwell("insert", row) for row in rows], "maxwell", "id INT", new_columns="add")
    assert {f.name: str(f.type) for f in found.schema if not f.name.startswith("_")} == {
        "id": "int32", "b": "string", "n": "int64", "s": "string", "t": "string", "x": "double",
    }  # fmt: skip
    assert found.to_pylist()[1]["x"] == 2.5
