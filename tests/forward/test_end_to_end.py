"""From a sender through a running processor to a backend."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind

from otel_turnavoid import otlp
from otel_turnavoid.forward import Signal
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, other_spans, run_spans


def post(processor, body: bytes, signal: str = "traces", encoding: str = "x-protobuf"):
    return httpx.post(
        f"{processor.http_endpoint}/v1/{signal}",
        content=body,
        headers={"content-type": f"application/{encoding}"},
        timeout=60,
    )


@pytest.fixture
def spans() -> list[ReadableSpan]:
    """Spans of the SDK with everything that a span can have."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("shop", "1.2", schema_url="https://example.org/1")
    with tracer.start_as_current_span("outer", kind=SpanKind.SERVER) as outer:
        outer.add_event("seen", {"list": ["a", "b"], "deep": 1.5})
        with tracer.start_as_current_span("inner", links=[Link(outer.get_span_context())]) as inner:
            inner.set_attribute("bytes", b"\x00\xff")
            inner.record_exception(ValueError("no"))
    provider.shutdown()
    return list(memory.get_finished_spans())


class TestUnchanged:
    def test_what_an_sdk_sends_over_grpc_arrives_byte_for_byte(
        self, grpc_backend, forwarding, spans, until
    ):
        processor = forwarding(grpc_backend.endpoint)
        for endpoint in (grpc_backend.endpoint, processor.grpc_endpoint):
            for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
                exporter = GrpcSpans(endpoint, insecure=True, compression=compression)
                exporter.export(spans)
                exporter.shutdown()
        until(lambda: len(grpc_backend.received) == 4)

        assert len(set(grpc_backend.bodies)) == 1

    def test_what_an_sdk_sends_over_http_arrives_byte_for_byte(
        self, http_backend, forwarding, spans, until
    ):
        processor = forwarding(
            "unused:1",
            more=f"  otlphttp: {{endpoint: '{http_backend.endpoint}'}}",
            exporters="otlphttp",
        )
        for endpoint in (http_backend.endpoint, processor.http_endpoint):
            exporter = HttpSpans(f"{endpoint}/v1/traces")
            exporter.export(spans)
            exporter.shutdown()
        until(lambda: len(http_backend.received) == 2)

        assert len(set(http_backend.bodies)) == 1

    def test_log_records_arrive_byte_for_byte(self, grpc_backend, forwarding, until):
        memory = InMemoryLogRecordExporter()
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
        provider.get_logger("shop").emit(body={"deep": [1, "two"]}, event_name="seen")
        provider.shutdown()
        processor = forwarding(grpc_backend.endpoint)
        for endpoint in (grpc_backend.endpoint, processor.grpc_endpoint):
            exporter = GrpcLogs(endpoint, insecure=True)
            exporter.export(memory.get_finished_logs())
            exporter.shutdown()
        until(lambda: len(grpc_backend.received) == 2)

        assert len(set(grpc_backend.bodies)) == 1
        assert {each.signal for each in grpc_backend.received} == {Signal.LOGS}

    def test_spans_of_agents_and_of_others_go_to_both_kinds_of_backends(
        self, grpc_backend, http_backend, forwarding, until
    ):
        processor = forwarding(
            grpc_backend.endpoint,
            more=f"  otlphttp: {{endpoint: '{http_backend.endpoint}'}}",
            exporters="otlp/x, otlphttp",
        )
        bodies = [run_spans(run_id="r"), other_spans(5), observation("r")]
        for signal, body in zip(("traces", "traces", "logs"), bodies, strict=True):
            assert post(processor, body, signal).status_code == 200
        until(lambda: len(grpc_backend.received) == len(http_backend.received) == 3)

        assert sorted(grpc_backend.bodies) == sorted(http_backend.bodies) == sorted(bodies)

    def test_unknown_fields_survive(self, grpc_backend, forwarding, until):
        body = other_spans(1) + b"\xfa\x3e\x03new"  # field 1007, of a future OTLP
        assert post(forwarding(grpc_backend.endpoint), body).status_code == 200
        until(lambda: grpc_backend.received)

        assert grpc_backend.bodies == [body]

    def test_a_request_that_is_refused_in_part_is_forwarded_whole(
        self, grpc_backend, forwarding, until
    ):
        request = ExportTraceServiceRequest.FromString(other_spans(3))
        request.resource_spans[0].scope_spans[0].spans[1].trace_id = b"short"
        body = request.SerializeToString()
        response = post(forwarding(grpc_backend.endpoint), body)
        until(lambda: grpc_backend.received)

        assert response.status_code == 200
        assert response.content != b""
        assert grpc_backend.bodies == [body]

    def test_what_is_refused_or_empty_is_not_forwarded(self, grpc_backend, forwarding, until):
        processor = forwarding(grpc_backend.endpoint)
        empty = ExportTraceServiceRequest()
        empty.resource_spans.add().scope_spans.add()
        statuses = [
            post(processor, body).status_code
            for body in (b"\xff", b"", empty.SerializeToString(), other_spans(1))
        ]
        until(lambda: grpc_backend.received)

        assert statuses == [400, 200, 200, 200]
        assert grpc_backend.bodies == [other_spans(1)]

    def test_json_arrives_as_json_or_in_its_protobuf_form(
        self, grpc_backend, http_backend, forwarding, until
    ):
        processor = forwarding(
            grpc_backend.endpoint,
            more=f"  otlphttp: {{endpoint: '{http_backend.endpoint}', encoding: json}}",
            exporters="otlp/x, otlphttp",
        )
        span = {"traceId": "0a" * 16, "spanId": "0B" * 8, "name": "s", "later": [1]}
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
        assert post(processor, body, encoding="json").status_code == 200
        until(lambda: grpc_backend.received and http_backend.received)

        assert http_backend.bodies == [body]
        assert grpc_backend.bodies == [otlp.traces_from_json(body)]


class TestDeadBackend:
    def test_nothing_that_was_acknowledged_is_lost_and_nothing_is_doubled(
        self, grpc_backend, forwarding, until, scrape
    ):
        processor = forwarding(grpc_backend.endpoint)
        bodies = [run_spans(run_id=f"r{number}") for number in range(120)]
        grpc_backend.stop()

        def send(body: bytes) -> int:
            if body is bodies[80]:
                grpc_backend.start()
            return post(processor, body).status_code

        with ThreadPoolExecutor(8) as senders:
            statuses = list(senders.map(send, bodies))
        until(lambda: scrape(processor, "queue_size") == 0)

        assert set(statuses) == {200}
        assert sorted(grpc_backend.bodies) == sorted(bodies)

    def test_a_backend_that_dies_again_and_again_gets_everything(
        self, grpc_backend, forwarding, until, scrape
    ):
        processor = forwarding(grpc_backend.endpoint)
        bodies = [other_spans(1, service=f"s{number}") for number in range(100)]
        for number, body in enumerate(bodies):
            assert post(processor, body).status_code == 200
            if number % 20 == 0:
                grpc_backend.stop()
            if number % 20 == 10:
                grpc_backend.start()
        until(lambda: scrape(processor, "queue_size") == 0)

        assert set(grpc_backend.bodies) == set(bodies)
        assert scrape(processor, "sent_spans_total") == 100

    @pytest.mark.parametrize("queue", ["queue_size: 2", "size_mib: 1"])
    def test_a_full_queue_tells_senders_to_come_back(
        self, grpc_backend, forwarding, until, scrape, queue
    ):
        grpc_backend.stop()
        processor = forwarding(grpc_backend.endpoint, queue)
        size = 600_000 if queue == "size_mib: 1" else 1
        fill = [other_spans(1, service=f"s{number}") + padding(size) for number in range(2)]
        taken = [post(processor, body).status_code for body in fill]
        late = run_spans(run_id="late") + padding(size)

        over_http = post(processor, late)
        with (
            grpc.insecure_channel(processor.grpc_endpoint) as channel,
            pytest.raises(grpc.RpcError) as refused,
        ):
            channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(late)

        accepted = taken.count(200)
        assert taken == [200] * accepted + [503] * (2 - accepted)
        assert (over_http.status_code, over_http.headers["retry-after"]) == (503, "1")
        status = Status.FromString(over_http.content)
        assert status.message == "too many requests wait to be forwarded"
        assert [detail.Is(RetryInfo.DESCRIPTOR) for detail in status.details] == [True]
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert scrape(processor, "queue_size") == accepted
        assert scrape(processor, "enqueue_failed_spans_total") >= 2
        with Ledger.open(processor._ledger_url) as ledger:
            assert list(ledger.runs()) == []

        grpc_backend.start()
        until(lambda: post(processor, late).status_code == 200)
        until(lambda: late in grpc_backend.bodies)
        assert grpc_backend.bodies.count(late) == 1

    def test_one_dead_backend_does_not_keep_up_another(
        self, grpc_backend, http_backend, forwarding, until
    ):
        grpc_backend.stop()
        processor = forwarding(
            grpc_backend.endpoint,
            more=f"  otlphttp: {{endpoint: '{http_backend.endpoint}'}}",
            exporters="otlp/x, otlphttp",
        )
        bodies = [other_spans(1, service=f"s{number}") for number in range(30)]
        for body in bodies:
            post(processor, body)
        until(lambda: len(http_backend.received) == 30)
        grpc_backend.start()
        until(lambda: len(grpc_backend.received) == 30)

        assert sorted(grpc_backend.bodies) == sorted(http_backend.bodies) == sorted(bodies)

    def test_stopping_does_not_wait_for_it_and_the_next_start_goes_on(
        self, grpc_backend, forwarding, until
    ):
        grpc_backend.stop()
        first = forwarding(grpc_backend.endpoint)
        bodies = [other_spans(1, service=f"s{number}") for number in range(5)]
        for body in bodies:
            post(first, body)
        first.stop(grace_s=3600)
        grpc_backend.start()
        forwarding(grpc_backend.endpoint)
        until(lambda: len(grpc_backend.received) == 5)

        assert sorted(grpc_backend.bodies) == sorted(bodies)


def test_what_becomes_of_everything_can_be_scraped(grpc_backend, answer, forwarding, until, scrape):
    grpc_backend.script = [
        answer(grpc.StatusCode.INVALID_ARGUMENT),
        answer(rejected=2),
    ]
    processor = forwarding(grpc_backend.endpoint, "queue_size: 7")
    assert scrape(processor, "sent_spans_total") == 0
    for count in (3, 5):
        post(processor, other_spans(count))
        until(lambda: scrape(processor, "queue_size") == 0)

    assert {
        name: scrape(processor, name)
        for name in (
            *("sent_spans_total", "send_failed_spans_total", "enqueue_failed_spans_total"),
            *("sent_log_records_total", "send_failed_log_records_total"),
            *("enqueue_failed_log_records_total", "queue_size", "queue_capacity"),
        )
    } == {
        "sent_spans_total": 3,
        "send_failed_spans_total": 5,
        "enqueue_failed_spans_total": 0,
        "sent_log_records_total": 0,
        "send_failed_log_records_total": 0,
        "enqueue_failed_log_records_total": 0,
        "queue_size": 0,
        "queue_capacity": 7,
    }


def padding(size: int) -> bytes:
    """Return a field of a future OTLP, to make a request as large as is wanted."""
    length = bytearray()
    left = size
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return b"\xfa\x3e" + bytes([*length, left]) + bytes(size)
