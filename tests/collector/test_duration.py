from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.collector.duration import parse


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10m", 600_000_000_000),
        ("24h", 86_400_000_000_000),
        ("500ms", 500_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1.5s", 1_500_000_000),
        ("7us", 7_000),
        ("7µs", 7_000),
        ("7ns", 7),
        ("30d", 2_592_000_000_000_000),
        ("0s", 0),
        ("0", 0),
        (0, 0),
    ],
)
def test_a_duration_is_nanoseconds(text, nanoseconds):
    assert parse(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "m",
        "10 m",
        "-1s",
        "1w",
        "1s1",
        "٣s",
        "1e3s",
        ".5s",
        10,
        True,
        None,
        "9" * 20 + "h",
    ],
)
def test_anything_else_is_none(text):
    assert parse(text) is None


def test_seconds_are_a_float():
    duration = parse("1500ms")

    assert duration is not None
    assert duration.seconds == 1.5


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours, minutes, seconds):
    expected = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000
    found = parse(f"{hours}h{minutes}m{seconds}s")

    assert found == (expected if expected <= 876_000 * 3600 * 1_000_000_000 else None)
