"""Sends shipments at a pace, with as many workers as asked for, and does what receivers ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from otel_turnavoid.forward import Encoding, RetryPolicy, Signal
from otel_turnavoid.forward.backoff import Backoff
from otel_turnavoid.forward.outcome import Delivered, Outcome, Retry, Sender
from otel_turnavoid.forward.request import Stored
from otel_turnavoid.loadgen.generating import Export, Shipment
from otel_turnavoid.loadgen.tally import Tally

LATE_S = 0.0005
"""Waits shorter than this are not worth a turn of the event loop."""


class Senders(Protocol):
    """Who speaks to the receiver, for each signal."""

    def __getitem__(self, signal: Signal) -> Sender:
        """Return the sender of a signal."""


class Pace(NamedTuple):
    """How fast, and how long."""

    runs_per_s: float = 0.0
    """Runs to start a second; 0 is as fast as the receiver answers."""
    workers: int = 8
    """Shipments under way at once."""
    duration_s: float | None = None
    """When no new shipment is begun; None goes on to the end of the plan."""
    retry: RetryPolicy = RetryPolicy(initial_interval_s=0.5, max_interval_s=5, max_elapsed_s=30)
    """How to go on after trouble; never earlier than the receiver asks."""


class Load:
    """One load, from ``run`` to its end; a request that fails for good ends it early."""

    def __init__(
        self,
        shipments: Iterable[Shipment],
        senders: Senders,
        pace: Pace,
        *,
        arrived: Callable[[Shipment], None] = lambda _: None,
    ) -> None:
        """Prepare.

        Args:
            shipments: What to send.
            senders: Over which to send it; whoever made them closes them.
            pace: How fast.
            arrived: Told of each shipment when all of it is acknowledged.
        """
        self.tally = Tally()
        self._coming = iter(shipments)
        self._senders = senders
        self._pace = pace
        self._arrived = arrived
        self._started_s = 0.0
        self._begun = 0
        self._ended = asyncio.Event()

    async def run(self) -> Tally:
        """Send everything, and return what became of it."""
        self._started_s = time.perf_counter()
        workers = [asyncio.create_task(self._work()) for _ in range(self._pace.workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            self.tally.elapsed_s = time.perf_counter() - self._started_s
        return self.tally

    def end(self) -> None:
        """Begin no more shipments."""
        self._ended.set()

    async def _work(self) -> None:
        while not self._ended.is_set():
            shipment = next(self._coming, None)
            if shipment is None or not await self._is_time(shipment):
                return
            delivered = True
            for export in shipment.exports:
                for _ in range(2 if export.again else 1):
                    delivered = delivered and await self._deliver(export)
            if delivered:
                self.tally.arrive(shipment)
                self._arrived(shipment)

    async def _is_time(self, shipment: Shipment) -> bool:
        """Wait until a shipment is due; return whether it is to be sent at all."""
        due_s = 0.0
        if self._pace.runs_per_s:
            due_s = self._begun / self._pace.runs_per_s
        self._begun += shipment.runs
        now_s = time.perf_counter() - self._started_s
        ends_s = self._pace.duration_s
        if ends_s is not None and max(due_s, now_s) >= ends_s:
            return False
        if due_s > now_s + LATE_S:
            try:
                await asyncio.wait_for(self._ended.wait(), due_s - now_s)
            except asyncio.TimeoutError:
                return True
            return False
        if self._pace.runs_per_s:
            self.tally.behind_s = max(self.tally.behind_s, now_s - due_s)
        return True

    async def _deliver(self, export: Export) -> bool:
        """Send a request until it is acknowledged or fails for good; return which."""
        signal = Signal(export.signal)
        request = Stored(0, signal, Encoding.PROTOBUF, export.items, export.body)
        backoff = Backoff(self._pace.retry, time.monotonic)
        began_s = time.perf_counter()
        while True:
            outcome: Outcome = await self._senders[signal].send(request)
            if isinstance(outcome, Delivered):
                latency_s = time.perf_counter() - began_s
                self.tally.acknowledge(export, latency_s, outcome.rejected)
                return True
            reason = outcome.reason
            if isinstance(outcome, Retry):
                wait_s = backoff.wait_s(outcome.after_s)
                if wait_s is not None:
                    self.tally.retried += 1
                    await asyncio.sleep(wait_s)
                    continue
                reason = f"given up after {reason}"
            self.tally.failed[reason] += 1
            self.end()
            return False
