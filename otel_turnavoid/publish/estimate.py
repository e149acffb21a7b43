"""The mean turns saved per pair, and how far chance alone could have moved it.

Pairs are not independent of each other: arms share controls, one input is paired many times,
and the turns of one unit follow each other. So what counts as one independent piece of
evidence is a *group*: all pairs that are connected by an input digest or by a unit. The mean is
that of the pairs, as anybody can check on the ledger's counts; its standard error comes from
leaving out one group at a time (the delete-one-group jackknife), and the interval from
Student's t with as many degrees of freedom as there are groups, less one. With groups of equal
size this is exactly the t interval of the groups' means; with unequal ones it is the cautious
choice among the cluster-robust errors (MacKinnon, Nielsen and Webb, "Cluster-robust inference:
A guide to empirical practice", Journal of Econometrics 232, 2023; there CV3).

No chance is used and no sum depends on the order, so the same pairs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from math import fsum, sqrt
from typing import Final, NamedTuple

import msgspec

from otel_turnavoid.judge.run import Key
from otel_turnavoid.vocabulary import Word

CONFIDENCE: Final = 0.95
FEWEST: Final = 2
"""Groups below which nothing can be said about chance."""
FEW: Final = 10
"""Groups below which the interval leans hard on the assumption that they vary evenly."""
INSTALL: Final = "pip install 'otel-turnavoid[statistics]'"

_DIGITS: Final = 6
"""Decimals kept: more than anyone needs, fewer than platforms could differ in."""


class NoInterval(Word):
    """Why a mean stands without an interval."""

    TOO_FEW_GROUPS = "too-few-groups"
    NO_SPREAD = "no-spread"
    """All groups differ by the same, so nothing shows how far they could."""
    NOT_INSTALLED = "not-installed"
    """The optional statistics library is missing."""


class Difference(NamedTuple):
    """One pair: turns of its first run less turns of its second."""

    key: Key
    turns: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The mean signed turns per pair with its interval. Positive: the second run needed fewer."""

    pairs: int
    """That enter the mean."""
    groups: int
    """Of these, independent of each other."""
    mean: float | None
    """None without a pair."""
    low: float | None
    high: float | None
    confidence: float = CONFIDENCE
    no_interval: NoInterval | None = None
    """Why ``low`` and ``high`` are None."""

    @property
    def includes_zero(self) -> bool | None:
        """Whether chance alone explains the mean; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 0 <= self.high


def estimate(differences: Iterable[Difference]) -> Estimate:
    """Return the mean of the differences and its interval, in turns per pair."""
    groups = _groups(differences)
    pairs = sum(map(len, groups))
    if not pairs:
        return _without(groups, None, NoInterval.TOO_FEW_GROUPS)
    total = sum(map(sum, groups))
    mean = total / pairs
    if len(groups) < FEWEST:
        return _without(groups, mean, NoInterval.TOO_FEW_GROUPS)
    left_out = ((total - sum(group)) / (pairs - len(group)) for group in groups)
    squares = fsum((each - mean) ** 2 for each in left_out)
    if not squares:
        return _without(groups, mean, NoInterval.NO_SPREAD)
    quantile = _quantile(len(groups) - 1)
    if quantile is None:
        return _without(groups, mean, NoInterval.NOT_INSTALLED)
    half = quantile * sqrt((len(groups) - 1) / len(groups) * squares)
    return Estimate(
        pairs=pairs,
        groups=len(groups),
        mean=_rounded(mean),
        low=_rounded(mean - half),
        high=_rounded(mean + half),
    )


def _without(groups: list[list[int]], mean: float | None, why: NoInterval) -> Estimate:
    return Estimate(
        pairs=sum(map(len, groups)),
        groups=len(groups),
        mean=None if mean is None else _rounded(mean),
        low=None,
        high=None,
        no_interval=why,
    )


def _rounded(value: float) -> float:
    return round(value, _DIGITS) + 0.0


def _quantile(degrees: int) -> float | None:
    """Return how many standard errors the interval reaches; None without SciPy."""
    try:
        # Not scipy.stats: it asks this very function, and takes a second to import.
        from scipy.special import stdtrit  # noqa: PLC0415 - an extra, and only where it is needed
    except ImportError:
        return None
    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def _groups(differences: Iterable[Difference]) -> list[list[int]]:
    """Return the turns of the pairs by group: connected by a digest or by a unit."""
    found = list(differences)
    parents: dict[Hashable, Hashable] = {}

    def root(name: Hashable) -> Hashable:
        while (parent := parents.setdefault(name, name)) != name:
            parents[name] = parents[parent]
            name = parent
        return name

    for each in found:
        first, *others = _names(each.key)
        for other in others:
            parents[root(other)] = root(first)
    groups: dict[Hashable, list[int]] = {}
    for each in found:
        groups.setdefault(root(next(_names(each.key))), []).append(each.turns)
    return list(groups.values())


def _names(key: Key) -> Iterator[Hashable]:
    """Yield what a pair has in common with others that it is not independent of."""
    yield ("input", key.digest)
    if key.unit:
        yield ("unit", key.experiment, key.unit)
