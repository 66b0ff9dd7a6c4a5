"""Points in time and lengths of time."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InputError
from lakebed.core.instant import to_duration_ms, to_millis

TEN = 1_794_736_800_000


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-15 10:00:00",
        "2026-11-15T10:00",
        " 2026-11-15T10:00:00Z ",
        "2026-11-15T12:00:00+02:00",
        "2026-11-15 10:00:00.000999",
        TEN,
        datetime(2026, 11, 15, 10),
        datetime(2026, 11, 15, 10, tzinfo=UTC),
        datetime(2026, 11, 15, 5, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_one_moment_in_many_forms(moment) -> None:
    assert to_millis(moment) == TEN


def test_a_date_is_its_midnight() -> None:
    assert to_millis("2026-11-15") == to_millis(date(2026, 11, 15)) == TEN - 10 * 3_600_000


def test_times_before_1970_round_down_too() -> None:
    assert to_millis(datetime(1969, 12, 31, 23, 59, 59, 999_500)) == -1


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-13-01", "1794736800000", True, None, 1.5, [], "10:00"])
def test_what_is_no_time_is_refused(moment) -> None:
    with pytest.raises(InputError, match="no point in time") as caught:
        to_millis(moment)
    assert caught.value.found == repr(moment)


@given(st.datetimes(timezones=st.timezones()))
def test_text_with_a_zone_means_the_same_as_the_time(moment) -> None:
    offset = moment.utcoffset()
    if offset is None or offset.microseconds or offset.seconds % 60:
        return  # offsets with seconds, from before 1900
    assert to_millis(moment.isoformat()) == to_millis(moment)


@pytest.mark.parametrize(
    ("length", "millis"),
    [
        ("7 days", 604_800_000),
        ("1 day", 86_400_000),
        ("12 hours", 43_200_000),
        ("30 MINUTES", 1_800_000),
        ("5seconds", 5_000),
        (" 2 weeks ", 1_209_600_000),
        ("250 milliseconds", 250),
        ("0 days", 0),
        (0, 0),
        (1500, 1500),
        (timedelta(seconds=1, microseconds=999), 1000),
    ],
)
def test_lengths(length, millis) -> None:
    assert to_duration_ms(length) == millis


@pytest.mark.parametrize(
    "length", ["", "7", "days", "7 moons", "-7 days", "1.5 days", "7 days ago", "1 d", True, None, 1.5]
)
def test_what_is_no_length_is_refused(length) -> None:
    with pytest.raises(InputError, match="no length of time") as caught:
        to_duration_ms(length)
    assert caught.value.found == repr(length)


@pytest.mark.parametrize("length", [-1, timedelta(days=-7)])
def test_negative_lengths_are_refused(length) -> None:
    """A retention below zero would reach files that are being written (DuckLake #527)."""
    with pytest.raises(InputError):
        to_duration_ms(length)
