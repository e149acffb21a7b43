"""Every exporter of traces and logs: what arrives here is durable, then sent to each of them.

All methods belong to one event loop, the processor's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from otel_turnavoid.forward.exporter import Exporter, Fate
from otel_turnavoid.forward.queue import QueueFullError, Ticket
from otel_turnavoid.forward.request import Request, Signal

NOWHERE: Final[Mapping[Signal, Iterable[Exporter]]] = {}


class Forwarder:
    """Queues requests for the exporters of their signal; without exporters it does nothing."""

    def __init__(self, exporters: Mapping[Signal, Iterable[Exporter]] = NOWHERE) -> None:
        """Prepare.

        Args:
            exporters: Those that a signal goes to; one may serve both.
        """
        self._exporters = {signal: tuple(each) for signal, each in exporters.items()}

    @property
    def exporters(self) -> tuple[Exporter, ...]:
        """Every exporter once."""
        return tuple(dict.fromkeys(each for group in self._exporters.values() for each in group))

    def takes(self, signal: Signal) -> bool:
        """Return whether anything is forwarded of a signal."""
        return bool(self._exporters.get(signal))

    async def offer(self, signal: Signal, body: bytes, items: int) -> None:
        """Queue a request of our own; at the return it is durable. Nowhere to send it is fine.

        Args:
            signal: What it carries.
            body: ``ExportTraceServiceRequest`` or ``ExportLogsServiceRequest`` in protobuf.
            items: Spans or log records in it.

        Raises:
            QueueFullError: A queue has no room; none took it.
            QueueError: A disk refused it; none took it.
        """
        await self.forward(Request(signal, body, items))

    async def forward(
        self, request: Request, commit: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Queue a request while ``commit`` runs; at the return both are durable.

        It is sent only if every queue took it and ``commit`` succeeded: a sender that has to
        come back does not have its request forwarded twice. Without room ``commit`` is not
        even begun.

        Raises:
            QueueFullError: A queue has no room; nothing was done.
            QueueError: A disk refused it; ``commit`` may have succeeded.
            Exception: What ``commit`` raised.
        """
        exporters = self._exporters.get(request.signal, ())
        entered = self._enter(request, exporters)
        waiting: list[Awaitable[None]] = [ticket.stored for _, ticket in entered]
        if commit is not None:
            waiting.append(commit())
        whole = False
        try:
            results = await asyncio.gather(*waiting, return_exceptions=True)
            whole = all(problem is None for problem in results)
        finally:
            for exporter, ticket in entered:
                if whole:
                    exporter.queue.release(ticket)
                else:
                    exporter.queue.withdraw(ticket)
        for (exporter, _), problem in zip(entered, results, strict=False):
            if problem is not None:
                exporter.count(Fate.ENQUEUE_FAILED, request.signal, request.items)
        for problem in results:
            if problem is not None:
                raise problem

    def start(self, failed: Callable[[], None] = lambda: None) -> None:
        """Start every exporter.

        Args:
            failed: Called where a part of one ended by a bug.
        """
        for exporter in self.exporters:
            exporter.start(failed)

    async def stop(self, grace_s: float) -> None:
        """Stop every exporter, all within ``grace_s`` seconds."""
        await asyncio.gather(*(exporter.stop(grace_s) for exporter in self.exporters))

    def _enter(
        self, request: Request, exporters: tuple[Exporter, ...]
    ) -> list[tuple[Exporter, Ticket]]:
        """Take a place in every queue or in none: nothing else runs in between."""
        written = [request.written(exporter.encoding) for exporter in exporters]
        for exporter, (_, body) in zip(exporters, written, strict=True):
            if not exporter.queue.has_room(len(body)):
                exporter.count(Fate.ENQUEUE_FAILED, request.signal, request.items)
                raise QueueFullError(f"the queue of {exporter.name} is full")
        return [
            (exporter, exporter.queue.enter(request.signal, encoding, request.items, body))
            for exporter, (encoding, body) in zip(exporters, written, strict=True)
        ]
