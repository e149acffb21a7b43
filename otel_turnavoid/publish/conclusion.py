"""What a series shows in words: the counts first, then how sure that is.

A reader who takes nothing else away must take away whether there is an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from otel_turnavoid.publish.estimate import FEW, Estimate, NoInterval
from otel_turnavoid.publish.figures import counted, interval, of, per_pair, share, signed
from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.series import Finding, NullSeries, PairSeries

_MUCH: Final = 0.5
"""Share of pairs left out from which the mean says little about the whole."""

FINDINGS: Final = {
    Finding.NO_EFFECT_SEEN: "No effect seen",
    Finding.WITHIN_NOISE: "No effect beyond noise",
    Finding.FEWER_TURNS: "Fewer turns",
    Finding.MORE_TURNS: "More turns",
    Finding.UNDECIDED: "Not decided",
}
"""Each finding in words."""


class Conclusion(NamedTuple):
    """What one series shows, in sentences."""

    name: str
    counts: tuple[str, ...]
    """Of the ledger: of all pairs, then of those in the mean."""
    finding: str
    """With the mean and the interval that it rests on."""
    cautions: tuple[str, ...]
    """What to keep in mind."""
    kind: Finding


def named(one: PairSeries) -> str:
    """Return the name of a series for people."""
    apart = (clean(one.variant or ""), f"{one.evidence} evidence", one.comparison)
    return f"{one.arm} ({', '.join(filter(None, apart))})"


def conclude(one: PairSeries, noise: NullSeries | None) -> Conclusion:
    """Return what a series shows, held against the noise."""
    return Conclusion(
        name=named(one),
        counts=tuple(_counts(one)),
        finding=_finding(one),
        cautions=tuple(_cautions(one, noise)),
        kind=one.finding,
    )


def _counts(one: PairSeries) -> Iterator[str]:
    yield (
        f"{of(one.pairs, 'pair')}: {counted(one.avoided)} avoided, {counted(one.added)} added,"
        f" net {signed(one.net)}; {counted(one.withheld)} withheld."
    )
    if 0 < one.per_pair.pairs < one.pairs:
        yield (
            f"Of these {of(one.per_pair.pairs, 'pair')} without a cause to withhold:"
            f" {counted(one.avoided)} avoided, {counted(one.added_in_mean)} added,"
            f" net {signed(one.avoided - one.added_in_mean)}."
        )


def _finding(one: PairSeries) -> str:
    found, mean = FINDINGS[one.finding], one.per_pair
    if mean.low is None or mean.high is None:
        return f"{found}: {_undecided(mean)}."
    where = "includes 0" if mean.includes_zero else f"lies {'above' if mean.low > 0 else 'below'} 0"
    return (
        f"{found}: {per_pair(mean.mean)} turns saved per pair, and the"
        f" {share(mean.confidence)} interval, {interval(mean)}, {where}."
    )


def _cautions(one: PairSeries, noise: NullSeries | None) -> Iterator[str]:
    mean = one.per_pair
    if one.left_out:
        rest = ", which speaks of the smaller part only" if _MUCH < one.left_out_share < 1 else ""
        yield (
            f"{counted(one.left_out)} of {of(one.pairs, 'pair')} ({share(one.left_out_share)}) with"
            f" a cause to withhold {'is' if one.left_out == 1 else 'are'} not in the mean{rest}."
        )
    if mean.low is not None and mean.groups < FEW:
        hint = (
            "an effect could be there and not be seen"
            if mean.includes_zero
            else "take the interval as a hint"
        )
        yield f"{counted(mean.groups)} independent groups are few: {hint}."
    yield from _on_noise(one, noise)


def _on_noise(one: PairSeries, noise: NullSeries | None) -> Iterator[str]:
    if noise is None:
        yield "The noise is unknown: no two control runs of one input were compared."
        return
    if one.per_pair.pairs:
        here = one.avoided / one.per_pair.pairs
        beside = "not above" if here <= noise.floor else "above"
        yield (
            f'By chance, equal controls ({of(noise.pairs, "pair")}) "avoid" {noise.floor:.2f} turns'
            f" per pair; these pairs avoid {here:.2f}, {beside} that."
        )
    if noise.per_pair.includes_zero is False:
        yield (
            "The controls differ among themselves (their interval does not include 0): chance, or"
            " something else changed between the runs."
        )


def _undecided(mean: Estimate) -> str:
    if mean.mean is None:
        return "every pair has a cause to withhold, so there is no mean"
    known = f"on average {per_pair(mean.mean)} turns saved per pair"
    if mean.no_interval is NoInterval.NOT_INSTALLED:
        return f"{known}; no interval, because SciPy is not installed"
    if mean.no_interval is NoInterval.NO_SPREAD:
        return (
            f"{known}, the same in all {of(mean.groups, 'independent group')}; without any spread"
            " there is no interval"
        )
    return f"{known}, but all of one input or unit; an interval needs at least two"
