"""A provider with the span processor on it, and what the ledger makes of its spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from otel_turnavoid.dialects import Reader
from otel_turnavoid.instrument.framework import TurnAvoidSpanProcessor
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.store import Ledger


class Switch(SpanProcessor):
    """Passes spans on to the processors of the test that runs now."""

    def __init__(self) -> None:
        self.targets: list[SpanProcessor] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        for target in self.targets:
            target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        for target in self.targets:
            target.on_end(span)


class Bench:
    """One process with the span processor, an exporter, and a ledger at the other end."""

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:///{folder / 'ledger.db'}"
        self._exporter = InMemorySpanExporter()
        self._processors: list[TurnAvoidSpanProcessor] = []
        self.provider = self.add_provider()

    def add_provider(
        self,
        *,
        sampler: Sampler = ALWAYS_ON,
        limits: SpanLimits | None = None,
        other_calls: bool = False,
    ) -> TracerProvider:
        """Make a provider whose spans go to the same ledger, and make it the one to use."""
        self.provider = TracerProvider(
            sampler=sampler,
            resource=Resource({"service.name": "agent"}),
            span_limits=limits,
            shutdown_on_exit=False,
        )
        processor = TurnAvoidSpanProcessor(other_calls=other_calls)
        self._processors.append(processor)
        self.provider.add_span_processor(processor)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        return self.provider

    def use(self, provider: TracerProvider, switch: Switch) -> None:
        """Take a provider that outlives this test, its spans for the time being."""
        processor = TurnAvoidSpanProcessor()
        self._processors.append(processor)
        switch.targets = [processor, SimpleSpanProcessor(self._exporter)]
        self.provider = provider

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Ended spans, in that order."""
        return self._exporter.get_finished_spans()

    def deliver(self, spans: Sequence[ReadableSpan]) -> None:
        """Let these spans be all that arrives."""
        self._exporter.clear()
        self._exporter.export(spans)

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of a name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def runs(self) -> dict[str, Run]:
        """Send all spans to the ledger, and return the runs that it then knows."""
        batch = read_traces(encode_spans(self.spans).SerializeToString(), Reader())
        with Ledger.open(self._url) as ledger:
            ledger.add(batch.facts, batch.observations, arrived_ns=1)
            ledger.decide(Settings(), now_ns=2, final=True)
            return {line.run.run_id: line.run for line in ledger.runs()}

    def close(self) -> None:
        """Stop watching."""
        for processor in self._processors:
            processor.shutdown()


@pytest.fixture(scope="session")
def switched() -> tuple[TracerProvider, Switch]:
    """A provider for instrumentations that can be switched on only once in a process."""
    provider, switch = TracerProvider(shutdown_on_exit=False), Switch()
    provider.add_span_processor(switch)
    return provider, switch


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def make_bench() -> Callable[[Path], Bench]:
    """Make benches of one's own, many in one test."""
    return Bench
