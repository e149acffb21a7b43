"""Values that users state, checked and made ready to be attributes.

Each check returns what is to be recorded, None for nothing. A word outside its vocabulary is
recorded as it was given: the processor refuses the run by name, which is better evidence than
a run that lacks the word. Numbers that cannot be meant are left out: unknown, not wrong.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from otel_turnavoid.digest import check_digest, input_digest
from otel_turnavoid.errors import DigestError
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.vocabulary import Word, read_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Missing:
    """The type of ``MISSING``."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()
"""Stands for a parameter that was not given, where None is a value."""


def word(words: type[Word], key: str, value: str) -> str | None:
    """Return a word of a closed vocabulary as plain text."""
    known = read_word(words, value)
    if known is not None:
        return str(known)
    wanted = ", ".join(member.value for member in words)
    misused(Misuse.VOCABULARY, f"{key} is one of {wanted}, got {value!r}")
    return value if type(value) is str else None


def whole(key: str, value: int, *, least: int = 0) -> int | None:
    """Return a whole number that is at least ``least``."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    misused(Misuse.VALUE, f"{key} is a whole number from {least}, got {value!r}")
    return None


def amount(key: str, value: float) -> float | None:
    """Return a finite number that is not negative."""
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    ):
        return float(value)
    misused(Misuse.VALUE, f"{key} is a finite number from 0, got {value!r}")
    return None


def text(key: str, value: str) -> str | None:
    """Return a name or an identifier: text that is not empty."""
    if isinstance(value, str) and value:
        return value
    misused(Misuse.VALUE, f"{key} is text that is not empty, got {value!r}")
    return None


def texts(key: str, value: Sequence[str]) -> list[str] | None:
    """Return a list of texts."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return list(value)
    misused(Misuse.VALUE, f"{key} is a list of texts, got {value!r}")
    return None


def digest_of(key: str, value: Any, state: Any = None, volatile: Iterable[str] = ()) -> str | None:
    """Return the input digest of a value, None where it has none."""
    try:
        return input_digest(value, state, volatile=volatile)
    except DigestError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - an input of one's own type may raise anything
        problem = f"the input could not be read: {type(error).__name__}"
    misused(Misuse.DIGEST, f"{key}: {problem}")
    return None


def digest(key: str, value: str) -> str | None:
    """Return a digest that was computed elsewhere; one that is no good is left out."""
    problem = check_digest(value)
    if problem is None:
        return value
    misused(Misuse.DIGEST, f"{key}: {problem}")
    return None
