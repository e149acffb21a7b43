"""Typed reading of attributes: what the contract refuses becomes a ``Fault``, not an exception."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from otel_turnavoid.judge.facts import Fault
from otel_turnavoid.vocabulary import Rejection, WordT, read_word

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN = 80
_DIGITS = 19
"""Decimal digits from which on a text is no 64-bit integer for certain."""
_EXACT = 2**53
"""From here on a float leaves out integers."""
_LARGEST = 2**63 - 1
"""The largest integer that OTLP has; recorded JSON has no such limit."""
_MOST = 1e15
"""More dollars or milliseconds than anybody measured; the sum of any number of these is finite."""


def shown(value: object) -> str:
    """Return a value as a problem line shows it: on one line and not too long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def described(value: object) -> str:
    """Return what kind of thing a value is, where the value itself is nobody's business.

    The answer to a sender ends in its log.
    """
    if isinstance(value, str):
        return f"a string of {len(value)} characters"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, (list, dict)):
        return "an array" if isinstance(value, list) else "a mapping"
    return shown(value)


def name_problem(value: object, show: Callable[[object], str] = shown) -> str | None:
    """Return what is wrong with an identifier, or None when it is good."""
    if not isinstance(value, str):
        return f"want a string, got {show(value)}"
    stripped = value.strip()
    if not stripped:
        return "want a name, got an empty one"
    if len(value) != len(stripped):
        return f"has surrounding space: {show(value)}"
    if not value.isprintable() and _CONTROL.search(value):
        return f"has control characters: {show(value)}"
    return None


def from_json(text: str) -> Any:
    """Return what a JSON text means.

    Raises ValueError for one that is none, or is nested too deep to be read.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


class Attributes:
    """The attributes of one span, and behind them those of its resource.

    Every method returns None where the span says nothing or says something wrong; ``faults``
    gathers what was wrong. ``run_wide`` attributes may stand on the resource instead.
    """

    __slots__ = ("faults", "resource", "span")

    def __init__(self, span: dict[str, Any], resource: dict[str, Any]) -> None:
        self.span = span
        self.resource = resource
        self.faults: list[Fault] = []

    def fault(self, key: str, problem: str, cause: Rejection = Rejection.VOCABULARY) -> None:
        """Note that the attribute ``key`` is refused."""
        self.faults.append(Fault(cause, key, problem))

    def value(self, key: str, *, run_wide: bool = False) -> Any:
        """Return the raw value: the span's own, else the resource's where that may say it."""
        value = self.span.get(key)
        return self.resource.get(key) if value is None and run_wide else value

    def word(self, key: str, words: type[WordT], *, run_wide: bool = False) -> WordT | None:
        """Read a member of a closed vocabulary."""
        value = self.value(key, run_wide=run_wide)
        if value is None:
            return None
        word = read_word(words, value)
        if word is None:
            self.fault(key, f"want one of {', '.join(words)}; got {shown(value)}")
        return word

    def name(self, key: str, *, run_wide: bool = False) -> str | None:
        """Read an identifier; one that is refused is still returned, where it is text at all.

        So a run with a refused name keeps its spans together. Control characters are escaped.
        """
        value = self.value(key, run_wide=run_wide)
        if value is None:
            return None
        problem = name_problem(value)
        if problem is None:
            return value  # type: ignore[no-any-return]  # name_problem saw that it is text
        self.fault(key, problem)
        if isinstance(value, str) and value:
            return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
        return None

    def count(self, key: str, *, least: int = 0, run_wide: bool = False) -> int | None:
        """Read a whole number of at least ``least``; a bool or a float is none."""
        value = self.value(key, run_wide=run_wide)
        if value is None:
            return None
        if type(value) is int and least <= value <= _LARGEST:
            return value
        self.fault(key, f"want an integer of at least {least}, got {shown(value)}")
        return None

    def amount(self, key: str) -> float | None:
        """Read a number of at least 0, and no larger than anything that was ever measured."""
        value = self.span.get(key)
        if value is None:
            return None
        wanted = "a finite number of at least 0"
        if type(value) in (int, float):
            if 0 <= value <= _MOST:
                return float(value)
            if _MOST < value < math.inf:
                wanted = f"a number up to {_MOST:g}"
        self.fault(key, f"want {wanted}, got {shown(value)}")
        return None

    def text(self, *keys: str) -> str | None:
        """Return the first of the keys that holds a non-empty string; others' words, no faults."""
        for key in keys:
            value = self.span.get(key)
            if isinstance(value, str) and value:
                return value
        return None

    def tokens(self, *keys: str) -> int | None:
        """Return the first of the keys that holds a whole number of at least 0; no faults."""
        for key in keys:
            value = whole(self.span.get(key))
            if value is not None:
                return value
        return None


def whole(value: object) -> int | None:
    """Return a whole number of at least 0, also where its sender writes numbers as texts.

    As Micrometer does. A float is one from a language without integers.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _DIGITS:
        return int(value)
    if type(value) is float and value.is_integer() and 0 <= value < _EXACT:
        return int(value)
    return value if type(value) is int and 0 <= value <= _LARGEST else None
