"""A bounded, durable first-in-first-out queue of requests.

Bodies lie in a file; memory holds an id and a size for each, and the bodies of those that are
being sent. Requests that arrive while the disk works share the next transaction, so that a
flush of the disk is paid once for many.

All methods belong to one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from otel_turnavoid.errors import TurnAvoidError
from otel_turnavoid.forward.queue_file import QueueError, QueueFile, Slot
from otel_turnavoid.forward.request import Encoding, Signal, Stored

IN_FLIGHT_BYTES: Final = 64 << 20
"""Bodies in memory at once for sending; one alone may be larger."""

_GATHERING_S: Final = 0.02
"""How long removals wait for company."""

_PATIENCE_S: Final = 1.0
"""Between attempts at removing what the disk would not let go."""

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class QueueFullError(TurnAvoidError):
    """As much waits as may wait."""


class Ticket:
    """A place in a queue: durable once ``stored`` is done, sent only once released."""

    def __init__(self, request: Stored, stored: asyncio.Future[None]) -> None:
        self.request = request
        self.stored = stored
        """Raises QueueError where the disk refused; the place is gone then."""


class Queue:
    """One exporter's queue; ``run`` does the writing."""

    def __init__(self, file: QueueFile, *, max_requests: int, max_bytes: int) -> None:
        """Take up what the file holds.

        Args:
            file: Closed by ``close``, and where it cannot be read.
            max_requests: How many requests may wait.
            max_bytes: How many bytes of bodies may wait; a request alone may be larger.

        Raises:
            QueueError: The file cannot be read.
        """
        self.max_requests = max_requests
        self._max_bytes = max_bytes
        self._file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnavoid-queue")
        try:
            slots = file.slots()
        except QueueError:
            file.close()
            raise
        self._sizes = {slot.id: slot.size for slot in slots}
        self._bytes = sum(self._sizes.values())
        self._next_id = slots[-1].id + 1 if slots else 1
        self._ready: deque[tuple[Slot, Stored | None]] = deque((slot, None) for slot in slots)
        self._in_flight = 0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._entering: list[Ticket] = []
        self._leaving: list[int] = []
        self._work = asyncio.Event()
        self._draining = False
        self._closed = False
        self._failing = False

    def __len__(self) -> int:
        """Return how many requests wait or are being sent."""
        return len(self._sizes)

    def has_room(self, size: int) -> bool:
        """Return whether a body of ``size`` bytes can enter."""
        if self._closed:
            return False
        fits = self._bytes + size <= self._max_bytes or not self._sizes
        return fits and len(self._sizes) < self.max_requests

    def enter(self, signal: Signal, encoding: Encoding, items: int, body: bytes) -> Ticket:
        """Take a place at once; it is durable when the ticket's ``stored`` is done.

        Raises:
            QueueFullError: There is no room.
        """
        if not self.has_room(len(body)):
            raise QueueFullError("the queue is closed" if self._closed else "the queue is full")
        request = Stored(self._next_id, signal, encoding, items, body)
        self._next_id += 1
        self._sizes[request.id] = len(body)
        self._bytes += len(body)
        ticket = Ticket(request, asyncio.get_running_loop().create_future())
        self._entering.append(ticket)
        self._work.set()
        return ticket

    def release(self, ticket: Ticket) -> None:
        """Let a stored request be sent."""
        request = ticket.request
        slot = Slot(request.id, len(request.body))
        # Whoever waits for work gets the body from memory: no need to read what was just written.
        handed = bool(self._takers) and self._affordable(slot.size)
        if handed:
            self._in_flight += slot.size
        self._ready.append((slot, request if handed else None))
        self._wake()

    def withdraw(self, ticket: Ticket) -> None:
        """Take a request out again that is not released; nothing where it was never stored."""
        if ticket in self._entering:
            self._entering.remove(ticket)
            self._forget(ticket.request.id)
        elif ticket.request.id in self._sizes:
            self._leave(ticket.request.id)
        ticket.stored.cancel()

    async def take(self) -> Stored | None:
        """Return the next request to send, waiting for one; None once the queue is drained.

        Raises:
            QueueError: The file cannot be read now; the request keeps its place.
        """
        while not self._takeable():
            if self._draining and not self._ready:
                return None
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        slot, request = self._ready.popleft()
        if request is None:
            self._in_flight += slot.size
            try:
                request = await self._in_thread(lambda: self._file.read(slot.id))
            except BaseException:
                self._in_flight -= slot.size
                self._ready.appendleft((slot, None))
                raise
        if self._ready:
            self._wake()
        return request

    def done(self, request: Stored) -> None:
        """Remove a request that was taken: it arrived, or never will."""
        self._in_flight -= len(request.body)
        self._leave(request.id)
        self._wake()

    def give_back(self, request: Stored) -> None:
        """Keep a request that was taken for the next start."""
        self._in_flight -= len(request.body)
        self._wake()

    async def run(self) -> None:
        """Write until closed and nothing is left to write."""
        while not self._closed or self._entering or self._leaving:
            await self._work.wait()
            self._work.clear()
            entering, self._entering = self._entering, []
            leaving, self._leaving = self._leaving, []
            if not entering and not leaving:
                continue
            error = await self._write([ticket.request for ticket in entering], leaving)
            if error is None:
                for number in leaving:
                    self._forget(number)
            elif not self._closed:
                self._leaving[:0] = leaving
                asyncio.get_running_loop().call_later(_PATIENCE_S, self._work.set)
            for ticket in entering:
                if error is not None:
                    self._forget(ticket.request.id)
                if not ticket.stored.done():
                    if error is None:
                        ticket.stored.set_result(None)
                    else:
                        ticket.stored.set_exception(error)

    def drain(self) -> None:
        """From now on ``take`` waits for nothing new."""
        self._draining = True
        for taker in self._takers:
            if not taker.done():
                taker.set_result(None)

    def close(self) -> None:
        """Take nothing more; ``run`` returns when what is known is written."""
        self._closed = True
        self._work.set()

    async def release_file(self) -> None:
        """Close the file; after ``run`` has returned."""
        await self._in_thread(self._file.close)
        self._thread.shutdown(wait=False)

    async def _write(self, added: list[Stored], removed: list[int]) -> Exception | None:
        emptied = not added and len(removed) == len(self._sizes)

        def write() -> None:
            self._file.write(added, removed)
            if emptied:
                self._file.give_back_space()

        try:
            await self._in_thread(write)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            if not self._failing:
                _logger.warning(
                    "senders are told to retry, their requests cannot be kept: %s", error
                )
            self._failing = True
            return error
        if self._failing:
            self._failing = False
            _logger.info("%s: the queue can be written again", self._file.path)
        return None

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _takeable(self) -> bool:
        """Return whether the first that waits is in memory already, or may be read."""
        if not self._ready:
            return False
        slot, request = self._ready[0]
        return request is not None or self._affordable(slot.size)

    def _affordable(self, size: int) -> bool:
        return self._in_flight == 0 or self._in_flight + size <= IN_FLIGHT_BYTES

    def _leave(self, number: int) -> None:
        # Removals need no hurry: they go with what enters next, or gather for a moment.
        if not self._leaving:
            asyncio.get_running_loop().call_later(_GATHERING_S, self._work.set)
        self._leaving.append(number)

    def _forget(self, number: int) -> None:
        self._bytes -= self._sizes.pop(number, 0)

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
