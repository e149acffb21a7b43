"""Totals: the fold of postings into the series that are published.

Totals know nothing of runs, pairs or transports. They add amounts, so the same postings in any
order give the same figures: whole numbers are ints, and sums of seconds or money are kept
exactly and rounded once, when they are read.
"""

from __future__ import annotations

import math
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from otel_turnavoid.errors import UsageError
from otel_turnavoid.judge.accounts import Labels, Posting, postings
from otel_turnavoid.judge.verdict import Decision
from otel_turnavoid.vocabulary import INSTRUMENTS, Instrument, Kind

CARDINALITY_LIMIT: Final = 2000
"""Series per instrument, the overflow series included (OpenTelemetry's default)."""

OVERFLOW_KEY: Final = "otel.metric.overflow"
OVERFLOW: Final[Labels] = ((OVERFLOW_KEY, "true"),)
"""Labels of the series that takes what no longer has room for a series of its own."""

REAL_UNITS: Final = frozenset({"s", "{USD}"})
"""Units of amounts that may be fractions; all others count things."""

_SCALE: Final = 1 << 1074
"""Every finite float is a whole multiple of 1 / _SCALE (the smallest subnormal)."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a histogram series holds; observations themselves are not kept."""

    counts: tuple[int, ...]
    """Per bucket, not cumulated; one more than the instrument's upper bounds (inclusive)."""
    sum: int | float

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)


class Series(NamedTuple):
    """One series of an instrument at the moment of a snapshot."""

    labels: Labels
    value: int | float | Distribution


class Family(NamedTuple):
    """An instrument and all its series, sorted by labels, the overflow series last."""

    instrument: Instrument
    series: tuple[Series, ...]


class Snapshot(NamedTuple):
    """All families at one moment, in the order of the vocabulary; immutable."""

    families: tuple[Family, ...]

    def series(self, instrument: Instrument) -> tuple[Series, ...]:
        """Return the series of one instrument."""
        return next(
            (family.series for family in self.families if family.instrument == instrument), ()
        )

    def value(self, instrument: Instrument, labels: Labels) -> int | float | Distribution | None:
        """Return the value of one series, None where there is no such series."""
        return dict(self.series(instrument)).get(labels)


class Totals:
    """Series of every instrument, folded from postings; safe to use from any thread.

    ``known`` are series that exist at 0 from the start; their values are not added. A decision
    is added whole or, where a posting of it is wrong, not at all, and no snapshot shows half.
    """

    def __init__(self, known: Iterable[Posting] = (), *, limit: int = CARDINALITY_LIMIT) -> None:
        if limit < 1:
            raise UsageError(f"the cardinality limit must be at least 1 (got {limit})")
        self._limit = limit
        self._lock = threading.Lock()
        self._cells: dict[Instrument, dict[Labels, _Cell]] = {each: {} for each in INSTRUMENTS}
        for posting in known:
            self._cell(posting)

    def add(self, decision: Decision) -> None:
        """Add everything that a decision posts."""
        self.add_postings(postings(decision))

    def add_posting(self, posting: Posting) -> None:
        """Add one posting."""
        self.add_postings((posting,))

    def add_postings(self, found: Iterable[Posting]) -> None:
        """Add postings together: all of them, or none where one of them is wrong.

        Raises:
            UsageError: A posting does not fit its instrument.
        """
        whole = tuple(found)
        for posting in whole:
            _check_amount(posting)
        with self._lock:
            cells = [self._cell(posting) for posting in whole]
            for cell, posting in zip(cells, whole, strict=True):
                cell.add(posting.value)

    def snapshot(self) -> Snapshot:
        """Return all series as they are now."""
        with self._lock:
            return Snapshot(
                tuple(
                    Family(
                        instrument,
                        tuple(
                            Series(labels, cells[labels].read())
                            for labels in sorted(cells, key=lambda each: (each == OVERFLOW, each))
                        ),
                    )
                    for instrument, cells in self._cells.items()
                )
            )

    def _cell(self, posting: Posting) -> _Cell:
        cells = self._cells.get(posting.instrument)
        if cells is None:
            raise UsageError(f"{posting.instrument.name}: no instrument of the vocabulary")
        cell = cells.get(posting.labels)
        if cell is not None:
            return cell
        _check_labels(posting)
        labels = posting.labels
        if len(cells) - (OVERFLOW in cells) >= self._limit - 1:
            labels = OVERFLOW
        return cells.setdefault(labels, _new_cell(posting.instrument))


class _Count:
    """A sum of whole numbers."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, amount: float) -> None:
        self._sum += int(amount)

    def read(self) -> int:
        return self._sum


class _Amount:
    """An exact sum of floats, rounded once; so it does not depend on the order of adding."""

    def __init__(self) -> None:
        self._scaled = 0

    def add(self, amount: float) -> None:
        numerator, denominator = amount.as_integer_ratio()
        self._scaled += numerator * (_SCALE // denominator)

    def read(self) -> float:
        try:
            return self._scaled / _SCALE
        except OverflowError:
            return sys.float_info.max if self._scaled > 0 else -sys.float_info.max


class _Histogram:
    """Observations by bucket."""

    def __init__(self, bounds: tuple[float, ...], total: _Count | _Amount) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = total

    def add(self, amount: float) -> None:
        self._counts[bisect_left(self._bounds, amount)] += 1
        self._total.add(amount)

    def read(self) -> Distribution:
        return Distribution(tuple(self._counts), self._total.read())


_Cell = _Count | _Amount | _Histogram


def _new_cell(instrument: Instrument) -> _Cell:
    total = _Amount() if instrument.unit in REAL_UNITS else _Count()
    if instrument.kind is Kind.HISTOGRAM:
        return _Histogram(instrument.bounds, total)
    return total


def _check_amount(posting: Posting) -> None:
    instrument, amount = posting.instrument, posting.value
    if not math.isfinite(amount):
        raise UsageError(f"{instrument.name}: an amount must be finite (got {amount})")
    if amount < 0 and instrument.kind is not Kind.UP_DOWN:
        raise UsageError(f"{instrument.name}: a {instrument.kind} never falls (got {amount})")
    if instrument.unit not in REAL_UNITS and amount != int(amount):
        raise UsageError(f"{instrument.name}: {instrument.unit} are counted whole (got {amount})")


def _check_labels(posting: Posting) -> None:
    instrument, labels = posting.instrument, posting.labels
    keys = [key for key, _ in labels]
    if unknown := sorted(set(keys).difference(instrument.labels)):
        raise UsageError(
            f"{instrument.name}: {', '.join(unknown)} is no label of it"
            f" (labels: {', '.join(instrument.labels)})"
        )
    if any(key >= following for key, following in pairwise(keys)):
        raise UsageError(
            f"{instrument.name}: labels must be sorted and unique (got {', '.join(keys)})"
        )
