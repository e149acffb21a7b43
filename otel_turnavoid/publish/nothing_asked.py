"""Pairs on inputs where nothing was to be changed: their turns, apart from the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from otel_turnavoid.judge.observing import asked_nothing
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.publish.figures import counted, signed
from otel_turnavoid.publish.section import Section
from otel_turnavoid.vocabulary import CANDIDATE_ARMS


def nothing_asked(pairs: Iterable[PairDecided]) -> Iterator[Section]:
    """Yield a table of these pairs by arm, if there are any."""
    of_arm: dict[str, list[PairDecided]] = defaultdict(list)
    for pair in pairs:
        if pair.candidate.arm is not None and asked_nothing(pair.control):
            of_arm[pair.candidate.arm].append(pair)
    if of_arm:
        yield Section(
            "Where nothing was asked",
            "Part of the turns above: pairs whose only required effect is that all stays as it was."
            " An agent that does nothing passes there.",
            ("arm", "pairs", "avoided", "added", "net", "withheld"),
            tuple(_row(arm, of_arm[arm]) for arm in CANDIDATE_ARMS if arm in of_arm),
        )


def _row(arm: str, pairs: list[PairDecided]) -> tuple[str, ...]:
    avoided = sum(pair.avoided for pair in pairs)
    added = sum(pair.added for pair in pairs)
    withheld = sum(pair.withheld for pair in pairs)
    return (
        arm,
        counted(len(pairs)),
        counted(avoided),
        counted(added),
        signed(avoided - added),
        counted(withheld),
    )
