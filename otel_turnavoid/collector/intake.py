"""One export request, from its body to its answer; the same for every protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

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
from otel_turnavoid.collector.auth import Credential
from otel_turnavoid.collector.complaints import Complaints
from otel_turnavoid.collector.permits import permitted
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.writer import BusyError, Writer
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError, TooLargeError
from otel_turnavoid.forward import Forwarder, QueueError, QueueFullError, Request
from otel_turnavoid.otlp import Batch, Limits

OFFLOAD_BYTES: Final = 16 * 1024
"""Bodies above this are decoded in a thread: the event loop has others to answer meanwhile."""

_READ: Final[dict[Signal, Callable[..., Batch]]] = {
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

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class Intake:
    """Decodes, commits, counts and answers."""

    def __init__(  # noqa: PLR0913 - the parts that it joins
        self,
        reader: Reader,
        writer: Writer,
        executor: Executor,
        own: Telemetry,
        forwarder: Forwarder | None = None,
        *,
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._complaints = Complaints()
        self._forwarder = forwarder or Forwarder()
        self._reader = reader
        self._writer = writer
        self._executor = executor
        self._own = own

    async def take(
        self,
        body: bytes,
        signal: Signal,
        transport: str,
        encoding: Encoding = Encoding.PROTOBUF,
        caller: Credential | None = None,
    ) -> Answer:
        """Return the answer to one export; what is accepted is durable by then. Raises nothing."""
        batch = None
        began_s = time.perf_counter()
        try:
            batch, request = await self.offload(
                len(body), lambda: self._decode(body, signal, encoding, caller)
            )
            batch, barred = permitted(batch, caller)
            if caller is not None and barred:
                self._own.count(telemetry.REFUSED_BY_ROLE, barred, caller.role.value)
                what = f"some {signal.value} of {caller.subject} are refused"
                self._complaints.add(f"{what}: its role is {caller.role}")
            await self._keep(batch, request)
            answer: Answer = Accepted(batch.rejected, shortened(batch.problem))
        except TooLargeError as error:
            answer = Refused(Trouble.TOO_LARGE, shortened(str(error)))
        except InputError as error:
            answer = Refused(Trouble.BAD_DATA, shortened(str(error)))
        except BusyError as error:
            answer = Refused(Trouble.UNAVAILABLE, str(error))
        except QueueFullError:
            answer = Refused(Trouble.UNAVAILABLE, "too many requests wait to be forwarded")
        except QueueError:
            answer = Refused(Trouble.UNAVAILABLE, "requests to forward cannot be kept now")
        except Exception as error:
            if batch is None:
                _logger.exception("a request cannot be decoded because of a bug")
                answer = Refused(Trouble.INTERNAL, f"bug: {type(error).__name__} in decoding")
            else:
                # The ledger's words can name files and hosts: they are for the log.
                answer = Refused(Trouble.UNAVAILABLE, "the ledger cannot be written now")
        self._count(batch, answer, signal, transport)
        self._own.record(telemetry.REQUEST_DURATION, time.perf_counter() - began_s, transport)
        return answer

    def refuse(self, refused: Refused, signal: Signal, transport: str) -> Refused:
        """Count a request that a protocol refused before its body was whole."""
        self._count(None, refused, signal, transport)
        return refused

    async def offload(self, size: int, work: Callable[[], _T]) -> _T:
        """Run ``work`` here where ``size`` bytes are few, else in a thread."""
        if size <= OFFLOAD_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _decode(
        self, body: bytes, signal: Signal, encoding: Encoding, caller: Credential | None
    ) -> tuple[Batch, Request]:
        json = body if encoding is Encoding.JSON else None
        if json is not None:
            otlp.check_json(json)
            body = _FROM_JSON[signal](json)
        role = caller and caller.role.value
        batch = _READ[signal](body, self._reader, role=role, limits=self._limits)
        return batch, Request(signal, body, batch.spans + batch.records, json)

    async def _keep(self, batch: Batch, request: Request) -> None:
        """Return when the facts are in the ledger and the request is in every queue."""
        about_agents = bool(batch.facts or batch.observations)
        if request.items and self._forwarder.takes(request.signal):
            commit = (lambda: self._writer.commit(batch)) if about_agents else None
            await self._forwarder.forward(request, commit)
        elif about_agents:
            await self._writer.commit(batch)

    def _count(self, batch: Batch | None, answer: Answer, signal: Signal, transport: str) -> None:
        outcome = (
            _OUTCOMES[answer.trouble]
            if isinstance(answer, Refused)
            else (telemetry.Outcome.SUCCESS)
        )
        self._own.count(telemetry.REQUESTS, 1, transport, signal.value, outcome.value)
        self._complain(answer, signal, transport)
        if batch is None:
            return
        items = batch.spans + batch.records
        refused = batch.rejected if isinstance(answer, Accepted) else items
        self._own.count(_REFUSED[signal], refused, transport)
        self._own.count(_ACCEPTED[signal], items - refused, transport)
        if isinstance(answer, Accepted):
            self._own.count(telemetry.IGNORED, batch.ignored)

    def _complain(self, answer: Answer, signal: Signal, transport: str) -> None:
        """Say that something was refused: senders may not, the Python SDK's look at no answer.

        Without the reason's own words, which may quote what was sent.
        """
        if isinstance(answer, Refused):
            line = f"requests with {signal.value} over {transport} are refused"
            self._complaints.add(f"{line}: {answer.trouble.value}")
        elif answer.rejected:
            self._complaints.add(f"some {signal.value} over {transport} are refused singly")
