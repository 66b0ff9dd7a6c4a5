"""Canal's flat messages, and those of TiCDC."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from cdc_messages import canal

import lakebed
from lakebed import cdc
from lakebed.core.cdc.mysql_types import type_named
from lakebed.core.schema_ddl import type_ddl

DDL = "id INT, name STRING, description STRING, weight FLOAT"
SCOOTER = {"id": "111", "name": "scooter", "description": "Big 2-wheel scooter", "weight": "5.15"}


def told(messages: list[str | None], ddl: str = DDL, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    rows = cdc.parse(messages, "canal", ddl, primary_key=["id"], **options)
    names = columns or ("_row_kind", "id", "weight")
    return [tuple(row[name] for name in names) for row in rows.to_pylist()]


def test_operations() -> None:
    changed = {**SCOOTER, "weight": "5.25"}
    messages = [
        canal("INSERT", [SCOOTER, {**SCOOTER, "id": "112", "weight": None}]),
        canal("UPDATE", [changed], [{"weight": "5.15"}]),
        canal("DELETE", [changed]),
    ]
    weight = pytest.approx(5.15)
    assert told(messages) == [("+I", 111, weight), ("+I", 112, None), ("+U", 111, 5.25), ("-D", 111, 5.25)]
    assert told(messages[1:2], before_images=True) == [("-U", 111, weight), ("+U", 111, 5.25)]


def test_a_row_whose_key_changes() -> None:
    rows = [{**SCOOTER, "id": "2"}, {**SCOOTER, "id": "1", "weight": "1"}]
    moved = canal("UPDATE", rows, [{"id": "1"}, {"id": "0", "weight": "2"}])
    assert [row[:2] for row in told([moved])] == [("-D", 1), ("+U", 2), ("-D", 0), ("+U", 1)]
    positions = [position for (position,) in told([moved], DDL, "_position")]
    assert positions == sorted(positions)
    # TiCDC tells all columns of the row before.
    same = canal("UPDATE", [SCOOTER], [{**SCOOTER, "weight": "4"}])
    assert [row[0] for row in told([same])] == ["+U"]


def test_what_tells_of_no_row_is_passed_over() -> None:
    passed = [
        canal("CREATE", None, isDdl=True, sql="create table t (id int)", mysqlType=None, sqlType=None),
        canal("ALTER", None, isDdl=True, sql="alter table t add c int", mysqlType=None, sqlType=None),
        canal("QUERY", None, database="inventory", table="", mysqlType=None, sqlType=None),
        canal("TIDB_WATERMARK", None, mysqlType=None, sqlType=None, _tidb={"watermarkTs": 429918007904436226}),
        canal("INSERT", [SCOOTER], table="other"),
    ]
    assert [row[:2] for row in told([*passed, None, canal("INSERT", [SCOOTER])], source="products")] == [("+I", 111)]


def test_positions() -> None:
    """The times of the source are seconds, and Canal counts anew when it is restarted."""
    ordered = [
        canal("INSERT", [SCOOTER], es=1589373560000, ts=1589373560798, id=9),
        canal("INSERT", [SCOOTER, SCOOTER], es=1589373560000, ts=1589373560798, id=10),
        canal("INSERT", [SCOOTER], es=1589373560000, ts=1589373570000, id=1),
        canal("INSERT", [SCOOTER], es=1589373561000, ts=1589373570000, id=1),
    ]
    positions = [position for (position,) in told(ordered, DDL, "_position")]
    assert positions == sorted(set(positions))
    tidb = [canal("INSERT", [SCOOTER], es=es, _tidb={"commitTs": commit}) for es, commit in ((9, 99), (8, 100))]
    commits = [position for (position,) in told(tidb, DDL, "_position")]
    assert commits == sorted(commits)


VALUES: dict[str, tuple[str | None, str, Any]] = {
    # The example of TiCDC's documentation.
    "binary": ("\x05\x07\n\x0f$2+cx<&ÿþ-7F", "BINARY",
               bytes([5, 7, 10, 15, 36, 50, 43, 99, 120, 60, 38, 255, 254, 45, 55, 70])),
    "bigint": ("9223372036854775807", "BIGINT", 2**63 - 1),
    "decimal": ("-12345678901234567890.12", "DECIMAL(38,2)", Decimal("-12345678901234567890.12")),
    "double": ("1.7976931348623157E308", "DOUBLE", 1.7976931348623157e308),
    "boolean": ("1", "BOOLEAN", True),
    "date": ("2020-05-13", "DATE", dt.date(2020, 5, 13)),
    "datetime": ("2020-05-13 12:39:20.5", "TIMESTAMP_NTZ", dt.datetime(2020, 5, 13, 12, 39, 20, 500000)),
    "timestamp": ("2020-05-13 12:39:20", "TIMESTAMP", dt.datetime(2020, 5, 13, 12, 39, 20, tzinfo=dt.UTC)),
    "no date": ("0000-00-00 00:00:00", "TIMESTAMP_NTZ", None),
    "time": ("12:39:20", "STRING", "12:39:20"),
    "json": ('{"a": 1}', "STRING", '{"a": 1}'),
    "json, read": ('{"a": 1}', "STRUCT<a: INT>", {"a": 1}),
    "empty": ("", "STRING", ""),
    "null": (None, "INT", None),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_values(case: str) -> None:
    value, kind, expected = VALUES[case]
    assert told([canal("INSERT", [{"id": "1", "v": value}])], f"id INT, v {kind}", "v") == [(expected,)]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("{}", "'type' is None; expected INSERT, UPDATE, DELETE"),
        (canal("INSERT", None), "'data' is no list of rows"),
        (canal("UPDATE", [SCOOTER], []), "'old' has not as many rows as 'data'"),
        (canal("TRUNCATE", None, isDdl=True), "was truncated"),
        (canal("INSERT", [{**SCOOTER, "weight": "heavy"}]), "column 'weight' has 'heavy'"),
        (canal("INSERT", [{"id": "1", "name": "x"}, {"id": None}]), "column 'id' of the primary key has no value"),
    ],
)
def test_malformed_messages(message: str, why: str) -> None:
    with pytest.raises(lakebed.DataError, match=why):
        told([message])


TYPES = {
    "int(11)": "INT", "int(10) unsigned": "BIGINT", "bigint unsigned": "DECIMAL(20,0)", "tinyint(1)": "TINYINT",
    "tinyint(3) unsigned": "SMALLINT", "mediumint": "INT", "decimal(10,2)": "DECIMAL(10,2)",
    "decimal(5)": "DECIMAL(5,0)",
    "decimal(65,30)": "STRING", "decimal": "DECIMAL(38,10)", "FLOAT": "FLOAT", "double": "DOUBLE",
    "varchar(255)": "STRING", "longtext": "STRING", "enum('a','b')": "STRING", "set('a','b')": "STRING",
    "datetime(6)": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP", "date": "DATE", "time(3)": "STRING", "year(4)": "INT",
    "varbinary(16)": "BINARY", "longblob": "BINARY", "json": "STRING", "bit(1)": "STRING", "int(10) unsigned zerofill":
    "BIGINT", "geometry": "STRING",
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types_of_new_columns(name: str) -> None:
    assert type_ddl(type_named(name)) == TYPES[name]


def test_new_columns() -> None:
    message = json.loads(canal("INSERT", [{"id": "1", "n": None, "d": "1.50", "b": "ÿ"}]))
    message["mysqlType"] = {"id": "int", "n": "bigint", "d": "decimal(9,2)", "b": "blob"}
    found = cdc.parse([json.dumps(message)], "canal", "id INT", new_columns="add")
    assert found.select(["b", "d", "n"]).to_pylist() == [{"b": b"\xff", "d": Decimal("1.50"), "n": None}]
    assert str(found.schema.field("n").type) == "int64"
    del message["mysqlType"]
    message["sqlType"] = {"id": 4, "n": -5, "d": 3, "b": 2004}
    numbered = cdc.parse([json.dumps(message)], "canal", "id INT", new_columns="add")
    assert numbered.column("b").to_pylist() == [b"\xff"]
    assert numbered.column("d").to_pylist() == [Decimal("1.50")]
