"""The accounts of a whole ledger, whoever decides for it: folded once, then as it grows."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from otel_turnavoid.publish.totals import Snapshot, Totals
from otel_turnavoid.store import Ledger

_STRETCH: Final = 200
"""Decisions between two pauses, in which threads that wait for this one get on."""

_PAUSE_S: Final = 0.002


class Counted(NamedTuple):
    """The accounts at one moment."""

    snapshot: Snapshot
    decisions: int
    """Id of the last decision that is in them."""
    of: int
    """Id of the last decision of the journal when it was last looked at."""
    contradicted: int
    """Verdicts that evidence which came later speaks against."""

    @property
    def whole(self) -> bool:
        """Whether all that was decided is in them."""
        return self.decisions >= self.of


class Counting:
    """Folds the journal; one thread counts at a time, any thread reads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._totals = Totals()
        self._last = self._of = self._contradicted = 0
        self._closed = threading.Event()

    def read_on(self) -> None:
        """Count what is new, to the end of the journal or until ``close``.

        Raises:
            LedgerError: The journal cannot be read.
        """
        with self._lock:
            self._of = self._ledger.last_decision()
            for number, decision in self._ledger.decisions(after=self._last):
                # Exports must not wait for a ledger that is counted for the first time.
                pause_s = _PAUSE_S if number % _STRETCH == 0 else 0.0
                if self._closed.wait(pause_s):
                    return
                # First the place, then the fold: what does not fit is met once.
                self._last = number
                self._totals.add(decision)
            for each in self._ledger.contradictions(after=self._contradicted):
                if self._closed.is_set():
                    return
                self._contradicted = each.order

    def close(self) -> None:
        """End counting, at once and for good."""
        self._closed.set()

    def counted(self) -> Counted:
        """Return the accounts as far as they are counted, without waiting."""
        return Counted(self._totals.snapshot(), self._last, self._of, self._contradicted)
