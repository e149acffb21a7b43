"""Effects whose order matters, because their observer says so.

Compared as sets, two such lists must still differ where their order does: so that the verdict,
and whoever folds it again (trace/v1), needs no other comparison. Of the candidate's effects those
that keep the control's order stand as they are, and the others are marked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from otel_turnavoid.judge.facts import Observation
from otel_turnavoid.judge.observing import effects, told_apart

OUT_OF_ORDER = " (out of order)"
"""What an effect of the candidate carries that happened, but not in its place."""


def compared_effects(
    before: Observation | None, after: Observation | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the effects of a control and a candidate, sorted, as they are to be compared.

    Order counts where either list is declared ordered: what one says of it the other must show.
    """
    if before is None or after is None or not (before.ordered or after.ordered):
        return effects(before), effects(after)
    required, reached = told_apart(before.labels), told_apart(after.labels)
    places = {label: place for place, label in enumerate(required)}
    common = [label for label in reached if label in places]
    kept = _longest_rising([places[label] for label in common])
    in_place = {common[index] for index in kept}
    shown: set[str] = set(reached)
    for label in common:
        if label not in in_place:
            shown.remove(label)
            shown.add(_marked(label, {*places, *reached}))
    return tuple(sorted(required)), tuple(sorted(shown))


def _marked(label: str, taken: set[str]) -> str:
    name = f"{label}{OUT_OF_ORDER}"
    while name in taken:
        name += OUT_OF_ORDER
    return name


def _longest_rising(numbers: Sequence[int]) -> list[int]:
    """Return the indexes of a longest rising part of distinct numbers, always the same one."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for index, number in enumerate(numbers):
        place = bisect_left(tails, number)
        before.append(ends[place - 1] if place else None)
        tails[place : place + 1] = [number]
        ends[place : place + 1] = [index]
    found: list[int] = []
    current = ends[-1] if ends else None
    while current is not None:
        found.append(current)
        current = before[current]
    return found[::-1]
