"""The engine in the agent's process: requests in, a ledger, decisions in the background, totals."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.accounts import known
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.store import Ledger

DEBOUNCE_S: Final = 0.1
"""Exports so close together share a round of deciding."""

BUSY_S: Final = 0.25
"""Time between rounds while keys settle."""

IDLE_S: Final = 5.0
"""Time between rounds otherwise: waits and expiries end without an export."""

_logger = logging.getLogger(__name__)


class Engine:
    """An open ledger with a thread that decides; safe to use from any thread.

    Args:
        url: The ledger.
        settings: How to read and judge.
        clock: Nanoseconds since the epoch.

    Raises:
        LedgerError: The ledger cannot be opened.
    """

    def __init__(
        self, url: str, settings: Settings, *, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self.ledger: Final = Ledger.open(url)
        self.totals: Final = Totals(known(settings), named=settings.labels)
        """The accounts so far: a fold of the ledger's journal."""
        self._settings = settings
        self._clock = clock
        self._reader = Reader(settings)
        self._deciding = threading.Lock()
        self._last = 0
        self._contradicted: set[int] = set()
        self._work = threading.Event()
        self._closed = threading.Event()
        self._busy_until = 0.0
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="turnavoid-decider", daemon=True)
        self._thread.start()

    def add(self, request: bytes) -> None:
        """Commit what a serialized ``ExportTraceServiceRequest`` says.

        Raises:
            TurnAvoidError: It cannot be read, or the ledger cannot be written.
        """
        batch = read_traces(request, self._reader)
        if batch.rejected:
            _logger.warning("%s", batch.problem)
        if batch.facts or batch.observations:
            self.ledger.add(batch.facts, batch.observations, arrived_ns=self._clock())
            settle_s = self._settings.settle_ns / SECOND
            self._busy_until = time.monotonic() + settle_s + 2 * BUSY_S
            self._work.set()

    def decide(self, *, settled: bool = False) -> None:
        """Judge what is due and fold the new decisions into the totals.

        Args:
            settled: Whether to take every pair with all its evidence for quiet: nothing more
                comes from here.

        Raises:
            LedgerError: The ledger cannot be used.
        """
        with self._deciding:
            now_ns = self._clock()
            if settled:
                now_ns += self._settings.settle_ns
            self.ledger.decide(self._settings, now_ns=now_ns)
            self._read_on()

    def close(self) -> None:
        """Decide a last time and close the ledger; safe twice.

        Raises:
            LedgerError: The ledger cannot be used.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        self._work.set()
        self._thread.join()
        try:
            self.decide(settled=True)
        finally:
            self.ledger.close()

    def _read_on(self) -> None:
        for number, decision in self.ledger.decisions(after=self._last):
            self._last = number
            self.totals.add(decision)
        for number, pair in self.ledger.contradicted().items():
            if number <= self._last and number not in self._contradicted:
                self._contradicted.add(number)
                self.totals.add_contradiction(pair)

    def _run(self) -> None:
        # Instrumentations of databases must not make spans of the ledger's own work.
        context_api.attach(context_api.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # noqa: FBT003 - a value
        while not self._closed.is_set():
            busy = time.monotonic() < self._busy_until
            if self._work.wait(BUSY_S if busy else IDLE_S):
                self._closed.wait(DEBOUNCE_S)
            self._work.clear()
            self._round()

    def _round(self) -> None:
        try:
            self.decide()
        except Exception as error:  # noqa: BLE001 - deciding goes on with the next round
            if not self._failing:
                self._failing = True
                _logger.error("the ledger cannot decide, will keep trying: %s", error)  # noqa: TRY400 - one line
            return
        if self._failing:
            self._failing = False
            _logger.info("the ledger decides again")
