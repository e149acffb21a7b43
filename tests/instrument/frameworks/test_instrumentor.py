"""What ``opentelemetry-instrument`` loads."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

from otel_turnavoid import invoke


@pytest.fixture
def instrumentor() -> Any:
    """The instrumentor, found as auto-instrumentation finds it."""
    [entry_point] = entry_points(group="opentelemetry_instrumentor", name="turnavoid")
    return entry_point.load()()


def declared_calls(provider: TracerProvider, exporter: InMemorySpanExporter) -> list[Any]:
    with invoke("a", arm="control", input="task", tracer_provider=provider):
        span = provider.get_tracer("framework").start_span("chat")
        span.set_attribute("gen_ai.operation.name", "chat")
        span.end()
    return [
        span.attributes["turnavoid.invoke.llm_calls"]
        for span in exporter.get_finished_spans()
        if span.attributes and "turnavoid.invoke.llm_calls" in span.attributes
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_the_calls_of_a_framework_are_counted_once(instrumentor: Any, times: int) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for _ in range(times):
        instrumentor.instrument(tracer_provider=provider, skip_dep_check=True)

    assert declared_calls(provider, exporter) == [1]


def test_a_provider_without_an_sdk_is_left_alone(instrumentor: Any) -> None:
    instrumentor.instrument(tracer_provider=NoOpTracerProvider())
