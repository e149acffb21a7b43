"""What is read of a response, whichever API it came from, and how its fields are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reading:
    """One answer of a model. None is what the provider does not say; never 0 for that.

    Tokens have the meaning of the GenAI conventions: ``input`` includes what was read from and
    written to a cache, ``output`` includes reasoning.
    """

    model: str | None = None
    """The model that answered."""
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    """In the provider's own words, one for each choice."""
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    samplings: int | None = None
    """How often the model was sampled: 0 where code that it wrote earlier only went on."""
    error: str | None = None
    """Why there is no answer, where the provider says so inside a response."""


def look(thing: Any, *path: str) -> Any:
    """Return a field of a mapping or an object, along a path; None where there is none."""
    for name in path:
        if thing is None:
            return None
        thing = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return thing


def text(thing: Any, *path: str) -> str | None:
    """Return a field that is text and not empty."""
    found = look(thing, *path)
    return found if isinstance(found, str) and found else None


def tokens(thing: Any, *path: str) -> int | None:
    """Return a field that is a whole number from 0."""
    found = look(thing, *path)
    counts = isinstance(found, int) and not isinstance(found, bool) and found >= 0
    return found if counts else None


def items(thing: Any, *path: str) -> list[Any]:
    """Return a field that is a list, else an empty one."""
    found = look(thing, *path)
    return list(found) if isinstance(found, (list, tuple)) else []
