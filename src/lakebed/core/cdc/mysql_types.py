"""The types of MySQL, as Canal tells them: by name, or by the numbers of Java's ``java.sql.Types``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakebed.core.cdc.encoding import Declared
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

_NAME = re.compile(r"\s*([a-z ]*?[a-z])\s*(?:\(([^)]*)\))?\s*(unsigned)?(?:\s+zerofill)?\s*$")
_WHOLE: Mapping[str, tuple[Type, Type]] = {
    "tinyint": (BYTE, SHORT),
    "smallint": (SHORT, INTEGER),
    "mediumint": (INTEGER, INTEGER),
    "int": (INTEGER, LONG),
    "integer": (INTEGER, LONG),
    "bigint": (LONG, Decimal(20, 0)),
}
"""With a sign, and without."""
_OTHER: Mapping[str, Type] = {
    "bool": BOOLEAN, "boolean": BOOLEAN, "float": FLOAT, "double": DOUBLE, "double precision": DOUBLE, "real": DOUBLE,
    "date": DATE, "datetime": TIMESTAMP_NTZ, "timestamp": TIMESTAMP, "year": INTEGER, "binary": BINARY,
    "varbinary": BINARY, "tinyblob": BINARY, "blob": BINARY, "mediumblob": BINARY, "longblob": BINARY,
}  # fmt: skip
_NUMBERED: Mapping[int, Type] = {
    -7: STRING, -6: SHORT, -5: LONG, -4: BINARY, -3: BINARY, -2: BINARY, 3: Decimal(38, 10), 4: INTEGER, 5: INTEGER,
    6: DOUBLE, 7: FLOAT, 8: DOUBLE, 16: BOOLEAN, 91: DATE, 93: TIMESTAMP_NTZ, 2004: BINARY,
}  # fmt: skip


def declared_in(names: Any, numbers: Any) -> Mapping[str, Declared]:
    """What a message says of its columns, of which it has names of types or their numbers.

    >>> declared_in({"id": "bigint(20) unsigned"}, None)["id"].type
    Decimal(precision=20, scale=0)
    """
    named = names if isinstance(names, dict) else {}
    numbered = numbers if isinstance(numbers, dict) else {}
    by_number = {column: Declared(_NUMBERED.get(number, STRING)) for column, number in numbered.items()}
    by_name = {column: Declared(type_named(text)) for column, text in named.items() if isinstance(text, str)}
    return {**by_number, **by_name}


def type_named(text: str) -> Type:
    """The type of a column of MySQL; what is not known by a type of its own is text.

    >>> type_named("decimal(10,2)"), type_named("tinyint(1)").name, type_named("enum('a','b')").name
    (Decimal(precision=10, scale=2), 'byte', 'string')
    """
    found = _NAME.match(text.lower())
    if found is None:
        return STRING
    name, size, unsigned = found.groups()
    if name.endswith(" unsigned"):
        name, unsigned = name.removesuffix(" unsigned"), "unsigned"
    if name in ("decimal", "numeric", "dec", "fixed"):
        digits = [int(part) for part in (size or "").split(",") if part.strip().isdecimal()]
        # TiCDC leaves the digits out; a number that does not fit then is refused, and never cut.
        precision, scale = (*digits, 0)[:2] if digits else (38, 10)
        return Decimal(precision, scale) if scale <= precision <= 38 else STRING
    if name in _WHOLE:
        return _WHOLE[name][unsigned is not None]
    return _OTHER.get(name, STRING)
