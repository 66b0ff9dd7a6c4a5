"""Partition values: the log's text form of them, and the directories that are named after them."""

from __future__ import annotations

import datetime as dt
import math
import string
from collections.abc import Sequence
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.errors import CorruptFileError, DataError, SchemaError
from lakebed.core.schema import (
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
from lakebed.core.schema_arrow import type_to_arrow
from lakebed.core.schema_ddl import type_ddl
from lakebed.core.temporal_text import read_dates, read_moments

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGERS = (BYTE, SHORT, INTEGER, LONG)
_PARTITIONABLE = (*_INTEGERS, FLOAT, DOUBLE, BOOLEAN, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ)
# What Hive and Spark escape in directory names, and the control characters.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(0x20)))
_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.~!$&()+,;@")
_LONGEST = 255  # bytes that file systems allow for a name; beyond them only the shorter form may fit


def check_partitionable(kind: Type, where: str = "") -> None:
    """Raise SchemaError when a column of this type cannot partition a table; ``where`` says which one it is."""
    if kind not in _PARTITIONABLE and not isinstance(kind, Decimal):
        raise SchemaError(
            f"{where}a {type_ddl(kind)} column cannot partition a table",
            expected="a number, string, boolean, date or timestamp",
        )


def encode_value(value: Any, kind: Type) -> str | None:
    """The text of a partition value in the log; None is null.

    An empty string becomes null, as everywhere in Delta: readers cannot tell the two apart. A timestamp is
    written in UTC with a Z, so that no reader's time zone changes it. Raises SchemaError for types that
    cannot partition a table, DataError for a value that is not of the type.

    >>> encode_value(dt.date(2026, 11, 15), DATE), encode_value("", STRING)
    ('2026-11-15', None)
    """
    check_partitionable(kind)
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or value == "":
        return None
    try:
        return _encode(pa.scalar(value, type_to_arrow(kind)).as_py(), kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"partition value {value!r} is no {type_ddl(kind)}") from error


def _encode(value: Any, kind: Type) -> str:
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind in (FLOAT, DOUBLE):
        return _encode_float(value, kind)
    if isinstance(value, Exact):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        if kind == TIMESTAMP:
            return f"{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _encode_float(value: float, kind: Type) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # The shortest text that reads back as the same number of this width; both zeros are one partition.
    return str(pa.scalar(value + 0.0, type_to_arrow(kind)).cast(pa.string()).as_py())


def decode_values(texts: pa.Array | pa.ChunkedArray | Sequence[str | None], kind: Type) -> pa.Array:
    """The values of partition texts, as an array of the column's type; an empty text is null.

    Raises CorruptFileError for text that is no value of the type.

    >>> decode_values(["7", "", None], LONG).to_pylist()
    [7, None, None]
    """
    check_partitionable(kind)
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    array = pa.array(array, pa.string()) if not isinstance(array, pa.Array) else array.cast(pa.string())
    array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    try:
        return _decode(array, kind)
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFileError(f"a partition value is no {type_ddl(kind)}", found=str(error)) from error


def _decode(texts: pa.Array, kind: Type) -> pa.Array:
    if kind == DATE:
        return read_dates(texts)
    if kind in (TIMESTAMP, TIMESTAMP_NTZ):
        return read_moments(texts, kind)
    if kind in (FLOAT, DOUBLE):
        texts = pc.replace_substring(texts, "Infinity", "inf")
    return texts.cast(type_to_arrow(kind))


def partition_path(names: Sequence[str], values: Sequence[str | None]) -> str:
    """The directory of a partition below the table, from names and ``encode_value`` texts.

    Each level is ``name=value`` with Hive's percent-escapes, so that no name or value can leave the
    directory. What a URI has to escape is escaped in values too, since some readers of object stores mix up
    the two levels of escapes; names they do not decode. The log, not the path, says what the values are.

    >>> partition_path(["dt", "city"], ["2026-11-15", None])
    'dt=2026-11-15/city=__HIVE_DEFAULT_PARTITION__'
    >>> partition_path(["city"], ["Sankt Pölten"])
    'city=Sankt%20P%C3%B6lten'
    """
    return "/".join(_level(name, value) for name, value in zip(names, values, strict=True))


def _level(name: str, value: str | None) -> str:
    column = _escape(name)
    if value is None:
        return f"{column}={HIVE_NULL}"
    level = f"{column}={_escape(value, everything=True)}"
    return level if len(level.encode()) <= _LONGEST else f"{column}={_escape(value)}"


def _escape(text: str, *, everything: bool = False) -> str:
    if text and not text.strip("."):
        return "%2E" * len(text)
    return "".join(c if c in _PLAIN or not (everything or c in _ESCAPED) else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
