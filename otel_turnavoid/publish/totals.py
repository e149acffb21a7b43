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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from otel_turnavoid.errors import UsageError
from otel_turnavoid.judge.accounts import Labels, Posting, contradiction, postings
from otel_turnavoid.judge.settings import RunLabel
from otel_turnavoid.judge.verdict import Decision, PairDecided
from otel_turnavoid.vocabulary import CONFIGURED_LABELS, INSTRUMENTS, Instrument, Kind, Metric

CARDINALITY_LIMIT: Final = 2000
"""Series per instrument, the overflow series included (OpenTelemetry's default)."""

OVERFLOW_KEY: Final = "otel.metric.overflow"
OVERFLOW: Final[Labels] = ((OVERFLOW_KEY, "true"),)
"""Labels of the series that takes what no longer has room for a series of its own."""

REAL_UNITS: Final = frozenset({"s", "{USD}"})
"""Units of amounts that may be fractions; all others count things."""

EXEMPLIFIED: Final = frozenset({Metric.TURNS_AVOIDED, Metric.TURNS_WITHHELD, Metric.TURNS_ADDED})
"""Instruments whose series name a latest event."""

_SavedRow = tuple[str, Labels, list[str]]
"""Name of the instrument, labels, and the numbers of a series in hexadecimal."""

_LARGEST: Final = 2**63 - 1
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


class Exemplar(NamedTuple):
    """One event that a series counts, to be looked at where traces are."""

    trace_id: str
    span_id: str
    """The root of the candidate's run."""
    value: float
    """What it added."""
    at_ns: int


class Series(NamedTuple):
    """One series of an instrument at the moment of a snapshot."""

    labels: Labels
    value: int | float | Distribution


class Family(NamedTuple):
    """An instrument and all its series, sorted by labels, the overflow series last."""

    instrument: Instrument
    series: tuple[Series, ...]
    exemplars: Mapping[Labels, Exemplar] = MappingProxyType({})
    """The latest event of some of the series, by labels."""


class Snapshot(NamedTuple):
    """All families at one moment, in the order of the vocabulary; immutable."""

    families: tuple[Family, ...]

    def family(self, instrument: Instrument) -> Family:
        """Return one instrument with its series."""
        found = (family for family in self.families if family.instrument == instrument)
        return next(found, Family(instrument, ()))

    def series(self, instrument: Instrument) -> tuple[Series, ...]:
        """Return the series of one instrument."""
        return self.family(instrument).series

    def value(self, instrument: Instrument, labels: Labels) -> int | float | Distribution | None:
        """Return the value of one series, None where there is no such series."""
        return dict(self.series(instrument)).get(labels)


class Totals:
    """Series of every instrument, folded from postings; safe to use from any thread.

    ``known`` are series that exist at 0 from the start; their values are not added. A decision
    is added whole or, where a posting of it is wrong, not at all, and no snapshot shows half.
    ``named`` are labels that name the run of a decision, added to everything that it posts.
    """

    def __init__(
        self,
        known: Iterable[Posting] = (),
        *,
        named: Collection[RunLabel] = (),
        limit: int = CARDINALITY_LIMIT,
    ) -> None:
        if limit < 1:
            raise UsageError(f"the cardinality limit must be at least 1 (got {limit})")
        self._limit = limit
        self._named = named
        self._lock = threading.Lock()
        self._cells: dict[Instrument, dict[Labels, _Cell]] = {each: {} for each in INSTRUMENTS}
        self._exemplars: dict[Instrument, dict[Labels, Exemplar]] = {
            each: {} for each in INSTRUMENTS if each in EXEMPLIFIED
        }
        for posting in known:
            self._cell(posting)

    def add(self, decision: Decision) -> None:
        """Add everything that a decision posts."""
        self.add_postings(postings(decision, self._named))

    def exemplify(self, pair: PairDecided, at_ns: int) -> None:
        """Name a verdict, which was added, as the latest event of the series that it posts to.

        Exemplars are for looking at: they are not saved, and no figure depends on them.

        Args:
            pair: Of which the candidate's first root is named; without one nothing happens.
            at_ns: When it was decided, in nanoseconds since the epoch.
        """
        if not pair.candidate.roots:
            return
        trace_id, span_id = pair.candidate.roots[0]
        with self._lock:
            for instrument, labels, value in postings(pair, self._named):
                if instrument in EXEMPLIFIED and labels in self._cells[instrument]:
                    named = Exemplar(trace_id, span_id, value, at_ns)
                    self._exemplars[instrument][labels] = named

    def add_contradiction(self, pair: PairDecided) -> None:
        """Add a verdict that later evidence speaks against."""
        self.add_posting(contradiction(pair, self._named))

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
                        dict(self._exemplars[instrument]) if instrument in EXEMPLIFIED else {},
                    )
                    for instrument, cells in self._cells.items()
                )
            )

    def save(self) -> bytes:
        """Return everything that was added, exactly, for ``resume``."""
        with self._lock:
            saved = [
                (instrument.name, labels, [hex(number) for number in cell.save()])
                for instrument, cells in self._cells.items()
                for labels, cell in cells.items()
            ]
        return msgspec.json.encode(saved)

    def resume(self, saved: bytes) -> None:
        """Go on from what ``save`` returned, with nothing added yet.

        Raises:
            UsageError: It is not what totals of this form save; nothing was changed.
        """
        instruments = {each.name: each for each in INSTRUMENTS}
        try:
            rows = msgspec.json.decode(saved, type=list[_SavedRow])
            found = [
                (instruments[name], labels, [int(number, 16) for number in numbers])
                for name, labels, numbers in rows
            ]
        except (KeyError, ValueError) as error:
            raise UsageError(f"saved totals cannot be read: {error}") from None
        with self._lock:
            for instrument, labels, numbers in found:
                if labels == OVERFLOW:
                    cells = self._cells[instrument]
                    cell = cells.setdefault(OVERFLOW, _new_cell(instrument))
                else:
                    cell = self._cell(Posting(instrument, labels, 0))
                cell.resume(numbers)

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
        # OTLP and its readers have no more.
        return max(-_LARGEST, min(self._sum, _LARGEST))

    def save(self) -> list[int]:
        return [self._sum]

    def resume(self, numbers: list[int]) -> None:
        self._sum += numbers[0]


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

    def save(self) -> list[int]:
        return [self._scaled]

    def resume(self, numbers: list[int]) -> None:
        self._scaled += numbers[0]


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

    def save(self) -> list[int]:
        return [*self._total.save(), *self._counts]

    def resume(self, numbers: list[int]) -> None:
        self._total.resume(numbers[:1])
        self._counts = [one + other for one, other in zip(self._counts, numbers[1:], strict=True)]


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
    if unknown := sorted(set(keys).difference(instrument.labels, CONFIGURED_LABELS)):
        raise UsageError(
            f"{instrument.name}: {', '.join(unknown)} is no label of it"
            f" (labels: {', '.join(instrument.labels)})"
        )
    if any(key >= following for key, following in pairwise(keys)):
        raise UsageError(
            f"{instrument.name}: labels must be sorted and unique (got {', '.join(keys)})"
        )
