"""Points in time and lengths of time, as people write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from lakebed.core.errors import InputError

_UNITS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_LENGTH = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*", re.IGNORECASE)


def to_millis(moment: str | int | datetime | date) -> int:
    """Milliseconds since the epoch of a time; text and times without a zone are UTC. Raises InputError.

    >>> to_millis("2026-11-15 10:00:00"), to_millis("2026-11-15T12:00:00+02:00")
    (1794736800000, 1794736800000)
    """
    if isinstance(moment, bool):
        raise _no_time(moment)
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError as error:
            raise _no_time(moment) from error
    if type(moment) is date:
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise _no_time(moment)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def to_text(milliseconds: int) -> str:
    """A time as people read it, in UTC.

    >>> to_text(1794736800000)
    '2026-11-15 10:00:00.000 UTC'
    """
    return (datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)).isoformat(" ", "milliseconds") + " UTC"


def _no_time(found: object) -> InputError:
    return InputError(
        "this is no point in time",
        expected="text like '2026-11-15 10:00:00', a datetime, or milliseconds since 1970",
        found=repr(found),
    )


def to_duration_ms(length: str | int | timedelta) -> int:
    """A length of time in milliseconds. Raises InputError.

    >>> to_duration_ms("7 days"), to_duration_ms(timedelta(seconds=1))
    (604800000, 1000)
    """
    if isinstance(length, timedelta):
        length = length // timedelta(milliseconds=1)
    if isinstance(length, int) and not isinstance(length, bool) and length >= 0:
        return length
    match = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    if match is None or match[2].lower() not in _UNITS:
        raise InputError(
            "this is no length of time", expected="text like '7 days' or '12 hours', or a timedelta", found=repr(length)
        )
    return int(match[1]) * _UNITS[match[2].lower()]
