"""OTLP/gRPC server: section 1 of the requirements, each rule under its number."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import grpc
import pytest
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_turnavoid.collector.components import GrpcProtocol
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.otlp.attributes import _warn_of_references
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, other_spans

MIB = 1 << 20
EMPTY = {
    "no bytes": b"",
    "an empty resource": ExportTraceServiceRequest(resource_spans=[{}]).SerializeToString(),
    "an empty scope": ExportTraceServiceRequest(
        resource_spans=[{"scope_spans": [{}]}]
    ).SerializeToString(),
}


def spans_of(request):
    return request.resource_spans[0].scope_spans[0].spans


@pytest.fixture
def exporter(running):
    """The SDK's own exporter, as an agent has it."""
    made = []

    def make(endpoint=None, **options):
        exporter = OTLPSpanExporter(endpoint or running.grpc_endpoint, insecure=True, **options)
        made.append(exporter)
        return exporter

    yield make
    for each in made:
        each.shutdown()


def test_1_1_the_sdk_exports_spans_to_the_trace_service(running, exporter, sdk_spans, run_id):
    assert exporter().export(sdk_spans) is SpanExportResult.SUCCESS
    assert len(running.stored(run_id)) == 2


def test_1_1_the_sdk_exports_log_records_to_the_logs_service(running):
    before = running.metric("turnavoid_receiver_accepted_log_records_total", transport="grpc")
    provider = LoggerProvider(shutdown_on_exit=False)
    exporter = OTLPLogExporter(running.grpc_endpoint, insecure=True)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("app").emit(body="hello", event_name="greeting")
    provider.shutdown()

    after = running.metric("turnavoid_receiver_accepted_log_records_total", transport="grpc")
    assert after == before + 1


def test_1_1_the_default_port_is_4317():
    assert GrpcProtocol().endpoint.port == 4317


def test_1_1_a_signal_that_is_not_accepted_is_unimplemented(running):
    assert running.refused(b"", "metrics").code is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("compression", grpc.Compression)
def test_1_2_plain_and_compressed_messages_are_accepted(
    running, exporter, sdk_spans, run_id, compression
):
    assert exporter(compression=compression).export(sdk_spans) is SpanExportResult.SUCCESS
    assert len(running.stored(run_id)) == 2


def test_1_3_the_default_limit_is_64_mib():
    assert GrpcProtocol().max_recv_msg_size_mib == 64


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_1_3_a_message_above_the_limit_is_resource_exhausted_without_retry_info(start, compression):
    running = start(grpc="max_recv_msg_size_mib: 1")

    refusal = running.refused(bytes(MIB + 1), compression=compression)

    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not {"google.rpc.retryinfo-bin", "grpc-status-details-bin"} & refusal.metadata.keys()


def test_1_3_a_message_of_exactly_the_limit_is_accepted(start):
    running = start(grpc="max_recv_msg_size_mib: 1")
    body = _field(15, bytes(MIB - 4))  # a field that nobody knows: a tag and three of length
    assert len(body) == MIB

    assert running.export(body) == b""


def test_1_4_a_long_error_message_is_shortened_so_that_the_response_stays_small(running, run_id):
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for size in range(1, 2000):
        spans.add(trace_id=bytes([1]) * (16 + size), span_id=bytes([2]) * 8)

    answer = running.export(request.SerializeToString())

    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert partial.rejected_spans == 1999
    assert 0 < len(partial.error_message) <= 300
    assert len(answer) < 4 * MIB


def test_1_5_full_success_leaves_partial_success_unset(running, request_of):
    answer = ExportTraceServiceResponse.FromString(running.export(request_of.SerializeToString()))

    assert not answer.HasField("partial_success")


@pytest.mark.parametrize("body", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_1_6_an_empty_request_is_success_and_counts_nothing(running, signal, body):
    counters = [
        f"turnavoid_receiver_{kind}_{items}_total"
        for kind in ("accepted", "refused")
        for items in ("spans", "log_records")
    ]
    before = [running.metric(counter) for counter in counters]

    assert running.export(body, signal) == b""
    assert [running.metric(counter) for counter in counters] == before


def test_1_7_partial_acceptance_is_ok_with_the_rejected_count_and_a_reason(
    running, request_of, run_id
):
    spans = spans_of(request_of)
    spans[0].span_id = bytes(8)

    answer = ExportTraceServiceResponse.FromString(running.export(request_of.SerializeToString()))

    assert answer.partial_success.rejected_spans == 1
    assert answer.partial_success.error_message == (
        "spans refused: 1; the span id is all zeros (1)"
    )
    assert len(running.stored(run_id)) == len(spans) - 1


def test_1_7_of_log_records_the_rejected_are_counted_too(running, run_id):
    request = ExportLogsServiceRequest.FromString(observation(run_id))
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    for number in range(2000):
        record.attributes.add(key=f"k{number}")

    answer = ExportLogsServiceResponse.FromString(
        running.export(request.SerializeToString(), "logs")
    )

    assert answer.partial_success.rejected_log_records == 1
    assert answer.partial_success.error_message == (
        "log records refused: 1; more than 1000 attributes (1)"
    )


def test_1_8_a_passing_trouble_is_unavailable_with_retry_info(running, request_of):
    with mock.patch.object(Ledger, "add", side_effect=LedgerError("database is locked")):
        refusal = running.refused(request_of.SerializeToString())

    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    retry = RetryInfo()
    assert refusal.status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


def test_1_8_bad_data_is_invalid_argument_with_a_bad_request(running):
    refusal = running.refused(b"\x0a\xff")

    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.status.code == code_pb2.INVALID_ARGUMENT
    found = BadRequest()
    assert refusal.status.details[0].Unpack(found)
    assert found.field_violations[0].field == "body"
    assert found.field_violations[0].description == refusal.message


def test_1_9_a_fault_while_storing_is_unavailable_and_never_unknown(running, request_of):
    with mock.patch.object(Ledger, "add", side_effect=RuntimeError("surprise")):
        assert running.refused(request_of.SerializeToString()).code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    "place", ["otel_turnavoid.dialects.Reader.read", "otel_turnavoid.collector.intake.Intake.take"]
)
def test_1_9_a_bug_that_would_come_again_is_internal_and_never_unknown(running, request_of, place):
    with mock.patch(place, side_effect=RuntimeError("surprise")):
        assert running.refused(request_of.SerializeToString()).code is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("signal", ["traces", "logs"])
@pytest.mark.parametrize("body", [b"\x0a\xff", b"\xff\xff\xff", b"\x0a\x04\x12\x02\x12\x7f"])
def test_1_10_undecodable_protobuf_is_invalid_argument(running, signal, body):
    assert running.refused(body, signal).code is grpc.StatusCode.INVALID_ARGUMENT


def test_1_11_retry_info_is_in_the_status_and_in_metadata_of_its_own(running, request_of):
    with mock.patch.object(Ledger, "add", side_effect=LedgerError("database is locked")):
        refusal = running.refused(request_of.SerializeToString())

    inside = RetryInfo()
    assert refusal.status.details[0].Unpack(inside)
    assert inside == RetryInfo.FromString(refusal.metadata["google.rpc.retryinfo-bin"])
    assert inside == RetryInfo(retry_delay={"seconds": 1})


def test_1_11_the_sdk_waits_as_long_as_it_is_told_and_then_succeeds(
    running, exporter, sdk_spans, run_id
):
    real, troubles, waits = Ledger.add, [LedgerError("database is locked")], []

    def add(self, *facts, **options):
        if troubles:
            raise troubles.pop()
        return real(self, *facts, **options)

    sender = exporter()
    with (
        mock.patch.object(Ledger, "add", add),
        mock.patch.object(sender._shutdown_in_progress, "wait", waits.append),
    ):
        assert sender.export(sdk_spans) is SpanExportResult.SUCCESS

    assert waits == [1.0]
    assert len(running.stored(run_id)) == 2


def test_1_12_more_requests_than_may_be_in_hand_are_unavailable_with_retry_info(
    start, request_of, until
):
    running = start(receiver="max_concurrent_requests: 1")
    body, gate, busy, real = request_of.SerializeToString(), threading.Event(), [], Ledger.add

    def slow(self, *facts, **options):
        busy.append(facts)
        assert gate.wait(60)
        return real(self, *facts, **options)

    with mock.patch.object(Ledger, "add", slow), ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.export, body)
        until(lambda: busy)
        refusal = running.refused(body)
        gate.set()
        assert first.result() == b""

    assert (refusal.code, refusal.message) == (
        grpc.StatusCode.UNAVAILABLE,
        "too many requests in hand",
    )
    assert "google.rpc.retryinfo-bin" in refusal.metadata


@pytest.fixture
def guarded(tmp_path):
    """A processor that knows two tokens."""
    for role in ("agent", "reader"):
        (tmp_path / role).write_text(f"token-of-an-{role}\n")
    config = parse(
        f"""
        receivers:
          otlp:
            protocols:
              grpc: {{endpoint: "localhost:0", auth: {{authenticator: bearertokenauth}}}}
              http: {{endpoint: "localhost:0", auth: {{authenticator: bearertokenauth}}}}
        exporters: {{prometheus: {{endpoint: "localhost:0"}}}}
        extensions:
          bearertokenauth:
            tokens:
              - {{filename: "{tmp_path / "agent"}", role: agent}}
              - {{filename: "{tmp_path / "reader"}", role: reader}}
        """,
        env={},
    )
    with Processor(config, ledger_url=f"sqlite:///{tmp_path / 'guarded.db'}") as processor:
        yield processor


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ((), grpc.StatusCode.UNAUTHENTICATED),
        ((("authorization", "Bearer not-one-of-them"),), grpc.StatusCode.UNAUTHENTICATED),
        ((("authorization", "Bearer token-of-an-reader"),), grpc.StatusCode.PERMISSION_DENIED),
    ],
)
def test_1_13_no_credential_is_unauthenticated_and_a_wrong_role_is_permission_denied(
    guarded, headers, code
):
    with grpc.insecure_channel(guarded.grpc_endpoint) as channel:
        call = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=60, metadata=headers)

    assert caught.value.code() is code


def test_1_13_a_credential_of_the_right_role_is_let_in(guarded, exporter, sdk_spans):
    sender = exporter(
        guarded.grpc_endpoint, headers=(("authorization", "Bearer token-of-an-agent"),)
    )

    assert sender.export(sdk_spans) is SpanExportResult.SUCCESS


def test_1_14_calls_in_flight_are_served_at_once(start, request_of, until):
    """Twenty calls wait for one commit on one connection: none waits for another to end."""
    running = start()
    gate, busy, real = threading.Event(), [], Ledger.add

    def slow(self, *facts, **options):
        busy.append(facts)
        assert gate.wait(60)
        return real(self, *facts, **options)

    body = request_of.SerializeToString()
    with mock.patch.object(Ledger, "add", slow), ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(running.export, body) for _ in range(20)]
        until(lambda: running.metric("turnavoid_receiver_pending_requests") == 19)
        gate.set()
        assert [call.result() for call in calls] == [b""] * 20


def test_1_14_the_cap_of_streams_can_be_configured(start, request_of, until):
    """With room for one stream the second call waits in the client."""
    running = start(grpc="max_concurrent_streams: 1")
    gate, busy, real = threading.Event(), [], Ledger.add

    def slow(self, *facts, **options):
        busy.append(facts)
        assert gate.wait(60)
        return real(self, *facts, **options)

    body = request_of.SerializeToString()
    running.export(b"")  # the client knows the cap from the first answer on
    with mock.patch.object(Ledger, "add", slow), ThreadPoolExecutor(2) as pool:
        first = pool.submit(running.export, body)
        until(lambda: busy)
        second = pool.submit(running.export, body)
        assert running.metric("turnavoid_receiver_pending_requests") == 0
        gate.set()
        assert (first.result(), second.result()) == (b"", b"")
    assert len(busy) == 2


def test_1_15_an_old_connection_is_told_to_come_back_and_nothing_is_lost(start, request_of, until):
    ages = "max_connection_age: 1s, max_connection_age_grace: 60s"
    running = start(grpc=f"keepalive: {{server_parameters: {{{ages}}}}}")
    states = []
    running.channel.subscribe(states.append)
    running.export(request_of.SerializeToString())

    # What the channel saw is told by a thread of its own: READY may come after the answer.
    until(lambda: _READY in states)
    until(lambda: grpc.ChannelConnectivity.IDLE in states[states.index(_READY) :])
    assert running.export(request_of.SerializeToString()) == b""


_READY = grpc.ChannelConnectivity.READY


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("trace_id", b"\x01" * 15, "the trace id is not 16 bytes long"),
        ("trace_id", bytes(16), "the trace id is all zeros"),
        ("trace_id", b"", "the trace id is missing"),
        ("span_id", b"\x01" * 9, "the span id is not 8 bytes long"),
        ("span_id", bytes(8), "the span id is all zeros"),
        ("span_id", b"", "the span id is missing"),
        ("parent_span_id", b"\x01" * 7, "the parent span id is not 8 bytes long"),
    ],
)
def test_1_16_a_span_whose_ids_are_invalid_is_refused_singly(  # noqa: PLR0913, PLR0917 - fixtures
    running, request_of, run_id, field, value, reason
):
    spans = spans_of(request_of)
    setattr(spans[0], field, value)

    answer = ExportTraceServiceResponse.FromString(running.export(request_of.SerializeToString()))

    assert answer.partial_success.rejected_spans == 1
    assert reason in answer.partial_success.error_message
    assert len(running.stored(run_id)) == len(spans) - 1


def test_1_16_flags_and_unknown_enumeration_numbers_are_no_fault(running, request_of, run_id):
    for span in spans_of(request_of):
        span.flags = 0x301
        span.kind = 99
        span.status.code = 77

    assert running.export(request_of.SerializeToString()) == b""
    assert len(running.stored(run_id)) == len(spans_of(request_of))


@pytest.mark.parametrize("trace_id", [b"\x01" * 3, bytes(16), b""])
def test_1_16_a_log_record_with_invalid_ids_is_not_correlated_and_not_refused(
    running, run_id, trace_id
):
    request = ExportLogsServiceRequest.FromString(observation(run_id))
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.trace_id = trace_id
    record.span_id = b"\x01"

    assert running.export(request.SerializeToString(), "logs") == b""


def test_1_16_the_event_name_marks_an_event(running, run_id):
    """The same record without its event name is just a log record."""
    request = ExportLogsServiceRequest.FromString(observation(run_id))
    request.resource_logs[0].scope_logs[0].log_records[0].event_name = ""
    ignored = running.metric("turnavoid_processor_ignored_items_total")

    running.export(request.SerializeToString(), "logs")
    assert running.metric("turnavoid_processor_ignored_items_total") == ignored + 1

    running.export(observation(run_id), "logs")
    assert running.metric("turnavoid_processor_ignored_items_total") == ignored + 1


def test_1_17_attribute_values_of_every_kind_are_accepted(running, request_of, run_id):
    values = [
        AnyValue(),
        AnyValue(bytes_value=b"\x00\xff"),
        AnyValue(array_value={"values": [AnyValue(int_value=1), AnyValue(string_value="a")]}),
        AnyValue(kvlist_value={"values": [{"key": "", "value": AnyValue(bool_value=True)}]}),
        AnyValue(double_value=float("nan")),
    ]
    for span in spans_of(request_of):
        for number, value in enumerate(values):
            # The same key again and again, too: whatever it then means, it must do no harm.
            span.attributes.add(key="gen_ai.output.messages", value=value)
            span.attributes.add(key=f"own.{number}", value=value)
        span.attributes.add(key="gen_ai.response.id")

    assert running.export(request_of.SerializeToString()) == b""
    assert len(running.stored(run_id)) == len(spans_of(request_of))


def test_1_18_references_into_a_string_table_are_logged_and_absent(running, run_id, caplog):
    _warn_of_references.cache_clear()
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = run_id.encode().ljust(16, b"-"), b"12345678", "chat"
    span.attributes.add(key="turnavoid.run.id").value.string_value = run_id
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    reference = _field(1, b"gen_ai.request.model") + _field(2, b"\x40\x07")  # strindex 7
    body = _field(1, _field(2, _field(2, span.SerializeToString() + _field(9, reference))))

    with caplog.at_level(logging.WARNING, logger="otel_turnavoid.otlp.attributes"):
        assert running.export(body) == b""

    assert len(running.stored(run_id)) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "attribute values refer to a string table, which only profiles have; left out"
    ]


@pytest.mark.parametrize("depth", [60, 1000])
def test_1_19_values_nested_too_deep_are_invalid_argument(running, request_of, depth):
    span = spans_of(request_of)[0]
    value = AnyValue(string_value="core").SerializeToString()
    for _ in range(depth):
        value = _field(5, _field(1, value))
    attribute = _field(1, b"gen_ai.output.messages") + _field(2, value)
    body = _field(1, _field(2, _field(2, span.SerializeToString() + _field(9, attribute))))

    assert running.refused(body).code is grpc.StatusCode.INVALID_ARGUMENT


def _field(number: int, content: bytes) -> bytes:
    length, size = bytearray(), len(content)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([number << 3 | 2]) + bytes(length) + content


def test_1_19_invalid_utf_8_is_invalid_argument(running, request_of):
    body = request_of.SerializeToString()
    broken = body.replace(
        b"turnavoid.arm\x12\x09\x0a\x07control", b"turnavoid.arm\x12\x09\x0a\x07c\xffntrol"
    )
    assert broken != body

    assert running.refused(broken).code is grpc.StatusCode.INVALID_ARGUMENT


def test_1_19_what_nobody_reads_is_not_decoded_and_does_no_harm(running):
    """A span that is not about agents may hold anything; it is counted and left."""
    body = other_spans(1).replace(b"GET /orders", b"GET /\xffrders")

    assert running.export(body) == b""
