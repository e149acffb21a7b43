"""A ledger fed with OTLP bytes, and spans of other instrumentations to feed it with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import Batch, read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation

PROCESSOR_NS = 1_790_000_000 * SECOND
MS = 1_000_000


class Bench:
    """A processor without its network: what it is sent, what it decides, what it shows."""

    def __init__(self, url: str, settings: Settings | None = None) -> None:
        self.url = url
        self.settings = settings or Settings()
        self.ledger = Ledger.open(url)

    def configured(self, **settings: Any) -> Bench:
        """Go on under another configuration."""
        self.settings = Settings(**settings)
        return self

    def restart(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.url)

    def traces(self, *bodies: bytes, at: float = 0) -> list[Batch]:
        reader = Reader(self.settings)
        batches = [read_traces(body, reader) for body in bodies]
        for batch in batches:
            self.ledger.add(batch.facts, batch.observations, arrived_ns=_ns(at))
        return batches

    def observed(self, *run_ids: str, **options: Any) -> None:
        """An independent observer saw the usual effects of these runs, or those given."""
        for run_id in run_ids:
            seen = read_logs(observation(run_id, **options), Reader(self.settings))
            self.ledger.add([], seen.observations, arrived_ns=_ns(0))

    def pairs(self, at: float = 1, *, final: bool = True) -> list[tuple[int, int, int, str]]:
        """Decide, and return avoided, withheld, added and causes of each new pair."""
        made = self.ledger.decide(self.settings, now_ns=_ns(at), final=final)
        return [
            (each.avoided, each.withheld, each.added, " ".join(each.causes))
            for each in made
            if isinstance(each, PairDecided)
        ]

    def avoided(self) -> int:
        """Return what the whole journal adds up to."""
        decisions = (decision for _, decision in self.ledger.decisions())
        return sum(each.avoided for each in decisions if isinstance(each, PairDecided))

    def runs(self) -> dict[str, Run]:
        """Decide, and return every run by its id."""
        self.pairs()
        return {line.run.run_id: line.run for line in self.ledger.runs()}

    def outcomes(self) -> dict[str, str]:
        return {line.run.run_id: line.outcome.value for line in self.ledger.runs()}


def _ns(at: float) -> int:
    return PROCESSOR_NS + round(at * SECOND)


class Spans:
    """Spans as another instrumentation sends them, one after the other, in one process.

    ``resource`` may say what is true of the whole run: run id, arm, digest, lifecycle.
    """

    def __init__(self, resource: Mapping[str, Any] | None = None) -> None:
        self._resource = resource or {}
        self._sent: list[tuple[str, Span]] = []
        self._ids = count(1)
        self._now_ns = START_NS

    def add(
        self,
        attributes: Mapping[str, Any],
        parent: bytes = b"",
        *,
        scope: str = "s",
        trace: int = 1,
        ms: int = 10,
    ) -> bytes:
        """Add a span and return its id; with ``ms`` 0 it lasts over all that follows."""
        span_id = next(self._ids).to_bytes(8, "big")
        start_ns = self._now_ns
        self._now_ns += ms * MS
        span = Span(
            trace_id=_trace_id(self._resource.get("turnavoid.run.id"), trace),
            span_id=span_id,
            parent_span_id=parent,
            name="a span",
            start_time_unix_nano=start_ns,
            end_time_unix_nano=start_ns + (ms or 10_000) * MS,
            attributes=_key_values(attributes),
        )
        self._sent.append((scope, span))
        return span_id

    def request(self) -> bytes:
        scopes = sorted({scope for scope, _ in self._sent})
        parts = [
            ScopeSpans(
                scope=InstrumentationScope(name=name),
                spans=[span for scope, span in self._sent if scope == name],
            )
            for name in scopes
        ]
        resource = Resource(attributes=_key_values(self._resource))
        return ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=resource, scope_spans=parts)]
        ).SerializeToString()


def _trace_id(run_id: str | None, trace: int) -> bytes:
    return (run_id or "other").encode().ljust(8, b"-")[:8] + trace.to_bytes(8, "big")


def _key_values(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield bench
    bench.ledger.close()


@pytest.fixture
def spans() -> Callable[..., Spans]:
    return Spans


@pytest.fixture
def edited() -> Callable[[bytes, Callable[[Any], None]], bytes]:
    """Change the spans of an encoded request in place."""

    def change(body: bytes, edit: Callable[[Any], None]) -> bytes:
        request = ExportTraceServiceRequest.FromString(body)
        edit(request.resource_spans[0].scope_spans[0].spans)
        return request.SerializeToString()

    return change
