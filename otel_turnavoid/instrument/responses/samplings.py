"""How often a model was sampled within one response, seen from the parts of the answer.

At least so often: where nothing stands between two calls that the provider executed, they may
have come from one sampling or from two, and count as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto


class Kind(Enum):
    """What a part of an answer is, whatever the provider calls it."""

    GENERATED = auto()
    """Text, thinking or a call, as the model sampled it."""
    EXECUTED = auto()
    """A call that the model sampled, together with the result that the provider put in."""
    RESULT = auto()
    """Put in by the provider or the client."""
    CODE = auto()
    """A call made by code that the model wrote earlier: nothing was sampled for it."""
    COMPACTED = auto()
    """A summary that the provider sampled in a call of its own."""


def samplings(parts: Iterable[Kind]) -> int:
    """Count the stretches of sampled parts; an empty answer was sampled all the same."""
    counted, any_part = 0, False
    before: Kind | None = None
    for kind in parts:
        any_part = True
        goes_on = before is Kind.GENERATED or (before is kind is Kind.EXECUTED)
        sampled = kind in (Kind.GENERATED, Kind.EXECUTED)
        if kind is Kind.COMPACTED or (sampled and not goes_on):
            counted += 1
        before = kind
    return counted if any_part else 1
