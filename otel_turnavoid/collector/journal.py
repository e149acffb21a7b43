"""Follows the ledger's journal of decisions: into the totals, the log, and to who waits for it.

Totals are folded from the journal and from nothing else, at the start and as it grows, so that
a restart neither resets nor repeats them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Final

from otel_turnavoid.collector import telemetry
from otel_turnavoid.judge.accounts import contradiction
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided

if TYPE_CHECKING:
    from otel_turnavoid.collector.telemetry import Telemetry
    from otel_turnavoid.publish.totals import Totals
    from otel_turnavoid.store import Ledger

TRACES_SHOWN: Final = 4

_logger = logging.getLogger(__name__)


class Journal:
    """The journal as far as it was read; ``read_on`` may be called from any thread."""

    def __init__(self, ledger: Ledger, totals: Totals, own: Telemetry) -> None:
        self._ledger = ledger
        self._totals = totals
        self._own = own
        self._lock = threading.Lock()
        self._last = 0
        self._last_contradiction = 0

    def catch_up(self) -> None:
        """Fold what was decided before this process started.

        Raises:
            LedgerError: The journal cannot be read.
        """
        with self._lock:
            for number, decision in self._ledger.decisions():
                self._fold(number, decision)
            self._fold_contradictions()

    def read_on(self) -> bool:
        """Fold what is new, say each new verdict once, and return whether there was any.

        Raises:
            LedgerError: The journal cannot be read.
        """
        with self._lock:
            before = self._last
            for number, decision in self._ledger.decisions(after=before):
                self._fold(number, decision)
                self._own.count(telemetry.DECISIONS, 1, _kind(decision))
                if isinstance(decision, PairDecided):
                    _logger.info("%s", verdict_line(decision))
            self._fold_contradictions()
            return self._last > before

    def _fold(self, number: int, decision: Decision) -> None:
        # First the place, then the fold: a decision that does not fit its instruments (a bug)
        # must not be met again and again.
        self._last = number
        try:
            self._totals.add(decision)
        except ValueError:
            _logger.exception("decision %d cannot be published", number)

    def _fold_contradictions(self) -> None:
        for order, number, pair in self._ledger.contradictions(after=self._last_contradiction):
            if number > self._last:
                return  # the verdict itself is read first, next time
            self._last_contradiction = order
            self._totals.add_posting(contradiction(pair))


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
    said = {
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
    return "pair decided: " + " ".join(
        f"{key}={json.dumps(value, separators=(',', ':'))}" for key, value in said.items()
    )


def _kind(decision: Decision) -> str:
    if isinstance(decision, PairDecided):
        return "pair"
    return "null" if isinstance(decision, NullDecided) else "run"
