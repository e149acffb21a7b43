"""Follows the ledger's journal of decisions: into the totals, the log, and to who waits for it.

Totals are folded from the journal and from nothing else, at the start and as it grows, so that
a restart neither resets nor repeats them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.logs import said_by
from otel_turnavoid.judge.accounts import known
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided
from otel_turnavoid.publish.metrics import totals_form
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.store.shares import Totals as SavedTotals

if TYPE_CHECKING:
    from otel_turnavoid.collector.telemetry import Telemetry
    from otel_turnavoid.collector.tenure import Held, Tenure
    from otel_turnavoid.judge.settings import Settings
    from otel_turnavoid.store import Ledger
    from otel_turnavoid.store.shares import Author

TRACES_SHOWN: Final = 4

SAVED_TOGETHER: Final = 10_000
"""Decisions after which what they come to is kept: at most so many are folded at a start."""

_logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """The accounts of one share of the journal, published as series of their own."""

    share: int
    totals: Totals


class Journal:
    """The shares of the journal that are held, as far as they were read; for any thread."""

    def __init__(
        self,
        ledger: Ledger,
        tenure: Tenure,
        settings: Settings,
        own: Telemetry,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock = clock
        self._ledger = ledger
        self._tenure = tenure
        self._settings = settings
        self._own = own
        self._lock = threading.Lock()
        self._last = 0
        self._readings: dict[Held, _Reading] = {}

    def parts(self) -> list[Part]:
        """Return what may be published now, the share that this process decides for first."""
        readings = self._readings
        return [
            Part(held.share, readings[held].totals)
            for held in self._tenure.published()
            if held in readings
        ]

    def read_on(self) -> bool:
        """Fold what is new in what is held, and return whether anything new was decided at all.

        What was decided before this process held a share is folded without a word; of what
        it decides itself each new verdict is said once.

        Raises:
            LedgerError: The journal cannot be read.
        """
        with self._lock:
            last = self._ledger.last_decision()
            readings = {}
            for held in self._tenure.held():
                before = self._readings.get(held)
                readings[held] = before or self._begin(held)
                for decision in readings[held].read_on(last):
                    if before is not None and held.working:
                        self._say(decision, readings[held].totals)
                readings[held].save(self._tenure.author_of(held.share))
            self._readings = readings
            grown, self._last = last > self._last, last
            return grown

    def _begin(self, held: Held) -> _Reading:
        # Series that are known beforehand exist from the start; what is only kept does not grow,
        # so there they would be no more than ballast.
        settings = self._settings
        totals = Totals(known(settings) if held.working else (), named=settings.labels)
        return _Reading(self._ledger, held.share, totals, totals_form(settings.labels))

    def _say(self, decision: Decision, totals: Totals) -> None:
        self._own.count(telemetry.DECISIONS, 1, _kind(decision))
        if isinstance(decision, PairDecided):
            if _logger.isEnabledFor(logging.INFO):
                said = said_by("pair decided", verdict(decision))
                _logger.info("%s", verdict_line(decision), extra=said)
            totals.exemplify(decision, self._clock())


class _Reading:
    """One share of the journal, and how far it was folded."""

    def __init__(self, ledger: Ledger, share: int, totals: Totals, form: str) -> None:
        self.totals = totals
        self._ledger = ledger
        self._share = share
        self._form = form
        self._last = self._last_contradiction = 0
        self._unsaved = 0
        saved = ledger.saved_totals(share, form)
        if saved is not None:
            totals.resume(saved.body)
            self._last, self._last_contradiction = saved.decision, saved.contradiction

    def read_on(self, last: int) -> Iterator[Decision]:
        """Fold what is new, and yield its decisions.

        Contradictions only of verdicts up to ``last``: a verdict is shown before what
        speaks against it.
        """
        for number, decision in self._ledger.decisions(after=self._last, share=self._share):
            # First the place, then the fold: a decision that does not fit its instruments (a
            # bug) must not be met again and again.
            self._last = number
            self._unsaved += 1
            try:
                self.totals.add(decision)
            except ValueError:
                _logger.exception("decision %d cannot be published", number)
            yield decision
        met = self._ledger.contradictions(after=self._last_contradiction, share=self._share)
        for order, number, pair in met:
            if number > last:
                return
            self._last_contradiction = order
            self.totals.add_contradiction(pair)

    def save(self, author: Author) -> None:
        """Keep in the ledger what was folded, where that is much: a start goes on from there."""
        if self._unsaved >= SAVED_TOGETHER:
            self._unsaved = 0
            place = self._last, self._last_contradiction
            self._ledger.save_totals(author, SavedTotals(*place, self._form, self.totals.save()))


class Bell:
    """Wakes everybody who waits for the journal to grow; for one event loop."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Return what the next ``ring`` sets; ask before looking, so that none is missed."""
        return self._next

    def ring(self) -> None:
        """Wake everybody."""
        rung, self._next = self._next, asyncio.Event()
        rung.set()


def verdict_line(pair: PairDecided) -> str:
    """Return a verdict in one line: ids, counts and causes, no content.

    Ids come from senders; as JSON strings they can neither break the line nor pretend to be one.
    """
    return "pair decided: " + " ".join(
        f"{key}={json.dumps(value, separators=(',', ':'))}" for key, value in verdict(pair).items()
    )


def verdict(pair: PairDecided) -> dict[str, Any]:
    """Return what is said of a verdict."""
    return {
        "arm": pair.candidate.arm,
        "avoided": pair.avoided,
        "withheld": pair.withheld,
        "added": pair.added,
        "causes": list(pair.causes),
        "control": pair.control.run_id,
        "candidate": pair.candidate.run_id,
        "control_traces": pair.control.trace_ids[:TRACES_SHOWN],
        "candidate_traces": pair.candidate.trace_ids[:TRACES_SHOWN],
    }


def _kind(decision: Decision) -> str:
    if isinstance(decision, PairDecided):
        return "pair"
    return "null" if isinstance(decision, NullDecided) else "run"
