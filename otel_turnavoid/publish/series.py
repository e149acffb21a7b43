"""The series of a ledger: its pairs by arm, variant, evidence and comparison.

What differs in any of these is never put together. Each series shows avoided, added and the
signed net, what was withheld, and the mean with its interval; the pairs of control with control
are series of their own, with which chance is told from a saving.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.publish.estimate import Difference, Estimate, NoInterval, estimate
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Arm, Comparison, Evidence, WithheldCause, Word


class Finding(Word):
    """What a series shows, with the interval and the noise taken into account."""

    NO_EFFECT_SEEN = "no-effect-seen"
    """The interval includes 0, so chance explains the difference; or there is none anywhere."""
    WITHIN_NOISE = "within-noise"
    """Fewer turns on average, yet no more avoided than equal controls avoid by chance."""
    FEWER_TURNS = "fewer-turns"
    MORE_TURNS = "more-turns"
    UNDECIDED = "undecided"
    """There is no interval."""


class NullSeries(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="series", tag="control-against-control"
):
    """Pairs of two control runs: how far apart equal runs are by chance."""

    evidence: Evidence
    comparison: Comparison | None
    pairs: int
    avoided: int
    added: int
    net: int
    """``avoided - added``."""
    per_pair: Estimate
    """Over all of them."""

    @property
    def floor(self) -> float:
        """Turns per pair that chance alone "avoids"."""
        return self.avoided / self.pairs


class PairSeries(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="series", tag="control-against-candidate"
):
    """Pairs of a control and a candidate run."""

    arm: Arm
    variant: str | None
    evidence: Evidence
    comparison: Comparison | None
    pairs: int
    avoided: int
    added: int
    net: int
    """``avoided - added``. Turns are added in every pair, but avoided only with proof."""
    withheld: int
    withheld_share: float | None
    """Of the turns that disappeared; None where none did."""
    causes: dict[WithheldCause, int]
    """Withheld turns by the first cause of their pair, in the order of the vocabulary."""
    per_pair: Estimate
    """Over the pairs with no withheld cause, where ``avoided - added`` is all the difference."""
    added_in_mean: int
    """Turns added in these pairs; ``avoided`` is all theirs."""
    finding: Finding

    @property
    def left_out(self) -> int:
        """Pairs with a withheld cause, which do not enter the mean."""
        return self.pairs - self.per_pair.pairs

    @property
    def left_out_share(self) -> float:
        """Pairs with a withheld cause among all."""
        return self.left_out / self.pairs


_ARMS: Final = {arm: place for place, arm in enumerate(CANDIDATE_ARMS)}
_EVIDENCE: Final = {evidence: place for place, evidence in enumerate(Evidence)}

_Floors = dict[tuple[Evidence, "Comparison | None"], NullSeries]


def series(
    pairs: Iterable[PairDecided], nulls: Iterable[NullDecided]
) -> tuple[list[PairSeries], list[NullSeries]]:
    """Return the series of candidates and those of controls, each in a fixed order."""
    floors = _null_series(nulls)
    found: dict[tuple[Arm, str, Evidence, Comparison | None], list[PairDecided]] = {}
    for pair in pairs:
        run = pair.candidate
        if run.arm is not None:
            name = (run.arm, run.variant or "", pair.evidence, pair.comparison)
            found.setdefault(name, []).append(pair)
    names = sorted(
        found,
        key=lambda name: (_ARMS[name[0]], name[1], _EVIDENCE[name[2]], name[3] or ""),
    )
    return [_pair_series(found[name], floors) for name in names], list(floors.values())


def floor_of(one: PairSeries, nulls: Iterable[NullSeries]) -> NullSeries | None:
    """Return the noise that a series is to be compared with: same evidence and comparison."""
    alike = (
        null for null in nulls if (null.evidence, null.comparison) == (one.evidence, one.comparison)
    )
    return next(alike, None)


def _null_series(nulls: Iterable[NullDecided]) -> _Floors:
    found: dict[tuple[Evidence, Comparison | None], list[NullDecided]] = {}
    for null in nulls:
        found.setdefault((null.evidence, null.comparison), []).append(null)
    made: _Floors = {}
    for name in sorted(found, key=lambda name: (_EVIDENCE[name[0]], name[1] or "")):
        avoided = sum(null.avoided for null in found[name])
        added = sum(null.added for null in found[name])
        made[name] = NullSeries(
            evidence=name[0],
            comparison=name[1],
            pairs=len(found[name]),
            avoided=avoided,
            added=added,
            net=avoided - added,
            per_pair=estimate(
                Difference(null.first.key, null.avoided - null.added)
                for null in found[name]
                if null.first.key is not None
            ),
        )
    return made


def _pair_series(pairs: list[PairDecided], floors: _Floors) -> PairSeries:
    one = pairs[0]
    if one.candidate.arm is None:
        raise AssertionError("a run without an arm cannot stand in a pair")
    avoided = sum(pair.avoided for pair in pairs)
    added = sum(pair.added for pair in pairs)
    withheld = sum(pair.withheld for pair in pairs)
    potential = avoided + withheld
    free = [pair for pair in pairs if not pair.causes]
    per_pair = estimate(
        Difference(pair.control.key, pair.avoided - pair.added)
        for pair in free
        if pair.control.key is not None
    )
    return PairSeries(
        arm=one.candidate.arm,
        variant=one.candidate.variant or None,
        evidence=one.evidence,
        comparison=one.comparison,
        pairs=len(pairs),
        avoided=avoided,
        added=added,
        net=avoided - added,
        withheld=withheld,
        withheld_share=withheld / potential if potential else None,
        causes=_causes(pairs),
        per_pair=per_pair,
        added_in_mean=sum(pair.added for pair in free),
        finding=_finding(avoided, per_pair, floors.get((one.evidence, one.comparison))),
    )


def _causes(pairs: list[PairDecided]) -> dict[WithheldCause, int]:
    turns = dict.fromkeys(WithheldCause, 0)
    for pair in pairs:
        if pair.withheld:
            turns[pair.causes[0]] += pair.withheld
    return {cause: withheld for cause, withheld in turns.items() if withheld}


def _finding(avoided: int, per_pair: Estimate, floor: NullSeries | None) -> Finding:
    if per_pair.low is None or per_pair.high is None:
        nowhere = per_pair.no_interval is NoInterval.NO_SPREAD and per_pair.mean == 0
        return Finding.NO_EFFECT_SEEN if nowhere else Finding.UNDECIDED
    if per_pair.includes_zero:
        return Finding.NO_EFFECT_SEEN
    if per_pair.high < 0:
        return Finding.MORE_TURNS
    if floor is not None and avoided / per_pair.pairs <= floor.floor:
        return Finding.WITHIN_NOISE
    return Finding.FEWER_TURNS
