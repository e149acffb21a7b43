"""Group commit: everything that waits goes into the ledger in one transaction.

A commit costs a disk flush however small it is. Requests that arrive while one is under way
wait for the next and share it, so that throughput grows with load and an answer still means
that the request is durable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.errors import LedgerError, TurnAvoidError
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import Added

_logger = logging.getLogger(__name__)


class BusyError(TurnAvoidError):
    """As many requests wait as may wait, or the processor is stopping."""


Add = Callable[[Sequence[SpanFact], Sequence[Observation]], Added]
"""Commits facts and observations in one transaction; raises LedgerError."""


class Writer:
    """Commits batches, one transaction at a time, for any number of waiting requests."""

    def __init__(
        self,
        add: Add,
        executor: Executor,
        own: Telemetry,
        *,
        limit: int,
        committed: Callable[[], None],
    ) -> None:
        """Prepare; ``run`` does the work.

        Args:
            add: Takes facts into the ledger, called in a thread.
            executor: Threads in which to wait for the ledger.
            own: Where to count.
            limit: How many batches may wait.
            committed: Called after each commit.
        """
        self._add = add
        self._executor = executor
        self._own = own
        self._limit = limit
        self._committed = committed
        self._waiting: list[tuple[Batch, asyncio.Future[None]]] = []
        self._work = asyncio.Event()
        self._closed = False
        self._failing = False

    @property
    def waiting(self) -> int:
        """Batches that wait for the next commit."""
        return len(self._waiting)

    async def commit(self, batch: Batch) -> None:
        """Return when the batch is durable.

        Raises:
            BusyError: It was not even queued.
            LedgerError: The commit failed; nothing of the batch is in the ledger.
        """
        if self._closed or len(self._waiting) >= self._limit:
            raise BusyError("stopping" if self._closed else "too many requests wait for the ledger")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, done))
        self._work.set()
        await done

    async def run(self) -> None:
        """Commit until closed and nothing waits."""
        while not self._closed or self._waiting:
            await self._work.wait()
            self._work.clear()
            group, self._waiting = self._waiting, []
            # A sender that went away has no answer to wait for, and will send again.
            await self._commit([entry for entry in group if not entry[1].cancelled()])

    def close(self) -> None:
        """Take nothing more; ``run`` returns when what waits is committed."""
        self._closed = True
        self._work.set()

    async def _commit(self, group: list[tuple[Batch, asyncio.Future[None]]]) -> None:
        if not group:
            return
        error = await self._attempt([batch for batch, _ in group])
        if error is None or isinstance(error, LedgerError) or len(group) == 1:
            for _, done in group:
                _resolve(done, error)
            return
        # Not the ledger's own words: a bug that one of the batches runs into. Alone, each
        # batch can fail only for itself.
        for batch, done in group:
            _resolve(done, await self._attempt([batch]))

    async def _attempt(self, batches: list[Batch]) -> Exception | None:
        facts = [fact for batch in batches for fact in batch.facts]
        observations = [seen for batch in batches for seen in batch.observations]
        began_s = time.perf_counter()
        try:
            added = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._add, facts, observations
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the senders must hear of it
            self._failed(error)
            return error
        self._own.record(telemetry.BATCH_DURATION, time.perf_counter() - began_s)
        self._own.record(telemetry.BATCH_SIZE, len(batches))
        if self._failing:
            self._failing = False
            _logger.info("the ledger takes exports again")
        self._own.count(telemetry.FACTS, added.facts + added.observations)
        self._own.count(telemetry.DUPLICATES, added.duplicates)
        self._own.count(telemetry.LATE, added.late)
        self._committed()
        return None

    def _failed(self, error: Exception) -> None:
        self._own.count(telemetry.LEDGER_FAILURES)
        if not isinstance(error, LedgerError):
            _logger.error("exports cannot be committed", exc_info=error)
        elif not self._failing:
            self._failing = True
            _logger.error("the ledger takes no exports, senders are told to retry: %s", error)


def _resolve(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
