"""Times in records."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.conversations.times import time_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-20T17:45:37.443Z", 1_774_028_737_443_000_000),
        ("2026-03-20 17:45:37", 1_774_028_737_000_000_000),
        ("2026-03-20T19:45:37+02:00", 1_774_028_737_000_000_000),
        ("2026-03-20T15:15:37-0230", 1_774_028_737_000_000_000),
        ("1970-01-01T00:00:00.0000000019", 1),
    ],
)
def test_a_time_is_nanoseconds_since_the_epoch(text: str, ns: int) -> None:
    assert time_ns(text) == ns


@pytest.mark.parametrize("value", ["", "yesterday", "2026-03-20", 5, None, "2026-3-20T1:2:3Z"])
def test_what_is_no_time_is_unknown(value) -> None:
    assert time_ns(value) is None


@given(st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(timezone.utc)))  # noqa: DTZ001 - bounds are naive
def test_times_agree_with_the_calendar(moment: datetime) -> None:
    seconds = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // _SECOND

    assert time_ns(moment.isoformat()) == seconds * 10**9 + moment.microsecond * 1000


_SECOND = datetime(1970, 1, 1, 0, 0, 1) - datetime(1970, 1, 1)  # noqa: DTZ001 - a difference
