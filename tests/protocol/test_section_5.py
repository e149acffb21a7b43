"""Exporters and forwarding: section 5 of the requirements, each rule under its number."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import grpc
import pytest
from opentelemetry import context
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

from otel_turnavoid.collector.components import OtlpExporter, OtlpHttpExporter, RetryOnFailure
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward import RetryPolicy
from otel_turnavoid.forward.backoff import Backoff
from otel_turnavoid.forward.sender_http import HttpSender
from otel_turnavoid.forward.target import RESPONSE_LIMIT
from otel_turnavoid.publish.push import OtlpPusher, Protocol, Target
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import other_spans, run_spans

MIB = 1 << 20
TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"


class Backend:
    """What a backend got, over either protocol, and what it answers next."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.http_url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        self.grpc = grpc.server(ThreadPoolExecutor(4))
        methods = {"Export": grpc.unary_unary_rpc_method_handler(self._export)}
        handler = grpc.method_handlers_generic_handler(TRACES, methods)
        self.grpc.add_generic_rpc_handlers((handler,))
        self.grpc_endpoint = f"127.0.0.1:{self.grpc.add_insecure_port('127.0.0.1:0')}"
        self.grpc.start()

    def _handler(backend) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                backend.paths.append(self.path)
                backend.headers.append({key.lower(): text for key, text in self.headers.items()})
                backend.bodies.append(body)
                status, answer = backend.answers.pop(0) if backend.answers else (200, b"")
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _export(self, body: bytes, call: grpc.ServicerContext) -> bytes:
        self.headers.append(dict(call.invocation_metadata()))
        self.bodies.append(body)
        return self.answers.pop(0)[1] if self.answers else b""

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.grpc.stop(0).wait()


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = Backend()
    yield backend
    backend.stop()


PIPELINES = """
service:
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid], exporters: [out]}
    metrics: {receivers: [turnavoid], exporters: [prometheus]}
"""


@pytest.fixture
def forward(start, backend):
    """Start a processor that forwards traces to the backend over one of the protocols."""

    def begin(protocol: str = "otlp_http", more: str = "", **keys):
        at = {
            "otlp_http": f'endpoint: "{backend.http_url}"',
            "otlp_grpc": f'endpoint: "{backend.grpc_endpoint}", tls: {{insecure: true}}',
        }[protocol]
        return start(
            exporters=f"{protocol}: {{{at}{more}}}", rest=PIPELINES.replace("out", protocol), **keys
        )

    return begin


@pytest.fixture
def environment(monkeypatch):
    for name in ("ENDPOINT", "HEADERS", "COMPRESSION", "TIMEOUT"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_METRICS_{name}", raising=False)
    return monkeypatch


def test_5_1_what_is_not_configured_is_left_to_the_environment(environment):
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general.example:4318")
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "7")
    exporter = Target(protocol=Protocol.HTTP).exporter()
    exporter.shutdown()

    assert exporter._endpoint == "http://general.example:4318/v1/metrics"
    assert exporter._client._timeout == 7


def test_5_1_the_variable_of_the_signal_wins(environment):
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general.example:4318")
    environment.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://own.example/in")
    exporter = Target(protocol=Protocol.HTTP).exporter()
    exporter.shutdown()

    assert exporter._endpoint == "http://own.example/in"


@pytest.mark.parametrize("base", ["http://b.example/otlp", "http://b.example/otlp/"])
def test_5_2_the_signal_is_appended_to_the_path_of_the_general_endpoint(base):
    exporter = Target(protocol=Protocol.HTTP, endpoint=base).exporter()
    exporter.shutdown()

    assert exporter._endpoint == "http://b.example/otlp/v1/metrics"


def test_5_2_forwarded_traces_go_to_v1_traces_below_the_endpoint(start, backend, until):
    running = start(
        exporters=f'otlp_http: {{endpoint: "{backend.http_url}/base"}}',
        rest=PIPELINES.replace("out", "otlp_http"),
    )
    running.export(other_spans(1))
    until(lambda: backend.bodies)

    assert backend.paths == ["/base/v1/traces"]


def test_5_3_protocols_are_spelled_as_in_the_environment():
    assert [each.value for each in Protocol] == ["grpc", "http/protobuf"]


def test_5_3_compression_is_gzip_or_none():
    with pytest.raises(ConfigurationError) as caught:
        parse("exporters: {otlp: {endpoint: 'b:1', compression: zstd}}", env={})

    assert str(caught.value) == ("exporters.otlp.compression: wants one of gzip, none, got 'zstd'")


@pytest.mark.parametrize(
    ("section", "timeout_s"),
    [
        (OtlpExporter(endpoint="b:1"), 5),
        (OtlpHttpExporter(endpoint="https://b"), 30),
    ],
)
def test_5_4_defaults_are_the_collectors(section, timeout_s):
    assert section.compression.value == "gzip"
    assert section.timeout.seconds == timeout_s
    assert section.tls.insecure is False


@pytest.mark.parametrize("name", ["otlp", "otlp_grpc"])
def test_5_4_the_grpc_exporter_has_both_of_its_names(name):
    config = parse(f"exporters: {{{name}: {{endpoint: 'b:1'}}}}", env={})

    assert isinstance(config.exporters[name], OtlpExporter)


@pytest.mark.parametrize("name", ["otlphttp", "otlp_http"])
def test_5_4_the_http_exporter_has_both_of_its_names(name):
    config = parse(f"exporters: {{{name}: {{endpoint: 'http://b'}}}}", env={})

    assert isinstance(config.exporters[name], OtlpHttpExporter)


def test_5_5_the_keys_of_retries_have_the_collectors_defaults_but_give_up_nothing():
    """``max_elapsed_time`` is 0 here: what was acknowledged is dropped only if somebody says so."""
    retry = RetryOnFailure()

    assert retry.enabled
    assert retry.initial_interval.seconds == 5
    assert retry.randomization_factor == 0.5
    assert retry.multiplier == 1.5
    assert retry.max_interval.seconds == 30
    assert retry.max_elapsed_time.seconds == 0


def test_5_5_waits_grow_by_the_multiplier_up_to_the_longest():
    backoff = Backoff(RetryPolicy(), lambda: 0.0, chance=lambda: 0.5)

    assert [backoff.wait_s() for _ in range(7)] == [5, 7.5, 11.25, 16.875, 25.3125, 30, 30]


@pytest.mark.parametrize(("chance", "wait_s"), [(0.0, 2.5), (1.0, 7.5)])
def test_5_5_waits_are_spread_by_the_randomization_factor(chance, wait_s):
    assert Backoff(RetryPolicy(), lambda: 0.0, chance=lambda: chance).wait_s() == wait_s


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_5_5_a_retryable_answer_is_followed_by_another_attempt(forward, backend, until, status):
    backend.answers = [(status, b"")]
    running = forward(more=", retry_on_failure: {initial_interval: 10ms}")
    running.export(other_spans(1))
    until(lambda: len(backend.bodies) == 2)

    assert backend.bodies[0] == backend.bodies[1]


def test_5_6_a_full_queue_pushes_back_on_senders_and_counts(start, run_id):
    running = start(
        exporters='otlp_http: {endpoint: "http://127.0.0.1:9", sending_queue: {queue_size: 1}}',
        rest=PIPELINES.replace("out", "otlp_http"),
    )
    assert running.export(other_spans(3)) == b""

    refusal = running.refused(other_spans(3))

    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert refusal.message == "too many requests wait to be forwarded"
    assert running.metric("turnavoid_exporter_enqueue_failed_spans_total") == 3


def test_5_6_the_keys_of_the_queue_are_the_collectors():
    queue = OtlpExporter(endpoint="b:1").sending_queue

    assert (queue.enabled, queue.num_consumers) == (True, 10)


@pytest.fixture
def kept(tmp_path, backend):
    """Run processors one after another on one ledger, forwarding to the backend or nowhere."""

    def begin(endpoint: str) -> Processor:
        text = f"""
        receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "localhost:0"}}}}}}}}
        exporters: {{otlp_http: {{endpoint: "{endpoint}"}}}}
        service:
          pipelines:
            traces: {{receivers: [otlp], processors: [turnavoid], exporters: [otlp_http]}}
        """
        url = f"sqlite:///{tmp_path / 'kept.db'}"
        return Processor(parse(text, env={}), ledger_url=url)

    return begin


def test_5_8_what_is_not_delivered_is_kept_over_a_restart(kept, backend, until):
    body = other_spans(2)
    with kept("http://127.0.0.1:9") as first, grpc.insecure_channel(first.grpc_endpoint) as channel:
        assert channel.unary_unary(f"/{TRACES}/Export")(body, timeout=60) == b""

    with kept(backend.http_url):
        until(lambda: backend.bodies)

    assert backend.bodies == [body]


def test_5_10_a_partial_success_downstream_is_counted_logged_and_not_sent_again(
    forward, backend, until, caplog
):
    answer = ExportTraceServiceResponse(partial_success={"rejected_spans": 2})
    backend.answers = [(200, answer.SerializeToString())]
    running = forward()
    running.export(other_spans(5))
    until(lambda: running.metric("turnavoid_exporter_send_failed_spans_total") == 2)

    assert running.metric("turnavoid_exporter_sent_spans_total") == 3
    assert len(backend.bodies) == 1
    assert any("2" in r.getMessage() for r in caplog.records if "forward" in r.name)


def test_5_11_an_answer_above_4_mib_is_not_followed_by_another_attempt(forward, backend, until):
    assert RESPONSE_LIMIT == 4 * MIB
    backend.answers = [(200, bytes(RESPONSE_LIMIT + 1))]
    running = forward("otlp_grpc", more=", retry_on_failure: {initial_interval: 10ms}")
    running.export(other_spans(5))
    until(
        lambda: (
            running.metric("turnavoid_exporter_send_failed_spans_total")
            + running.metric("turnavoid_exporter_sent_spans_total")
            == 5
        )
    )

    assert len(backend.bodies) == 1


def test_5_11_a_request_above_the_limit_never_reaches_the_queue(forward, backend, until):
    """What may be taken in is what may be sent on: bodies are forwarded as they came."""
    running = forward(http="max_request_body_size: 1000")

    assert running.post(other_spans(100)).status_code == 413
    running.export(other_spans(1))
    until(lambda: backend.bodies)
    assert backend.bodies == [other_spans(1)]


@pytest.mark.parametrize("protocol", ["otlp_http", "otlp_grpc"])
def test_5_12_the_user_agent_names_the_product_first(forward, backend, until, protocol):
    running = forward(protocol)
    running.export(other_spans(1))
    until(lambda: backend.bodies)

    assert re.match(r"turnavoid/\d+\.\d+\.\d+", backend.headers[0]["user-agent"])


@pytest.mark.parametrize(
    ("protocol", "way"),
    [
        ("otlp_http", "export"),
        ("otlp_http", "post"),
        ("otlp_grpc", "export"),
        ("otlp_grpc", "post"),
    ],
)
def test_5_13_protobuf_is_forwarded_byte_for_byte(  # noqa: PLR0913, PLR0917 - fixtures
    forward, backend, until, request_of, protocol, way
):
    """With everything that a request can have, and fields that nobody knows yet."""
    resource = request_of.resource_spans[0]
    resource.schema_url, resource.scope_spans[0].schema_url = "https://a/1", "https://b/2"
    resource.resource.dropped_attributes_count = 3
    span = resource.scope_spans[0].spans[0]
    span.trace_state, span.flags, span.dropped_links_count = "a=1", 0x301, 7
    span.events.add(name="e", dropped_attributes_count=1).attributes.add(key="k")
    span.links.add(trace_id=b"1" * 16, span_id=b"2" * 8, trace_state="b=2")
    span.status.code, span.status.message = 2, "no"
    body = request_of.SerializeToString() + b"\xfa\x7f\x03new"
    running = forward(protocol)

    getattr(running, way)(body)
    until(lambda: backend.bodies)

    assert backend.bodies == [body]


def test_3_12_empty_envelopes_are_forwarded_in_a_request_with_spans_and_alone_are_dropped(
    forward, backend, until
):
    """Forwarders may drop them: a request of nothing else goes nowhere."""
    running = forward()
    empty = ExportTraceServiceRequest(resource_spans=[{}]).SerializeToString()
    running.export(empty)
    running.export(empty + other_spans(1))
    until(lambda: backend.bodies)

    assert backend.bodies == [empty + other_spans(1)]


def test_5_14_a_ledger_that_hangs_does_not_hold_up_what_is_not_for_it(forward, backend, until):
    running, gate, real = forward(), threading.Event(), Ledger.add

    def slow(self, *facts, **options):
        assert gate.wait(60)
        return real(self, *facts, **options)

    with mock.patch.object(Ledger, "add", slow), ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(running.export, run_spans(run_id="slow", turns=1))
        running.export(other_spans(4))
        until(lambda: other_spans(4) in backend.bodies)
        gate.set()
        hanging.result()


class Noting(MetricExporter):
    """Notes what instrumentations would see."""

    def __init__(self) -> None:
        super().__init__()
        self.suppressed: list[object] = []

    def export(self, _metrics_data: MetricsData, *_: object, **__: object) -> MetricExportResult:
        self.suppressed.append(context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))
        return MetricExportResult.SUCCESS

    def force_flush(self, *_: object) -> bool:
        return True

    def shutdown(self, *_: object, **__: object) -> None:
        pass


def test_5_15_pushes_are_kept_from_instrumentation():
    exporter = Noting()
    OtlpPusher(lambda: MetricsData(resource_metrics=[]), exporter, interval_s=60).push()

    assert exporter.suppressed == [True]


def test_5_15_forwarding_is_kept_from_instrumentation(forward, backend, until):
    seen, real = [], HttpSender.send

    async def send(self, request):
        seen.append(context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))
        return await real(self, request)

    with mock.patch.object(HttpSender, "send", send):
        running = forward()
        running.export(other_spans(1))
        until(lambda: backend.bodies)

    assert seen == [True]
