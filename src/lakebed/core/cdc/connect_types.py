"""The types that Kafka Connect's schemas tell of, those of Debezium among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.core.cdc.encoding import Declared, Encoding
from lakebed.core.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Type,
)

_MOST_DIGITS = 38

_LITERAL: Mapping[str, Type] = {
    "int8": BYTE, "int16": SHORT, "int32": INTEGER, "int64": LONG, "float": FLOAT, "float32": FLOAT, "double": DOUBLE,
    "float64": DOUBLE, "boolean": BOOLEAN, "string": STRING, "bytes": BINARY,
}  # fmt: skip

_NAMED: Mapping[str, Declared] = {
    "io.debezium.time.Date": Declared(DATE, Encoding.DAYS),
    "io.debezium.time.Timestamp": Declared(TIMESTAMP_NTZ, Encoding.MILLIS),
    "io.debezium.time.MicroTimestamp": Declared(TIMESTAMP_NTZ, Encoding.MICROS),
    "io.debezium.time.NanoTimestamp": Declared(TIMESTAMP_NTZ, Encoding.NANOS),
    "io.debezium.time.ZonedTimestamp": Declared(TIMESTAMP),
    "io.debezium.time.Time": Declared(STRING, Encoding.TIME_MILLIS),
    "io.debezium.time.MicroTime": Declared(STRING, Encoding.TIME_MICROS),
    "io.debezium.time.NanoTime": Declared(STRING, Encoding.TIME_NANOS),
    "io.debezium.time.IsoDate": Declared(DATE),
    "io.debezium.time.IsoTimestamp": Declared(TIMESTAMP_NTZ),
    "org.apache.kafka.connect.data.Date": Declared(DATE, Encoding.DAYS),
    "org.apache.kafka.connect.data.Time": Declared(STRING, Encoding.TIME_MILLIS),
    "org.apache.kafka.connect.data.Timestamp": Declared(TIMESTAMP_NTZ, Encoding.MILLIS),
    "io.debezium.data.VariableScaleDecimal": Declared(STRING, Encoding.SCALED),
}


def declared_in(schema: Any) -> Mapping[str, Declared]:
    """What the schema of a message says of the columns of its rows; nothing if there is none.

    >>> rows = {"field": "after", "fields": [{"field": "d", "type": "int32", "name": "io.debezium.time.Date"}]}
    >>> declared_in({"type": "struct", "fields": [rows]})["d"].type
    Primitive(name='date')
    """
    parts = schema.get("fields") if isinstance(schema, dict) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("field") in ("after", "before") and isinstance(part.get("fields"), list):
            fields = [
                field for field in part["fields"] if isinstance(field, dict) and isinstance(field.get("field"), str)
            ]
            return {field["field"]: declared(field) for field in fields}
    return {}


def declared(field: Mapping[str, Any]) -> Declared:
    """What a field of the schema is: by its name, which tells the meaning, else by its type.

    >>> declared({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}})
    Declared(type=Decimal(precision=38, scale=2), encoding=<Encoding.UNSCALED: ...>, scale=2)
    """
    name, kind = field.get("name"), str(field.get("type"))
    if name == "org.apache.kafka.connect.data.Decimal":
        return _decimal(field.get("parameters"))
    if isinstance(name, str) and name in _NAMED:
        return _NAMED[name]
    if kind == "bytes":
        return Declared(BINARY, Encoding.BASE64)
    return Declared(_LITERAL.get(kind, STRING))


def _decimal(parameters: Any) -> Declared:
    given = parameters if isinstance(parameters, dict) else {}
    scale = int(given.get("scale", 0))
    digits = int(given.get("connect.decimal.precision", _MOST_DIGITS))
    digits = min(_MOST_DIGITS, max(digits, scale, 1))
    return Declared(Decimal(digits, scale) if 0 <= scale <= digits else STRING, Encoding.UNSCALED, scale)
