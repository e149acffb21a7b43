"""OTLP/gRPC, rule by rule, against a running processor."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import grpc
import pytest
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_turnavoid.collector.config import Config, parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import ConfigurationError, InputError, LedgerError
from otel_turnavoid.store import Ledger

MIB = 1 << 20
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


@pytest.fixture
def config() -> Config:
    return parse(
        """
        receivers:
          otlp:
            protocols: {grpc: {endpoint: "localhost:0", max_recv_msg_size_mib: 1}}
        exporters: {}
        """,
        env={},
    )


@pytest.fixture
def channel(processor: Processor) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(processor.grpc_endpoint) as channel:
        yield channel


@pytest.fixture
def export(channel: grpc.Channel) -> Callable[..., bytes]:
    """Send a raw body and return the raw answer."""

    def call(body: bytes, method: str = TRACES, **options: Any) -> bytes:
        return channel.unary_unary(method)(body, timeout=60, **options)

    return call


def refused(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, dict[str, bytes]]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error = caught.value
    return error.code(), error.details(), dict(error.trailing_metadata())


def test_an_accepted_export_leaves_partial_success_unset(export, run_request):
    answer = export(run_request("r").SerializeToString())

    assert ExportTraceServiceResponse.FromString(answer) == ExportTraceServiceResponse()


def test_an_accepted_export_is_in_the_ledger_when_it_is_answered(export, run_request, ledger_url):
    export(run_request("r", turns=2).SerializeToString())

    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 5


def test_log_records_are_accepted(export, effects_request, ledger_url):
    answer = export(effects_request("r").SerializeToString(), LOGS)

    assert ExportLogsServiceResponse.FromString(answer) == ExportLogsServiceResponse()
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["observations"] == 1


def test_the_same_export_again_changes_nothing(export, run_request, ledger_url):
    body = run_request("r", turns=1).SerializeToString()

    export(body)
    export(body)

    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 3


@pytest.mark.parametrize(
    ("method", "body"),
    [
        (TRACES, b""),
        (LOGS, b""),
        (TRACES, ExportTraceServiceRequest(resource_spans=[{}]).SerializeToString()),
        (LOGS, ExportLogsServiceRequest(resource_logs=[{}]).SerializeToString()),
    ],
)
def test_an_empty_export_succeeds(export, method, body):
    assert export(body, method) == b""


def test_gzip_is_accepted(export, run_request):
    body = run_request("r").SerializeToString()

    assert export(body, compression=grpc.Compression.Gzip) == b""


def test_a_signal_that_is_not_taken_is_unimplemented(export):
    code, _, _ = refused(lambda: export(b"", METRICS))

    assert code is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("method", [TRACES, LOGS])
def test_undecodable_protobuf_is_invalid_argument_with_a_bad_request(export, method):
    code, details, metadata = refused(lambda: export(b"\x0a\xff", method))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    status = Status.FromString(metadata["grpc-status-details-bin"])
    assert (status.code, status.message) == (code_pb2.INVALID_ARGUMENT, details)
    violation = BadRequest()
    assert status.details[0].Unpack(violation)
    assert violation.field_violations[0].description == details
    assert "google.rpc.retryinfo-bin" not in metadata


def test_a_long_message_is_shortened_to_what_trailing_metadata_carries(export):
    error = InputError("", "\N{SNOWMAN}" * 10_000)
    with (
        mock.patch("otel_turnavoid.dialects.Reader.read", side_effect=error),
        pytest.raises(grpc.RpcError) as caught,
    ):
        export(_one_span())

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "\N{SNOWMAN}" * 299 + "…"


def _one_span() -> bytes:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = bytes([1] * 16), bytes([1] * 8), "chat"
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return request.SerializeToString()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_above_the_limit_is_resource_exhausted_and_not_to_be_retried(export, compression):
    code, _, metadata = refused(lambda: export(bytes(MIB + 1), compression=compression))

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "google.rpc.retryinfo-bin" not in metadata


def test_spans_that_are_refused_singly_are_a_partial_success(export, run_request, ledger_url):
    request = run_request("r", turns=1)
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = bytes(16)

    answer = ExportTraceServiceResponse.FromString(export(request.SerializeToString()))

    assert answer.partial_success.rejected_spans == 1
    assert answer.partial_success.error_message != ""
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 2


@pytest.mark.parametrize("error", [LedgerError("disk I/O error"), RuntimeError("surprise")])
def test_trouble_of_the_ledger_is_unavailable_with_a_delay_in_both_places(
    export, run_request, error
):
    with mock.patch.object(Ledger, "add", side_effect=error):
        code, details, metadata = refused(lambda: export(run_request("r").SerializeToString()))

    assert (code, details) == (
        grpc.StatusCode.UNAVAILABLE,
        "the ledger cannot be written now",
    )
    expected = RetryInfo(retry_delay={"seconds": 1})
    assert RetryInfo.FromString(metadata["google.rpc.retryinfo-bin"]) == expected
    inside = RetryInfo()
    assert Status.FromString(metadata["grpc-status-details-bin"]).details[0].Unpack(inside)
    assert inside == expected


def test_a_bug_in_decoding_is_internal_because_it_would_come_again(export, run_request):
    with mock.patch("otel_turnavoid.dialects.Reader.read", side_effect=RuntimeError("surprise")):
        code, details, _ = refused(lambda: export(run_request("r").SerializeToString()))

    assert (code, details) == (grpc.StatusCode.INTERNAL, "bug: RuntimeError in decoding")


def test_nothing_leaves_a_method_as_unknown(export):
    with mock.patch(
        "otel_turnavoid.collector.intake.Intake.take", side_effect=RuntimeError("surprise")
    ):
        code, _, _ = refused(lambda: export(b""))

    assert code is grpc.StatusCode.INTERNAL


def test_concurrent_exports_are_all_committed(export, run_request, ledger_url):
    bodies = [run_request(f"r{n}", turns=1).SerializeToString() for n in range(16)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(export, bodies))

    assert answers == [b""] * 16
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 48


def test_a_taken_port_is_one_clear_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = parse(
            f"""
            receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
            exporters: {{}}
            """,
            env={},
        )
        with pytest.raises(ConfigurationError) as caught:
            Processor(config, ledger_url=f"sqlite:///{tmp_path / 'l.db'}").start()

    assert str(caught.value) == (
        "receivers.otlp.protocols.grpc.endpoint: "
        f"cannot listen on 127.0.0.1:{port}: address already in use"
    )


def test_two_processors_do_not_share_a_port(processor, tmp_path):
    port = (processor.grpc_endpoint or "").rpartition(":")[2]
    config = parse(
        f"""
        receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "localhost:{port}"}}}}}}}}
        exporters: {{}}
        """,
        env={},
    )

    with pytest.raises(ConfigurationError, match="address already in use"):
        Processor(config, ledger_url=f"sqlite:///{tmp_path / 'l.db'}").start()
