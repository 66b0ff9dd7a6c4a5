"""Numbers, sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def size(count: int) -> str:
    """Bytes with a unit.

    >>> size(0), size(1536), size(5 * 1024**3)
    ('0 B', '1.5 KiB', '5.0 GiB')
    """
    amount = float(count)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def number(count: int | None) -> str:
    """A whole number in groups of three digits; a dash if it is not known.

    >>> number(1234567), number(None)
    ('1,234,567', '–')
    """
    return "–" if count is None else f"{count:,}"


def seconds(duration: float) -> str:
    """How long something took.

    >>> seconds(0.0123), seconds(2.5), seconds(75)
    ('12 ms', '2.50 s', '1 min 15 s')
    """
    if duration < 1:
        return f"{duration * 1000:.0f} ms"
    if duration < 60:
        return f"{duration:.2f} s"
    return f"{int(duration) // 60} min {int(duration) % 60} s"


def time(moment: datetime | int) -> str:
    """A time in UTC, to the second; whole numbers are milliseconds since 1970.

    >>> time(1794736800000)
    '2026-11-15 10:00:00'
    """
    if isinstance(moment, int):
        moment = datetime.fromtimestamp(moment / 1000, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def age(moment: datetime | int, now: datetime | None = None) -> str:
    """How long ago a time was, in one unit.

    >>> age(0, datetime(1970, 1, 3, tzinfo=UTC)), age(0, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC))
    ('2 d ago', 'just now')
    """
    if isinstance(moment, int):
        moment = datetime.fromtimestamp(moment / 1000, UTC)
    passed = ((now or datetime.now(UTC)) - moment).total_seconds()
    for length, unit in _AGES:
        if passed >= length:
            return f"{int(passed // length)} {unit} ago"
    return "just now"


def iso(milliseconds: int) -> str:
    """A time for programs.

    >>> iso(1794736800000)
    '2026-11-15T10:00:00+00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
