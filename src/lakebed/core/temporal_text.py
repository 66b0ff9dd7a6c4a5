"""Dates and timestamps that the log writes as text, read by column."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.core.schema import TIMESTAMP, Type
from lakebed.core.schema_arrow import type_to_arrow


def read_dates(texts: pa.Array) -> pa.Array:
    """The dates of ``YYYY-MM-DD`` texts; raises ArrowInvalid for any other text.

    >>> read_dates(pa.array(["2026-11-15", None])).to_pylist()
    [datetime.date(2026, 11, 15), None]
    """
    return texts.cast(pa.date32())


def read_moments(texts: pa.Array, kind: Type) -> pa.Array:
    """The timestamps of ISO 8601 texts, with a blank or a T; without a zone they are UTC.

    Raises ArrowInvalid or ValueError for any other text.

    >>> read_moments(pa.array(["2026-11-15 10:00:00"]), TIMESTAMP).to_pylist()[0].isoformat()
    '2026-11-15T10:00:00+00:00'
    """
    target = type_to_arrow(kind)
    try:
        return pc.replace_substring_regex(texts, r"Z$", "").cast(pa.timestamp("us")).cast(target)
    except pa.ArrowInvalid:
        # Offsets and nanoseconds are rare; Python reads what Arrow does not.
        encoded = texts.dictionary_encode()
        moments = pa.array([_moment(t, kind) for t in encoded.dictionary.to_pylist()], target)
        return moments.take(encoded.indices)


def _moment(text: str, kind: Type) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text)
    utc = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    return utc if kind == TIMESTAMP else utc.replace(tzinfo=None)
