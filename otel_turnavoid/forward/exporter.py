"""One backend: its queue, the consumers that empty it, and what became of each request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from opentelemetry import context
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
)

from otel_turnavoid.forward.backoff import Backoff, RetryPolicy
from otel_turnavoid.forward.outcome import Delivered, Failed, Outcome, Retry, Sender
from otel_turnavoid.forward.queue import Queue
from otel_turnavoid.forward.queue_file import QueueError
from otel_turnavoid.forward.request import Encoding, Signal, Stored
from otel_turnavoid.forward.spell import Spell
from otel_turnavoid.vocabulary import Word

_UNREADABLE_WAIT_S: Final = 1.0

_logger = logging.getLogger(__name__)


class Fate(Word):
    """What became of spans or log records on their way to one backend."""

    SENT = "sent"
    SEND_FAILED = "send_failed"
    """Refused by the backend for good, or given up; lost to it."""
    ENQUEUE_FAILED = "enqueue_failed"
    """Not taken, for want of room or disk; their sender was told to come back."""


Count = Callable[[Fate, str, Signal, int], None]
"""Takes a fate, the name of the exporter, the signal, and a number of items."""


class Delivery(NamedTuple):
    """How an exporter sends."""

    encoding: Encoding = Encoding.PROTOBUF
    """What the backend takes."""
    retry: RetryPolicy = RetryPolicy()
    """How to go on after trouble."""
    consumers: int = 10
    """Requests sent at once."""


class Exporter:
    """Sends what its queue holds, from ``start`` to ``stop``."""

    def __init__(
        self,
        name: str,
        queue: Queue,
        sender: Sender,
        count: Count,
        delivery: Delivery = Delivery(),  # noqa: B008 - it cannot be changed
    ) -> None:
        """Prepare.

        Args:
            name: The id in the configuration, for logs and counts.
            queue: Closed by ``stop``.
            sender: Closed by ``stop``.
            count: Told of what became of everything.
            delivery: How to send.
        """
        self.name = name
        self.queue = queue
        self.encoding = delivery.encoding
        self._sender = sender
        self._count = count
        self._retry = delivery.retry
        self._consumers = delivery.consumers
        self._writing: asyncio.Task[None] | None = None
        self._sending: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._trouble = Spell(time.monotonic)
        self._dropping = Spell(time.monotonic)
        self._dropped = 0

    def start(self, failed: Callable[[], None] = lambda: None) -> None:
        """Write and send in the background of the running event loop.

        Args:
            failed: Called where a part of it ended by a bug, which is logged.
        """
        if len(self.queue):
            _logger.info("%s: %d requests are queued from last time", self.name, len(self.queue))
        quiet = context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)  # noqa: FBT003  # a value
        quiet = context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, quiet)  # noqa: FBT003
        # Spans about sending spans would come back to be sent.
        token = context.attach(quiet)
        try:
            self._writing = asyncio.create_task(self.queue.run())
            self._sending = [asyncio.create_task(self._consume()) for _ in range(self._consumers)]
        finally:
            context.detach(token)

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                _logger.critical("%s: forwarding ended because of a bug", self.name, exc_info=error)
                failed()

        for task in (self._writing, *self._sending):
            task.add_done_callback(ended)

    def count(self, fate: Fate, signal: Signal, items: int) -> None:
        """Count what became of some items of this exporter."""
        if items:
            self._count(fate, self.name, signal, items)

    async def stop(self, grace_s: float) -> None:
        """Send what waits for up to ``grace_s`` seconds; the rest stays for the next start.

        Where the backend is in trouble nothing is waited for.
        """
        self._stopping.set()
        self.queue.drain()
        if self._sending:
            _, late = await asyncio.wait(self._sending, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if len(self.queue):
            _logger.info("%s: %d requests stay queued", self.name, len(self.queue))
        self.queue.close()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self.queue.release_file()
        await self._sender.close()

    async def _consume(self) -> None:
        while not (self._stopping.is_set() and self._trouble.on):
            try:
                request = await self.queue.take()
            except QueueError as error:
                self._note(str(error))
                await self._pause(_UNREADABLE_WAIT_S)
                continue
            if request is None:
                return
            await self._deliver(request)

    async def _deliver(self, request: Stored) -> None:
        backoff = Backoff(self._retry, time.monotonic)
        while True:
            outcome = await self._attempt(request)
            if not isinstance(outcome, Retry):
                break
            self._note(outcome.reason)
            wait_s = backoff.wait_s(outcome.after_s)
            if wait_s is None:
                outcome = Failed(f"given up after {outcome.reason}")
                break
            if await self._pause(wait_s):
                self.queue.give_back(request)
                return
        if isinstance(outcome, Failed):
            self._lose(request.signal, request.items, outcome.reason)
        else:
            self._arrived(request, outcome)
        self.queue.done(request)

    async def _attempt(self, request: Stored) -> Outcome:
        try:
            return await self._sender.send(request)
        except Exception as error:
            # Whatever it is, what was acknowledged must not be lost to a bug of ours.
            if not self._trouble.on:
                _logger.exception("%s: sending failed because of a bug", self.name)
            return Retry(f"bug: {type(error).__name__}")

    async def _pause(self, wait_s: float) -> bool:
        """Wait; return whether the exporter is stopping."""
        try:
            await asyncio.wait_for(self._stopping.wait(), wait_s)
        except asyncio.TimeoutError:
            return False
        return True

    def _arrived(self, request: Stored, delivered: Delivered) -> None:
        rejected = min(delivered.rejected, request.items)
        self.count(Fate.SENT, request.signal, request.items - rejected)
        if rejected:
            self._lose(request.signal, rejected, "refused singly by the backend")
            return
        if self._dropping.end():
            _logger.info("%s: nothing is dropped any more; %d were", self.name, self._dropped)
            self._dropped = 0
        if self._trouble.end():
            _logger.info("%s: the backend takes exports again", self.name)

    def _lose(self, signal: Signal, items: int, reason: str) -> None:
        self.count(Fate.SEND_FAILED, signal, items)
        if self._dropping.begin():
            _logger.error("%s: %s are dropped, the first %d: %s", self.name, signal, items, reason)
        self._dropped += items

    def _note(self, trouble: str) -> None:
        """Say once that a trouble began."""
        if self._trouble.begin():
            _logger.warning("%s: the backend takes no exports: %s", self.name, trouble)
