"""Errors: whatever name or value stands in one, it is one line that can be printed."""

from __future__ import annotations

import pytest

from otel_turnavoid.errors import (
    ConfigurationError,
    InputError,
    LedgerError,
    TraceError,
    TurnAvoidError,
    UsageError,
)

GIVEN = "a\nb\r\x1b[2J\u2028\ud800\x85 é"
SHOWN = r"a\nb\r\x1b[2J\u2028\ud800\x85 é"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UsageError(GIVEN), SHOWN),
        (LedgerError(GIVEN), SHOWN),
        (ConfigurationError(GIVEN, "is no key"), f"{SHOWN}: is no key"),
        (InputError(GIVEN, "cannot be read"), f"{SHOWN}: cannot be read"),
        (TraceError({"row": 1}, GIVEN), f"row 1: {SHOWN}"),
    ],
)
def test_a_message_is_one_line_that_can_be_printed(error: TurnAvoidError, said: str) -> None:
    assert str(error) == said


def test_the_parts_of_an_error_stay_as_they_were_given() -> None:
    error = ConfigurationError(GIVEN, "is no key")

    assert (error.key, error.problem) == (GIVEN, "is no key")
