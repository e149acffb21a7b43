"""The processor as a whole: from exports to published totals, over restarts, and its end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import grpc
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor, ledger_bytes
from otel_turnavoid.errors import ConfigurationError, LedgerError, UsageError
from otel_turnavoid.store import Ledger

AVOIDED = "turnavoid_model_turns_avoided_total"
REUSE = {"turnavoid_arm": "exact-reuse", "turnavoid_mechanism": "exact-reuse"}


@pytest.fixture
def send_pair(run_request, effects_request) -> Callable[[Processor], None]:
    """A control of 3 turns and a candidate of 1, both with the same observed effect."""

    def send(processor: Processor) -> None:
        for request, path in (
            (run_request("control", turns=3), "traces"),
            (run_request("candidate", "exact-reuse", turns=1), "traces"),
            (effects_request("control"), "logs"),
            (effects_request("candidate"), "logs"),
        ):
            response = httpx.post(
                f"{processor.http_endpoint}/v1/{path}",
                content=request.SerializeToString(),
                headers={"content-type": "application/x-protobuf"},
                timeout=60,
            )
            assert (response.status_code, response.content) == (200, b"")

    return send


def test_known_series_exist_at_zero_from_the_start(processor, metric):
    assert metric(processor, AVOIDED, **REUSE) == 0


def test_a_judged_pair_is_published(processor, send_pair, metric, until):
    send_pair(processor)

    assert until(lambda: metric(processor, AVOIDED, **REUSE)) == 2


def test_a_restart_neither_resets_nor_repeats_totals(config, ledger_url, send_pair, metric, until):
    with Processor(config, ledger_url=ledger_url) as first:
        send_pair(first)
        until(lambda: metric(first, AVOIDED, **REUSE))

    with Processor(config, ledger_url=ledger_url) as second:
        assert metric(second, AVOIDED, **REUSE) == 2
        send_pair(second)
        until(lambda: metric(second, "turnavoid_processor_duplicates_total") == 12)
    with Processor(config, ledger_url=ledger_url) as third:
        assert metric(third, AVOIDED, **REUSE) == 2


def test_a_verdict_is_logged_once_with_the_ids_of_runs_and_traces(
    processor, send_pair, metric, until, caplog
):
    with caplog.at_level(logging.INFO, logger="otel_turnavoid.collector.journal"):
        send_pair(processor)
        until(lambda: metric(processor, AVOIDED, **REUSE))

    said = [record.message for record in caplog.records if "pair decided" in record.message]
    with Ledger.open(processor._ledger_url) as ledger:
        traces = {line.run.run_id: line.run.trace_ids[0] for line in ledger.runs()}
    expected = (
        'pair decided: arm="exact-reuse" avoided=2 withheld=0 added=0 causes=[] '
        'control="control" candidate="candidate" '
        f'control_traces=["{traces["control"]}"] candidate_traces=["{traces["candidate"]}"]'
    )
    assert said == [expected]


def test_own_telemetry_counts_what_came_in(processor, run_request, metric):
    request = run_request("r", turns=1)
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[0].span_id = bytes(8)
    other = spans.add()
    other.CopyFrom(spans[1])
    other.span_id = b"12345678"
    del other.attributes[:]
    for _ in range(2):
        httpx.post(
            f"{processor.http_endpoint}/v1/traces",
            content=request.SerializeToString(),
            headers={"content-type": "application/x-protobuf"},
            timeout=60,
        )
    httpx.post(
        f"{processor.http_endpoint}/v1/traces",
        content=b"\xff",
        headers={"content-type": "application/x-protobuf"},
        timeout=60,
    )

    def own(name: str, **labels: str) -> float | None:
        return metric(
            processor, f"turnavoid_{name}", otel_scope_name="otel_turnavoid.collector", **labels
        )

    assert {
        "accepted": own("receiver_accepted_spans_total", transport="http"),
        "refused": own("receiver_refused_spans_total", transport="http"),
        "success": own("receiver_requests_total", signal="traces", outcome="success"),
        "refused requests": own("receiver_requests_total", signal="traces", outcome="refused"),
        "ignored": own("processor_ignored_items_total"),
        "stored": own("processor_stored_items_total"),
        "duplicates": own("processor_duplicates_total"),
        "over gRPC": own("receiver_accepted_spans_total", transport="grpc"),
    } == {
        "accepted": 6,
        "refused": 2,
        "success": 2,
        "refused requests": 1,
        "ignored": 2,
        "stored": 2,
        "duplicates": 2,
        "over gRPC": 0,
    }
    assert (own("processor_ledger_size_bytes") or 0) > 0
    assert own("processor_decision_lag_seconds") is not None


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_exporters_of_the_opentelemetry_sdk_are_understood(processor, protocol, until, ledger_url):
    if protocol == "grpc":
        spans = GrpcSpans(endpoint=processor.grpc_endpoint, insecure=True)
        logs = GrpcLogs(endpoint=processor.grpc_endpoint, insecure=True)
    else:
        spans = HttpSpans(endpoint=f"{processor.http_endpoint}/v1/traces")
        logs = HttpLogs(endpoint=f"{processor.http_endpoint}/v1/logs")
    tracing = TracerProvider(resource=Resource({"service.name": "agent"}))
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging_provider = LoggerProvider(resource=Resource({"service.name": "observer"}))
    logging_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))

    with tracing.get_tracer("t").start_as_current_span("chat m") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("turnavoid.run.id", "r")
    logging_provider.get_logger("t").emit(
        event_name="turnavoid.effects.observed",
        attributes={
            "turnavoid.run.id": "r",
            "turnavoid.observer.id": "o",
            "turnavoid.effects.labels": ["done"],
        },
    )
    tracing.shutdown()
    logging_provider.shutdown()

    with Ledger.open(ledger_url, create=False) as ledger:
        assert (ledger.sizes()["spans"], ledger.sizes()["observations"]) == (1, 1)


def test_totals_are_pushed_over_otlp_too(ledger_url, send_pair, until):
    requests = []

    def export(request: ExportMetricsServiceRequest, _context) -> ExportMetricsServiceResponse:
        requests.append(request)
        return ExportMetricsServiceResponse()

    backend = grpc.server(ThreadPoolExecutor(2))
    backend.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "opentelemetry.proto.collector.metrics.v1.MetricsService",
                {
                    "Export": grpc.unary_unary_rpc_method_handler(
                        export,
                        ExportMetricsServiceRequest.FromString,
                        ExportMetricsServiceResponse.SerializeToString,
                    )
                },
            ),
        )
    )
    port = backend.add_insecure_port("localhost:0")
    backend.start()
    config = parse(
        f"""
        receivers: {{otlp: {{protocols: {{http: {{endpoint: "localhost:0"}}}}}}}}
        processors: {{turnavoid: {{settle: 50ms}}}}
        exporters:
          otlp: {{endpoint: "localhost:{port}", tls: {{insecure: true}}, interval: 100ms}}
        """,
        env={},
    )

    def avoided() -> set[int]:
        return {
            point.as_int
            for metrics in requests[-1].resource_metrics
            for scope in metrics.scope_metrics
            for each in scope.metrics
            if each.name == "turnavoid.model_turns.avoided"
            for point in each.sum.data_points
        }

    try:
        with Processor(config, ledger_url=ledger_url) as processor:
            until(lambda: requests)
            assert avoided() == {0}
            send_pair(processor)
            until(lambda: 2 in avoided())
    finally:
        backend.stop(None).wait()


def test_what_was_accepted_is_decided_before_the_end_if_it_is_due(config, ledger_url, send_pair):
    """With a settle time of 0 the pair is due as soon as its last evidence is committed."""
    due = parse(
        """
        receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}
        processors: {turnavoid: {settle: 0s}}
        exporters: {}
        """,
        env={},
    )
    processor = Processor(due, ledger_url=ledger_url)
    processor.start()
    send_pair(processor)
    processor.stop()

    with Ledger.open(ledger_url, create=False) as ledger:
        assert any(type(made).__name__ == "PairDecided" for _, made in ledger.decisions())


def test_a_stop_does_not_end_the_waits_of_pairs(config, ledger_url, run_request):
    with Processor(config, ledger_url=ledger_url) as processor:
        for request in (run_request("c", turns=2), run_request("k", "exact-reuse", turns=1)):
            httpx.post(
                f"{processor.http_endpoint}/v1/traces",
                content=request.SerializeToString(),
                headers={"content-type": "application/x-protobuf"},
                timeout=60,
            )

    with Ledger.open(ledger_url, create=False) as ledger:
        assert list(ledger.decisions()) == []


def test_trouble_of_the_ledger_while_deciding_ends_by_itself(
    processor, send_pair, metric, until, caplog
):
    with mock.patch.object(Ledger, "deciding", side_effect=LedgerError("database is locked")):
        send_pair(processor)
        until(lambda: (metric(processor, "turnavoid_processor_ledger_failures_total") or 0) > 1)

    assert until(lambda: metric(processor, AVOIDED, **REUSE)) == 2
    said = [r.message for r in caplog.records if r.name.endswith("decider")]
    assert said == ["the ledger cannot decide, will keep trying: database is locked"]


def test_a_part_that_ends_by_itself_ends_the_processor(processor, until, caplog):
    with (
        mock.patch(
            "otel_turnavoid.collector.decider.Decider._failed", side_effect=RuntimeError("surprise")
        ),
        mock.patch.object(Ledger, "deciding", side_effect=LedgerError("database is locked")),
    ):
        until(lambda: not processor.running)

    assert [record.message for record in caplog.records if record.levelname == "CRITICAL"] == [
        "the processor ended because of a bug"
    ]


def test_stop_is_safe_without_start(config):
    Processor(config).stop()


def test_stop_is_safe_twice(config, ledger_url):
    processor = Processor(config, ledger_url=ledger_url)
    processor.start()
    processor.stop()
    processor.stop()


def test_a_processor_is_started_once(processor):
    with pytest.raises(UsageError, match="a processor is started once"):
        processor.start()


def test_after_stop_nothing_listens(config, ledger_url):
    with Processor(config, ledger_url=ledger_url) as processor:
        pass

    for url in (processor.http_endpoint, processor.metrics_endpoints[0]):
        with pytest.raises(httpx.ConnectError):
            httpx.get(url or "", timeout=60)


def test_a_ledger_that_cannot_be_opened_ends_the_start(config, tmp_path):
    url = f"sqlite:///{tmp_path / 'nowhere' / 'ledger.db'}"

    with pytest.raises(LedgerError, match="nowhere does not exist"):
        Processor(config, ledger_url=url).start()


def test_a_failed_start_leaves_nothing_listening(processor, tmp_path):
    """gRPC is the last to start; the others are closed again."""
    port = (processor.grpc_endpoint or "").rpartition(":")[2]
    config = parse(
        f"""
        receivers:
          otlp:
            protocols:
              grpc: {{endpoint: "localhost:{port}"}}
              http: {{endpoint: "localhost:0"}}
        exporters:
          prometheus: {{endpoint: "localhost:0"}}
        """,
        env={},
    )
    second = Processor(config, ledger_url=f"sqlite:///{tmp_path / 'l.db'}")

    with pytest.raises(ConfigurationError):
        second.start()

    with pytest.raises(httpx.ConnectError):
        httpx.get(second.http_endpoint or "", timeout=60)


def test_the_size_of_a_ledger_that_is_not_files_is_unknown():
    assert ledger_bytes("postgresql+psycopg://host/db") is None
