"""What instrumented code emits, recorded in memory with counted ids and a stepped clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from otel_turnavoid.testing.runs import START_NS
from otel_turnavoid.vocabulary import SERVICE_INSTANCE_ID, SERVICE_NAME

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.trace import Span, Tracer

SECOND: Final = 1_000_000_000
"""Nanoseconds."""


class CountingIds(IdGenerator):
    """Trace ids 1, 2, 3… and span ids 1, 2, 3…, in the order in which spans start.

    Args:
        first: The first of both. Give two recorders that end up in one ledger different ones.
    """

    def __init__(self, first: int = 1) -> None:
        self._trace_ids = count(first)
        self._span_ids = count(first)

    def generate_trace_id(self) -> int:
        """Return the next trace id."""
        return next(self._trace_ids)

    def generate_span_id(self) -> int:
        """Return the next span id."""
        return next(self._span_ids)


class SteppedClock:
    """A clock that moves one step each time it is read, and never by itself.

    Args:
        start_ns: The first reading, nanoseconds since the epoch.
        step_ns: How far each reading moves it.
    """

    def __init__(self, start_ns: int = START_NS, step_ns: int = SECOND) -> None:
        self._readings = count(start_ns, step_ns)

    def __call__(self) -> int:
        """Return the time in nanoseconds and move on."""
        return next(self._readings)


class Telemetry:
    """Providers that keep what they are given; pass them to the code under test.

    Args:
        service: ``service.name`` of the resource.
        instance: ``service.instance.id`` of the resource.
        clock: Reads the start and end of spans; default: a ``SteppedClock`` from ``START_NS``.
        ids: Makes the ids of spans; default: ``CountingIds`` from 1.
        resource: More resource attributes.

    Attributes:
        tracer_provider: Give it to ``invoke(tracer_provider=…)`` or set it globally.
        logger_provider: Give it to ``Observer(logger_provider=…)``.
        clock: The clock, for times of one's own.
    """

    def __init__(
        self,
        *,
        service: str = "agent",
        instance: str = "agent-1",
        clock: SteppedClock | None = None,
        ids: IdGenerator | None = None,
        resource: dict[str, str] | None = None,
    ) -> None:
        described = Resource(
            {SERVICE_NAME: service, SERVICE_INSTANCE_ID: instance, **(resource or {})}
        )
        self.clock = clock or SteppedClock()
        self._span_exporter = InMemorySpanExporter()
        self.tracer_provider: TracerProvider = _ClockedProvider(
            self.clock,
            resource=described,
            id_generator=ids or CountingIds(),
            shutdown_on_exit=False,
        )
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._span_exporter))
        self._log_exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call] # the SDK's
        self.logger_provider = LoggerProvider(resource=described, shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._log_exporter))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Ended spans in the order in which they ended."""
        return self._span_exporter.get_finished_spans()

    @property
    def records(self) -> Sequence[ReadableLogRecord]:
        """Emitted log records in order."""
        return self._log_exporter.get_finished_logs()

    def trace_request(self) -> bytes:
        """Return the ended spans as an encoded ``ExportTraceServiceRequest``."""
        return encode_spans(self.spans).SerializeToString()

    def logs_request(self) -> bytes:
        """Return the log records as an encoded ``ExportLogsServiceRequest``."""
        return encode_logs(self.records).SerializeToString()

    def clear(self) -> None:
        """Forget what was recorded so far; ids and clock go on."""
        self._span_exporter.clear()
        self._log_exporter.clear()


class _ClockedProvider(TracerProvider):
    """A provider whose spans read a given clock instead of the system's."""

    def __init__(self, clock: SteppedClock, **options: Any) -> None:
        super().__init__(**options)
        self._clock = clock

    def get_tracer(self, *args: Any, **options: Any) -> Tracer:
        tracer = super().get_tracer(*args, **options)
        return _clocked(tracer, self._clock)


def _clocked(tracer: Tracer, clock: SteppedClock) -> Tracer:
    """Make a tracer and its spans take the times that they are not given from ``clock``."""
    plain_start = tracer.start_span

    def start_span(*args: Any, **options: Any) -> Span:
        options["start_time"] = options.get("start_time") or clock()
        span = plain_start(*args, **options)
        plain_end = span.end

        def end(end_time: int | None = None) -> None:
            plain_end(end_time or clock())

        span.end = end  # type: ignore[method-assign] # the SDK has no other way to give it a clock
        return span

    tracer.start_span = start_span  # type: ignore[method-assign] # as above
    return tracer
