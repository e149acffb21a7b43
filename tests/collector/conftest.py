"""A running processor, and small agent runs as OTLP requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.collector.config import Config, parse
from otel_turnavoid.collector.processor import Processor

DEADLINE_S = 60.0
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

FREE_PORTS = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:0"}
      http: {endpoint: "localhost:0"}
processors: {turnavoid: {settle: 50ms}}
exporters: {prometheus: {endpoint: "localhost:0"}}
"""


@pytest.fixture
def config() -> Config:
    """Everything on free ports."""
    return parse(FREE_PORTS, env={})


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def processor(config: Config, ledger_url: str) -> Iterator[Processor]:
    with Processor(config, ledger_url=ledger_url) as running:
        yield running


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Return a condition's first true value, or fail at the deadline."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        tick = threading.Event()
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            tick.wait(0.02)
        return value

    return wait


def attributes(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in values.items()]


def any_value(value: Any) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))


@pytest.fixture
def run_request() -> Callable[..., ExportTraceServiceRequest]:
    """One whole declared run: an Invoke with ``turns`` AgentTurns of one LlmCall each."""

    def make(
        run_id: str, arm: str = "control", turns: int = 2, question: str = "q"
    ) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.extend(
            attributes({"service.name": "agent", "service.instance.id": "a"})
        )
        spans = resource.scope_spans.add()
        spans.scope.name = "otel_turnavoid"
        trace_id = sha256(run_id.encode()).digest()[:16]
        entries = 1 + 2 * turns

        def span(seq: int, name: str, start: int, end: int, values: dict[str, Any]) -> None:
            added = spans.spans.add()
            added.trace_id = trace_id
            added.span_id = (seq + 1).to_bytes(8, "big")
            if seq:
                added.parent_span_id = (1).to_bytes(8, "big")
            added.name = name
            added.kind = 1
            added.start_time_unix_nano = START + start * SECOND
            added.end_time_unix_nano = START + end * SECOND
            common = {"turnavoid.run.id": run_id, "turnavoid.seq": seq, "turnavoid.arm": arm}
            added.attributes.extend(attributes({**common, **values}))

        for turn in range(turns):
            span(
                2 * turn + 1,
                "agent_turn",
                turn,
                turn + 1,
                {"turnavoid.entry": "agent_turn", "turnavoid.turn.disposition": "committed"},
            )
            span(
                2 * turn + 2,
                "chat m",
                turn,
                turn + 1,
                {
                    "turnavoid.entry": "llm_call",
                    "turnavoid.call.attempt": 1,
                    "turnavoid.call.purpose": "agent",
                    "turnavoid.call.disposition": "committed",
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m",
                },
            )
        span(
            0,
            "invoke_agent a",
            0,
            turns + 1,
            {
                "turnavoid.entry": "invoke",
                "turnavoid.invoke.kind": "user_send",
                "turnavoid.invoke.state": "completed",
                "turnavoid.invoke.agent_turns": turns,
                "turnavoid.invoke.llm_calls": turns,
                "turnavoid.invoke.tool_turns": 0,
                "turnavoid.invoke.entries": entries,
                "turnavoid.input.digest": f"sha256:{sha256(question.encode()).hexdigest()}",
                "turnavoid.mechanism": arm,
                "turnavoid.lifecycle": "realized",
                "turnavoid.reason": "baseline" if arm == "control" else "exact-match",
            },
        )
        return request

    return make


@pytest.fixture
def effects_request() -> Callable[..., ExportLogsServiceRequest]:
    """What an observer saw of one run."""

    def make(run_id: str, *labels: str) -> ExportLogsServiceRequest:
        request = ExportLogsServiceRequest()
        resource = request.resource_logs.add()
        resource.resource.attributes.extend(
            attributes({"service.name": "observer", "service.instance.id": "o"})
        )
        record = resource.scope_logs.add().log_records.add()
        record.event_name = "turnavoid.effects.observed"
        record.time_unix_nano = START + SECOND
        record.attributes.extend(
            attributes(
                {
                    "turnavoid.run.id": run_id,
                    "turnavoid.observer.id": "observer/v1",
                    "turnavoid.effects.labels": labels or ("done",),
                }
            )
        )
        return request

    return make


@pytest.fixture
def metric() -> Callable[..., float | None]:
    """Return the sum of a metric's samples with the labels, read from a scrape."""

    def read(processor: Processor, name: str, **labels: str) -> float | None:
        text = httpx.get(processor.metrics_endpoints[0], timeout=60).text
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None

    return read
