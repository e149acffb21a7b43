"""One export request, from its body to its answer; the same for every protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Final

from otel_turnavoid import otlp
from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.answer import (
    Accepted,
    Answer,
    Encoding,
    Refused,
    Signal,
    Trouble,
    shortened,
)
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.writer import BusyError, Writer
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp import Batch

OFFLOAD_BYTES: Final = 16 * 1024
"""Bodies above this are decoded in a thread: the event loop has others to answer meanwhile."""

_READ: Final[dict[Signal, Callable[[bytes, Reader], Batch]]] = {
    Signal.TRACES: otlp.read_traces,
    Signal.LOGS: otlp.read_logs,
}
_FROM_JSON: Final[dict[Signal, Callable[[bytes], bytes]]] = {
    Signal.TRACES: otlp.traces_from_json,
    Signal.LOGS: otlp.logs_from_json,
}
_ACCEPTED: Final = {
    Signal.TRACES: telemetry.ACCEPTED_SPANS,
    Signal.LOGS: telemetry.ACCEPTED_RECORDS,
}
_REFUSED: Final = {
    Signal.TRACES: telemetry.REFUSED_SPANS,
    Signal.LOGS: telemetry.REFUSED_RECORDS,
}
_OUTCOMES: Final = {
    Trouble.BAD_DATA: telemetry.Outcome.REFUSED,
    Trouble.TOO_LARGE: telemetry.Outcome.REFUSED,
    Trouble.UNAVAILABLE: telemetry.Outcome.FAILURE,
    Trouble.INTERNAL: telemetry.Outcome.FAILURE,
}

_logger = logging.getLogger(__name__)


class Budget:
    """Bytes of request bodies that may be in hand at once, over all connections."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], bool]]:
        """Yield a function that asks for more bytes; what it was given is given back at the end.

        A request alone is never refused: whatever its own limit allows can be taken.
        """
        mine = 0

        def more(size: int) -> bool:
            nonlocal mine
            if self._held + size > self._limit and self._held > mine:
                return False
            mine += size
            self._held += size
            return True

        try:
            yield more
        finally:
            self._held -= mine


class Intake:
    """Decodes, commits, counts and answers."""

    def __init__(self, reader: Reader, writer: Writer, executor: Executor, own: Telemetry) -> None:
        self._reader = reader
        self._writer = writer
        self._executor = executor
        self._own = own

    async def take(
        self, body: bytes, signal: Signal, transport: str, encoding: Encoding = Encoding.PROTOBUF
    ) -> Answer:
        """Return the answer to one export; what is accepted is durable by then. Raises nothing."""
        batch = None
        try:
            batch = await self.offload(len(body), lambda: self._decode(body, signal, encoding))
            if batch.facts or batch.observations:
                await self._writer.commit(batch)
            answer: Answer = Accepted(batch.rejected, shortened(batch.problem))
        except InputError as error:
            answer = Refused(Trouble.BAD_DATA, shortened(str(error)))
        except BusyError as error:
            answer = Refused(Trouble.UNAVAILABLE, str(error))
        except Exception as error:
            if batch is None:
                _logger.exception("a request cannot be decoded because of a bug")
                answer = Refused(Trouble.INTERNAL, f"bug: {type(error).__name__} in decoding")
            else:
                # The ledger's words can name files and hosts: they are for the log.
                answer = Refused(Trouble.UNAVAILABLE, "the ledger cannot be written now")
        self._count(batch, answer, signal, transport)
        return answer

    def refuse(self, refused: Refused, signal: Signal, transport: str) -> Refused:
        """Count a request that a protocol refused before its body was whole."""
        self._count(None, refused, signal, transport)
        return refused

    async def offload(self, size: int, work: Callable[[], Batch]) -> Batch:
        """Run ``work`` here where ``size`` bytes are few, else in a thread."""
        if size <= OFFLOAD_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _decode(self, body: bytes, signal: Signal, encoding: Encoding) -> Batch:
        if encoding is Encoding.JSON:
            body = _FROM_JSON[signal](body)
        return _READ[signal](body, self._reader)

    def _count(self, batch: Batch | None, answer: Answer, signal: Signal, transport: str) -> None:
        outcome = (
            _OUTCOMES[answer.trouble]
            if isinstance(answer, Refused)
            else (telemetry.Outcome.SUCCESS)
        )
        self._own.count(telemetry.REQUESTS, 1, transport, signal.value, outcome.value)
        if batch is None:
            return
        items = batch.spans + batch.records
        refused = batch.rejected if isinstance(answer, Accepted) else items
        self._own.count(_REFUSED[signal], refused, transport)
        self._own.count(_ACCEPTED[signal], items - refused, transport)
        if isinstance(answer, Accepted):
            self._own.count(telemetry.IGNORED, batch.ignored)
