"""Decides in the background: soon after commits, and often enough for every wait that ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from otel_turnavoid.collector import telemetry
from otel_turnavoid.errors import LedgerError

if TYPE_CHECKING:
    from otel_turnavoid.collector.telemetry import Telemetry

DEBOUNCE_S: Final = 0.1
"""Commits so close together share a round."""

BUSY_S: Final = 0.2
"""Time between rounds while keys settle."""

IDLE_S: Final = 1.0
"""Time between rounds otherwise: waits and expiries end without a commit."""

_logger = logging.getLogger(__name__)


class Decider:
    """Rounds of deciding in a thread, one at a time."""

    def __init__(
        self,
        decide: Callable[[], bool],
        executor: Executor,
        own: Telemetry,
        *,
        settle_s: float,
        decided: Callable[[], None],
    ) -> None:
        """Prepare; ``run`` does the work.

        Args:
            decide: One round, called in a thread; returns whether it decided anything.
            executor: Threads in which to wait for the ledger.
            own: Where to count.
            settle_s: How long after a commit its decisions may still wait, in seconds.
            decided: Called after each round that decided something.
        """
        self._decide = decide
        self._executor = executor
        self._own = own
        self._settle_s = settle_s
        self._decided = decided
        self._work = asyncio.Event()
        self._closed = asyncio.Event()
        self._busy_until = 0.0
        self._undecided_since: float | None = None
        self._failing = False

    def committed(self) -> None:
        """Hear that facts were committed."""
        now = time.monotonic()
        self._busy_until = now + self._settle_s + IDLE_S
        if self._undecided_since is None:
            self._undecided_since = now
        self._work.set()

    def lag_s(self) -> float:
        """Return the age of the oldest commit that no round has seen yet, in seconds."""
        since = self._undecided_since
        return 0.0 if since is None else time.monotonic() - since

    async def run(self) -> None:
        """Decide until closed, and once more then: what was accepted is decided if it is due."""
        closing = False
        while not closing:
            busy = time.monotonic() < self._busy_until
            if await _set(self._work, BUSY_S if busy else IDLE_S):
                await _set(self._closed, DEBOUNCE_S)
            self._work.clear()
            closing = self._closed.is_set()
            await self._round()

    def close(self) -> None:
        """End after one more round."""
        self._closed.set()
        self._work.set()

    async def _round(self) -> None:
        since, self._undecided_since = self._undecided_since, None
        began_s = time.perf_counter()
        try:
            grown = await asyncio.get_running_loop().run_in_executor(self._executor, self._decide)
        except Exception as error:  # noqa: BLE001 - deciding goes on with the next round
            self._undecided_since = since if since is not None else self._undecided_since
            self._failed(error)
            return
        self._own.record(telemetry.ROUND_DURATION, time.perf_counter() - began_s)
        if self._failing:
            self._failing = False
            _logger.info("the ledger decides again")
        if grown:
            self._decided()

    def _failed(self, error: Exception) -> None:
        self._own.count(telemetry.LEDGER_FAILURES)
        if self._failing:
            return
        self._failing = True
        if isinstance(error, LedgerError):
            _logger.error("the ledger cannot decide, will keep trying: %s", error)
        else:
            _logger.error("deciding failed, will keep trying", exc_info=error)


async def _set(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event; return whether it came in time."""
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except asyncio.TimeoutError:
        return False
    return True
