"""What a check raises where the program is wrong, and what every refusal must be like."""

from __future__ import annotations

from otel_turnavoid.errors import TurnAvoidError

_LONGEST = 2_000
"""Characters of a message that a person reads."""


class Finding(Exception):  # noqa: N818 - it is what a fuzzer looks for
    """The program did what it must not."""


def hold(condition: object, problem: str) -> None:
    """Raise a Finding unless the condition holds."""
    if not condition:
        raise Finding(problem)


def check_refusal(error: TurnAvoidError) -> None:
    """Hold a refusal to what people are promised: one line of some words that can be printed."""
    message = str(error)
    hold(message.strip(), f"{type(error).__name__} says nothing")
    hold(len(message.splitlines()) == 1, f"not one line: {message!r}")
    hold(len(message) <= _LONGEST, f"{len(message)} characters: {message[:200]!r}")
    message.encode()
