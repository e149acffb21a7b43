"""The first problem of a configuration raised, or all of them gathered.

Whoever starts from a configuration stops at its first problem. Whoever only checks one wants to
hear of everything at once: inside ``gathering``, a ``part`` that has a problem is left out, the
problem noted, and the next part read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from otel_turnavoid.errors import ConfigurationError


class NotedError(ConfigurationError):
    """Something cannot be used because of a problem that is noted already."""

    def __init__(self) -> None:
        super().__init__("", "has problems")


class _Unusable:
    """Stands where a value had a problem."""

    def __repr__(self) -> str:
        return "UNUSABLE"


UNUSABLE: Final[Any] = _Unusable()
"""Stands where a value had a problem that is noted; nothing more is said of it."""

_noted: ContextVar[list[ConfigurationError] | None] = ContextVar("noted", default=None)
_left_out: ContextVar[list[None] | None] = ContextVar("left_out", default=None)


@contextmanager
def gathering() -> Iterator[list[ConfigurationError]]:
    """Note problems instead of stopping at the first; yields the list that they go to."""
    noted: list[ConfigurationError] = []
    tokens = _noted.set(noted), _left_out.set([])
    try:
        yield noted
    except NotedError:
        pass
    except ConfigurationError as error:
        noted.append(error)
    finally:
        _noted.reset(tokens[0])
        _left_out.reset(tokens[1])


@contextmanager
def part() -> Iterator[None]:
    """Leave out a part that has a problem, and note it; where nobody gathers it is raised."""
    noted, left_out = _noted.get(), _left_out.get()
    try:
        yield
    except ConfigurationError as error:
        if noted is None or left_out is None:
            raise
        left_out.append(None)
        if not isinstance(error, NotedError):
            noted.append(error)


def left_out() -> int:
    """Return how many parts were left out so far."""
    return len(_left_out.get() or ())


def usable(value: Any) -> Any:
    """Return the value.

    Raises:
        NotedError: It had a problem.
    """
    if value is UNUSABLE:
        raise NotedError
    return value
