"""What requests and connections may cost: refused in the protocol's words, with bounded memory."""

from __future__ import annotations

import gzip
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import grpc
import httpx
import pytest
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import run_spans

MIB = 1 << 20
JSON = "application/json"
PROTOBUF = {"content-type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPACE_MIB = 300
"""What one request may take at most beyond the process itself: some times its 64 MiB."""


def field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field."""
    length, size = bytearray(), len(content)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([number << 3 | 2]) + bytes(length) + content


EMPTY_SPANS = field(1, field(2, b"\x12\x00" * (16 * MIB)))
"""Sixteen million spans in 32 MiB, each of two bytes."""
EMPTY_RESOURCES = b"\x0a\x00" * (16 * MIB)


def agent_span(more: bytes) -> bytes:
    """Return a request with one span about agents that holds ``more`` fields."""
    request = ExportTraceServiceRequest.FromString(run_spans(run_id="bloated", turns=1))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    return field(1, field(2, field(2, span.SerializeToString() + more)))


MANY_ATTRIBUTES = agent_span(b"\x4a\x00" * (8 * MIB))
"""A span with eight million attributes."""
MANY_ELEMENTS = agent_span(
    field(
        9,
        field(1, b"gen_ai.input.messages") + field(2, field(5, b"\x0a\x00" * (8 * MIB))),
    )
)
"""A span with an array of eight million values."""
MANY_IN_A_TEXT = agent_span(
    field(
        9,
        field(1, b"gen_ai.output.messages") + field(2, field(1, b"[" + b"[]," * (8 * MIB) + b"0]")),
    )
)
"""A span with JSON of eight million arrays in a text."""


@pytest.mark.parametrize("body", [EMPTY_SPANS, EMPTY_RESOURCES], ids=["spans", "resources"])
def test_a_request_with_millions_of_spans_is_too_large_and_takes_no_memory(process, body):
    served = process()
    before = served.peak_mib()

    response = httpx.post(
        f"{served.http_endpoint}/v1/traces", content=body, headers=PROTOBUF, timeout=60
    )

    assert response.status_code == 413
    assert Status.FromString(response.content) == Status(
        code=code_pb2.RESOURCE_EXHAUSTED,
        message="request: more than 100000 spans or log records",
    )
    assert served.peak_mib() - before < SPACE_MIB


def test_over_grpc_it_is_resource_exhausted_and_not_to_be_sent_again(process):
    served = process()
    before = served.peak_mib()
    options = [("grpc.max_send_message_length", -1)]
    with (
        grpc.insecure_channel(served.grpc_endpoint, options) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(EXPORT)(EMPTY_SPANS, timeout=60)

    error = caught.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details() == "request: more than 100000 spans or log records"
    assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())
    assert served.peak_mib() - before < SPACE_MIB


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (MANY_ATTRIBUTES, "262144 values"),
        (MANY_ELEMENTS, "262144 values"),
        (MANY_IN_A_TEXT, "2097152 JSON values"),
    ],
    ids=["attributes", "elements", "text"],
)
def test_a_span_with_millions_of_values_is_refused_singly_and_takes_no_memory(
    process, body, values
):
    served = process()
    before = served.peak_mib()

    response = httpx.post(
        f"{served.http_endpoint}/v1/traces", content=body, headers=PROTOBUF, timeout=60
    )

    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert response.status_code == 200
    assert partial.rejected_spans == 1
    assert partial.error_message == f"spans refused: 1; more than {values} (1)"
    assert served.peak_mib() - before < SPACE_MIB


@pytest.mark.parametrize(
    "body",
    [
        b'{"resourceSpans": [' + b"{}," * (8 * MIB) + b"{}]}",
        b'{"x": [' + b"[[]]," * (4 * MIB) + b"0]}",
        b'{"x": [' + b'"",' * (8 * MIB) + b'""]}',
        b"[" * (16 * MIB),
    ],
    ids=["objects", "arrays", "texts", "nesting"],
)
def test_json_with_millions_of_values_is_too_large_and_takes_no_memory(process, body):
    served = process()
    before = served.peak_mib()

    response = httpx.post(
        f"{served.http_endpoint}/v1/traces",
        content=body,
        headers={"content-type": JSON},
        timeout=60,
    )

    assert response.status_code == 413
    assert response.json() == {
        "code": code_pb2.RESOURCE_EXHAUSTED,
        "message": "more than 2097152 JSON values in one request",
    }
    assert served.peak_mib() - before < SPACE_MIB


def test_the_counts_can_be_configured(start, request_of, run_id):
    running = start(receiver="max_request_items: 4")

    refusal = running.refused(request_of.SerializeToString())

    assert len(request_of.resource_spans[0].scope_spans[0].spans) == 5
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.message == "request: more than 4 spans or log records"
    assert running.stored(run_id) == []


def test_a_span_with_too_many_attributes_is_refused_singly(start, request_of, run_id):
    running = start(receiver="max_item_attributes: 30")
    span = request_of.resource_spans[0].scope_spans[0].spans[0]
    for number in range(30):
        span.attributes.add(key=f"own.{number}")

    answer = ExportTraceServiceResponse.FromString(running.export(request_of.SerializeToString()))

    assert answer.partial_success.error_message == ("spans refused: 1; more than 30 attributes (1)")
    assert len(running.stored(run_id)) == 4


def test_the_spans_of_a_resource_with_too_many_attributes_are_refused_singly(
    start, request_of, run_id
):
    running = start(receiver="max_item_attributes: 30")
    other = ExportTraceServiceRequest.FromString(run_spans(run_id=f"{run_id}-other", turns=1))
    for number in range(30):
        request_of.resource_spans[0].resource.attributes.add(key=f"own.{number}")
    request_of.MergeFrom(other)

    answer = ExportTraceServiceResponse.FromString(running.export(request_of.SerializeToString()))

    assert answer.partial_success.error_message == (
        "spans refused: 5; a resource with more than 30 attributes (5)"
    )
    assert (len(running.stored(run_id)), len(running.stored(f"{run_id}-other"))) == (0, 5)


def test_a_number_that_does_not_end_is_bad_data_at_once(running, request_of):
    """Read as it comes, its value would take time that grows with the square of its length."""
    attribute = field(1, b"gen_ai.operation.name") + b"\x12" + b"\x80" * (4 * MIB)

    refusal = running.refused(agent_span(field(9, attribute)), compression=grpc.Compression.Gzip)

    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_body_of_millions_of_gzip_members_is_bad_data_at_once(running):
    body = gzip.compress(b"") * 500_000

    response = running.post(body, content_encoding="gzip")

    assert response.status_code == 400
    assert Status.FromString(response.content).message == (
        "the body has more than 1024 gzip members"
    )


def test_a_message_that_does_not_arrive_in_time_is_unavailable(start):
    running = start(grpc="read_timeout: 200ms")
    ended = threading.Event()

    def never():
        ended.wait(60)
        yield from ()

    call = running.channel.stream_unary(EXPORT)
    with pytest.raises(grpc.RpcError) as caught:
        call(never(), timeout=60)
    ended.set()

    error = caught.value
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details() == "the message did not arrive in time"
    assert "google.rpc.retryinfo-bin" in dict(error.trailing_metadata())


def test_a_call_that_ends_without_a_message_is_invalid_argument(running):
    with pytest.raises(grpc.RpcError) as caught:
        running.channel.stream_unary(EXPORT)(iter(()), timeout=60)

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "the call ended without a message"


def test_a_body_that_does_not_arrive_in_time_is_503(start):
    running = start(http="read_timeout: 200ms")
    with running.connect() as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
            b"Content-Type: application/json\r\n\r\n{"
        )
        answer = b""
        while piece := connection.recv(65536):
            answer += piece

    assert answer.startswith(b"HTTP/1.1 503")
    assert b"the message did not arrive in time" in answer


def test_a_call_that_is_never_made_ends_with_its_connection_timeout(start):
    """A connection that does not even say that it speaks HTTP/2."""
    running = start(grpc="connection_timeout: 300ms")
    with running.connect(running.grpc_endpoint) as connection:
        received = b""
        while piece := connection.recv(65536):
            received += piece

    assert b"handshake timeout" in received


def test_requests_on_a_connection_too_many_are_503_in_their_encoding(start):
    running = start(http="max_connections: 2")
    kept = [running.connect() for _ in range(2)]
    try:
        for connection in kept:
            connection.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 404")

        response = running.post(b"{}", content_type=JSON)
    finally:
        for connection in kept:
            connection.close()

    assert (response.status_code, response.headers["content-type"]) == (503, JSON)
    assert (response.headers["retry-after"], response.headers["connection"]) == ("1", "close")
    assert response.json()["code"] == code_pb2.UNAVAILABLE
    assert response.json()["message"] == "too many connections"


def test_of_far_too_many_connections_the_last_are_closed_at_once(start):
    running = start(http="max_connections: 2")
    kept = [running.connect() for _ in range(6)]
    try:
        assert [ended(connection) for connection in kept[4:]] == [True, True]
    finally:
        for connection in kept:
            connection.close()


def ended(connection: socket.socket) -> bool:
    """Wait for the other side's end."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_grpc_connection_too_many_is_closed_and_senders_see_unavailable(start):
    running = start(grpc="max_connections: 1")
    port = running.grpc_endpoint.rsplit(":", 1)[1]
    options = [("grpc.use_local_subchannel_pool", 1)]
    with (
        grpc.insecure_channel(f"127.0.0.1:{port}", options) as first,
        grpc.insecure_channel(f"127.0.0.1:{port}", options) as second,
    ):
        assert first.unary_unary(EXPORT)(b"", timeout=60) == b""
        with pytest.raises(grpc.RpcError) as caught:
            second.unary_unary(EXPORT)(b"", timeout=60)

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_bytes_in_hand_count_as_they_are_after_decompression(start, request_of, until):
    running = start(receiver="max_pending_mib: 1")
    span = request_of.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="own.text").value.string_value = "x" * (MIB * 3 // 4)
    body = gzip.compress(request_of.SerializeToString())
    gate, busy, real = threading.Event(), [], Ledger.add

    def slow(self, *facts, **options):
        busy.append(facts)
        assert gate.wait(60)
        return real(self, *facts, **options)

    def send() -> httpx.Response:
        headers = {**PROTOBUF, "content-encoding": "gzip"}
        url = f"{running.http_endpoint}/v1/traces"
        return httpx.post(url, content=body, headers=headers, timeout=60)

    with mock.patch.object(Ledger, "add", slow), ThreadPoolExecutor(1) as pool:
        first = pool.submit(send)
        until(lambda: busy)
        response = send()
        gate.set()
        assert first.result().status_code == 200

    assert response.status_code == 503
    assert Status.FromString(response.content).message == "too many bytes of requests in hand"


def test_messages_that_arrive_all_at_once_are_bounded_by_the_memory_limiter(process):
    """gRPC buffers each before anybody can count it: together they are a gibibyte.

    Above 250 MiB none is asked for; the few that were asked for by then are taken twice each,
    as gRPC's buffer and as a message.
    """
    limiter = "limit_mib: 400, spike_limit_mib: 150, check_interval: 10ms"
    served = process(processors=f"memory_limiter: {{{limiter}}}")
    body = field(15, bytes(40 * MIB))  # a field that nobody knows
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]

    def send(_number: int) -> grpc.StatusCode:
        with grpc.insecure_channel(served.grpc_endpoint, options) as channel:
            try:
                channel.unary_unary(EXPORT)(body, timeout=60)
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

    with ThreadPoolExecutor(24) as pool:
        codes = set(pool.map(send, range(24)))

    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert served.peak_mib() < 800
