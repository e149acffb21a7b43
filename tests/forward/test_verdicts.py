"""Verdicts go to the exporters of spans and log records, each once as long as nobody is killed."""

from __future__ import annotations

import httpx
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.forward import Signal
from otel_turnavoid.testing import observation, run_spans


def send(processor, signal: str, body: bytes) -> None:
    answer = httpx.post(
        f"{processor.http_endpoint}/v1/{signal}",
        content=body,
        headers={"content-type": "application/x-protobuf"},
        timeout=60,
    )
    assert answer.status_code == 200


def send_pair(processor, *, task: str = "Cancel order 42", turns: int = 1) -> None:
    for run_id, arm, count in (("control", "control", 3), ("candidate", "exact-reuse", turns)):
        name = f"{task}/{run_id}"
        send(processor, "traces", run_spans(run_id=name, arm=arm, turns=count, task=task))
        send(processor, "logs", observation(name))


def verdict_spans(backend):
    return [
        span
        for received in backend.received
        if received.signal is Signal.TRACES
        for resource in ExportTraceServiceRequest.FromString(received.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if span.name == "turnavoid.verdict"
    ]


def verdict_records(backend):
    return [
        record
        for received in backend.received
        if received.signal is Signal.LOGS
        for resource in ExportLogsServiceRequest.FromString(received.body).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
        if record.event_name == "turnavoid.verdict.decided"
    ]


def test_a_decided_pair_is_a_span_and_a_log_record_at_every_backend(
    grpc_backend, forwarding, until
) -> None:
    send_pair(forwarding(grpc_backend.endpoint))
    until(lambda: verdict_spans(grpc_backend) and verdict_records(grpc_backend))

    [span], [record] = verdict_spans(grpc_backend), verdict_records(grpc_backend)
    assert (record.trace_id, record.span_id) == (span.trace_id, span.span_id)


def test_its_links_are_the_root_spans_that_the_backend_has(grpc_backend, forwarding, until) -> None:
    send_pair(forwarding(grpc_backend.endpoint))
    until(lambda: verdict_spans(grpc_backend))

    spans = [
        span
        for received in grpc_backend.received
        if received.signal is Signal.TRACES
        for resource in ExportTraceServiceRequest.FromString(received.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    roots = {
        (span.trace_id, span.span_id) for span in spans if span.name.startswith("invoke_agent")
    }
    [verdict] = verdict_spans(grpc_backend)
    assert {(link.trace_id, link.span_id) for link in verdict.links} == roots


def test_a_restart_repeats_no_verdict_and_misses_none(grpc_backend, forwarding, until) -> None:
    first = forwarding(grpc_backend.endpoint)
    send_pair(first, task="one")
    first.stop()
    second = forwarding(grpc_backend.endpoint)
    send_pair(second, task="two")
    until(lambda: len(verdict_spans(grpc_backend)) >= 2)
    second.stop()

    spans = verdict_spans(grpc_backend)
    assert len(spans) == len({span.span_id for span in spans}) == 2


def test_what_was_decided_while_the_backend_was_dead_comes_when_it_is_back(
    grpc_backend, forwarding, until
) -> None:
    grpc_backend.stop()
    processor = forwarding(grpc_backend.endpoint)
    send_pair(processor)
    grpc_backend.start()

    until(lambda: verdict_spans(grpc_backend))


ALONE = """
receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:0"}}}}}}
processors: {{turnavoid: {{settle: 50ms}}}}
exporters:
  prometheus: {{endpoint: "127.0.0.1:0"}}
  otlp/x: {{endpoint: "{endpoint}", tls: {{insecure: true}}}}
service:
  pipelines:
    traces: {{receivers: [otlp], processors: [turnavoid]}}
    logs: {{receivers: [otlp], processors: [turnavoid]}}
    traces/verdicts: {{receivers: [turnavoid], exporters: [otlp/x]}}
    logs/verdicts: {{receivers: [turnavoid], exporters: [otlp/x]}}
    metrics: {{receivers: [turnavoid], exporters: [prometheus]}}
"""
"""Jaeger and the processor side by side: Jaeger has the spans, and wants the verdicts only."""


def test_a_pipeline_from_the_processor_carries_verdicts_and_nothing_that_was_received(
    grpc_backend, start, until
) -> None:
    processor = start(ALONE.format(endpoint=grpc_backend.endpoint))
    send_pair(processor)
    until(lambda: verdict_spans(grpc_backend) and verdict_records(grpc_backend))
    processor.stop()

    assert sorted(each.signal for each in grpc_backend.received) == [Signal.LOGS, Signal.TRACES]
    assert len(verdict_spans(grpc_backend)) == len(verdict_records(grpc_backend)) == 1
