"""Statistics that a checkpoint holds as columns, turned back into the log's JSON text."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def stats_json(parsed: Mapping[str, Any]) -> str | None:
    """One row of ``stats_parsed`` as JSON; what is null, or no JSON, is left out. None if nothing is left.

    >>> stats_json({"numRecords": 2, "minValues": {"day": dt.date(2026, 11, 15), "price": Decimal("1.10")}})
    '{"numRecords":2,"minValues":{"day":"2026-11-15","price":1.10}}'
    """
    return _object(parsed)


def _object(values: Mapping[str, Any]) -> str | None:
    entries = [
        f"{json.dumps(name, ensure_ascii=False)}:{text}"
        for name, value in values.items()
        if (text := _text(value)) is not None
    ]
    return "{" + ",".join(entries) + "}" if entries else None


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case Mapping():
            return _object(value)
        case Decimal():
            return f"{value:f}"  # a float would round the bound
        case float() if not math.isfinite(value):
            return None
        case dt.datetime():
            return json.dumps(_instant(value))
        case dt.date():
            return json.dumps(value.isoformat())
        case bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return None


def _instant(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
