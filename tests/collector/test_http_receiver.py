"""OTLP/HTTP, rule by rule, against a running processor."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import httpx
import pytest
from google.protobuf import json_format
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
from otel_turnavoid.collector.http_receiver import Refusal, gunzip
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.store import Ledger

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
SMALL = 4096

Runs = Callable[..., ExportTraceServiceRequest]


@pytest.fixture
def config() -> Config:
    return parse(
        """
        receivers:
          otlp:
            protocols:
              http: {endpoint: "localhost:0", max_request_body_size: 4096}
        exporters: {prometheus: {endpoint: "localhost:0"}}
        """,
        env={},
    )


@pytest.fixture
def client(processor: Processor) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=processor.http_endpoint or "", timeout=60) as client:
        yield client


@pytest.fixture
def impatient(ledger_url: str) -> Iterator[tuple[str, int]]:
    """Where a receiver listens that waits for a body for a moment only."""
    config = parse(
        f"""
        receivers:
          otlp:
            protocols:
              http: {{endpoint: "localhost:0", max_request_body_size: {SMALL}, read_timeout: 300ms}}
        """,
        env={},
    )
    with Processor(config, ledger_url=ledger_url) as processor:
        host, _, port = (processor.http_endpoint or "").removeprefix("http://").rpartition(":")
        yield host, int(port)


def post(client: httpx.Client, body: bytes, path: str = "/v1/traces", **headers: str):
    sent = {"content-type": PROTOBUF}
    sent.update({key.replace("_", "-"): value for key, value in headers.items()})
    return client.post(path, content=body, headers=sent)


def test_an_accepted_export_is_200_with_an_unset_partial_success(client, run_request):
    response = post(client, run_request("r").SerializeToString())

    assert response.status_code == 200
    assert response.headers["content-type"] == PROTOBUF
    assert response.content == b""


def test_an_accepted_export_is_in_the_ledger_when_it_is_answered(client, run_request, ledger_url):
    post(client, run_request("r", turns=2).SerializeToString())

    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 5


def test_json_is_answered_in_json(client):
    response = post(client, b'{"resourceSpans": []}', content_type=JSON)

    assert (response.status_code, response.content) == (200, b"{}")
    assert response.headers["content-type"] == JSON


def test_json_and_protobuf_of_one_request_are_one_set_of_facts(client, ledger_url, run_request):
    request = run_request("r", turns=1)
    post(client, request.SerializeToString())
    post(client, otlp_json(request), content_type=JSON)

    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 3


def otlp_json(request: ExportTraceServiceRequest) -> bytes:
    """Return OTLP/JSON: protobuf's JSON with hex ids."""
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "content_type", "body"),
    [
        ("/v1/traces", PROTOBUF, b""),
        ("/v1/logs", PROTOBUF, b""),
        ("/v1/traces", JSON, b"{}"),
        ("/v1/logs", JSON, b"{}"),
        (
            "/v1/traces",
            PROTOBUF,
            ExportTraceServiceRequest(resource_spans=[{}]).SerializeToString(),
        ),
        ("/v1/logs", PROTOBUF, ExportLogsServiceRequest(resource_logs=[{}]).SerializeToString()),
    ],
)
def test_an_empty_export_is_200(client, path, content_type, body):
    assert post(client, body, path, content_type=content_type).status_code == 200


@pytest.mark.parametrize("content_type", ["Application/X-Protobuf", f"{PROTOBUF}; charset=utf-8"])
def test_only_the_media_type_of_the_content_type_is_compared(client, content_type):
    assert post(client, b"", content_type=content_type).status_code == 200


def test_another_content_type_is_415(client):
    response = post(client, b"", content_type="text/plain")

    assert response.status_code == 415
    assert response.json() == {
        "code": 3,
        "message": "Content-Type 'text/plain' is not understood; "
        "use application/x-protobuf or application/json",
    }


def test_no_content_type_is_415(client):
    response = client.post("/v1/traces", content=b"")

    assert response.status_code == 415
    assert response.json()["message"].startswith("no Content-Type is not understood")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_another_method_is_405(client, method):
    response = client.request(method, "/v1/traces")

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["message"] == f"{method} is not understood here; use POST"


def test_another_path_is_404_with_a_status_in_the_encoding_of_the_request(client):
    response = post(client, b"", "/v1/metrics")

    assert response.status_code == 404
    assert Status.FromString(response.content) == Status(
        code=code_pb2.NOT_FOUND, message="Not Found: /v1/metrics"
    )


def test_a_path_with_a_slash_too_many_is_404_and_no_redirect(client):
    """Exporters count a redirect as success and drop what they sent."""
    assert post(client, b"", "/v1/traces/").status_code == 404


def test_undecodable_protobuf_is_400_with_a_status_and_a_bad_request(client):
    response = post(client, b"\x0a\xff")

    assert (response.status_code, response.headers["content-type"]) == (400, PROTOBUF)
    status = Status.FromString(response.content)
    assert status.code == code_pb2.INVALID_ARGUMENT
    violation = BadRequest()
    assert status.details[0].Unpack(violation)
    assert violation.field_violations[0].description == status.message != ""


def test_undecodable_json_is_400_in_json(client):
    response = post(client, b'{"resourceSpans": [', content_type=JSON)

    assert (response.status_code, response.headers["content-type"]) == (400, JSON)
    body = response.json()
    assert body["code"] == 3
    assert body["details"][0]["@type"] == "type.googleapis.com/google.rpc.BadRequest"


def test_gzip_is_accepted(client, run_request, ledger_url):
    body = gzip.compress(run_request("r", turns=1).SerializeToString())

    assert post(client, body, content_encoding="gzip").status_code == 200
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 3


def test_another_content_encoding_is_400(client):
    response = post(client, b"", content_encoding="br")

    assert response.status_code == 400
    assert Status.FromString(response.content).message == (
        "Content-Encoding 'br' is not understood; use gzip or identity"
    )


def test_a_body_that_is_not_the_gzip_it_says_is_400(client):
    response = post(client, b"plain", content_encoding="gzip")

    assert response.status_code == 400
    assert Status.FromString(response.content).message == "the body is not gzip, as it says"


def test_a_body_above_the_limit_is_413(client):
    response = post(client, b"x" * (SMALL + 1))

    assert response.status_code == 413
    assert Status.FromString(response.content) == Status(
        code=code_pb2.RESOURCE_EXHAUSTED, message="the body is larger than 4096 bytes"
    )


def test_a_body_of_no_announced_length_is_counted_while_it_arrives(impatient):
    """It never ends: the answer comes when the rest has been waited for."""
    piece = b"x" * (SMALL + 1)
    with socket.create_connection(impatient, timeout=60) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: application/json\r\n\r\n%x\r\n%s\r\n" % (len(piece), piece)
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_body_above_the_limit_is_taken_off_the_wire_so_that_the_sender_sees_the_answer(client):
    response = post(client, b"x" * (8 << 20))

    assert response.status_code == 413
    assert "connection" not in response.headers


def test_a_gzip_body_that_expands_above_the_limit_is_413(client):
    response = post(client, gzip.compress(b"\0" * (SMALL + 1)), content_encoding="gzip")

    assert response.status_code == 413


def test_a_gzip_bomb_is_never_expanded_beyond_the_limit():
    bomb = gzip.compress(b"\0" * (256 << 20), compresslevel=1)
    made = []
    real = __import__("zlib").decompressobj

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._inner = real(wbits)

        def decompress(self, data: bytes, limit: int) -> bytes:
            piece = self._inner.decompress(data, limit)
            made.append(len(piece))
            return piece

        def __getattr__(self, name: str):
            return getattr(self._inner, name)

    with mock.patch("zlib.decompressobj", Counting), pytest.raises(Refusal):
        gunzip(bomb, 1 << 20)
    assert sum(made) == (1 << 20) + 1


def test_gzip_members_in_a_row_are_one_body():
    assert gunzip(gzip.compress(b"ab") + gzip.compress(b"c"), 10) == b"abc"


def test_a_gzip_body_of_exactly_the_limit_is_accepted():
    assert gunzip(gzip.compress(b"abc"), 3) == b"abc"


def test_a_gzip_body_that_is_cut_off_is_bad_data():
    with pytest.raises(Refusal, match="the gzip body is cut off"):
        gunzip(gzip.compress(b"abc" * 100)[:-9], 1000)


def test_spans_that_are_refused_singly_are_a_partial_success(client, run_request, ledger_url):
    request = run_request("r", turns=1)
    request.resource_spans[0].scope_spans[0].spans[0].span_id = bytes(8)
    response = post(client, request.SerializeToString())

    assert response.status_code == 200
    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert partial.rejected_spans == 1
    assert "span" in partial.error_message
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 2


def test_a_partial_success_in_json_writes_the_count_as_a_string(client, run_request):
    request = run_request("r", turns=1)
    request.resource_spans[0].scope_spans[0].spans[0].span_id = bytes(8)

    response = post(client, otlp_json(request), content_type=JSON)

    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"


def test_log_records_that_are_no_observations_are_accepted(client):
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add().body.string_value = "hello"

    response = post(client, request.SerializeToString(), "/v1/logs")

    assert response.status_code == 200
    assert ExportLogsServiceResponse.FromString(response.content) == ExportLogsServiceResponse()


def test_ledger_trouble_is_503_with_a_delay_in_both_places(client, run_request):
    with mock.patch.object(Ledger, "add", side_effect=LedgerError("database is locked")):
        response = post(client, run_request("r").SerializeToString())

    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    status = Status.FromString(response.content)
    assert (status.code, status.message) == (
        code_pb2.UNAVAILABLE,
        "the ledger cannot be written now",
    )
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


def test_an_unexpected_error_of_the_ledger_is_503_too(client, run_request):
    with mock.patch.object(Ledger, "add", side_effect=RuntimeError("surprise")):
        response = post(client, run_request("r").SerializeToString())

    assert response.status_code == 503


def test_a_bug_in_decoding_is_500_because_it_would_come_again(client, run_request):
    with mock.patch("otel_turnavoid.dialects.Reader.read", side_effect=RuntimeError("surprise")):
        response = post(client, run_request("r").SerializeToString())

    assert response.status_code == 500
    assert Status.FromString(response.content).message == "bug: RuntimeError in decoding"


def test_a_body_that_does_not_arrive_in_time_is_503(impatient):
    with socket.create_connection(impatient, timeout=60) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
            b"Content-Type: application/json\r\n\r\n{"
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 503")


def test_concurrent_exports_are_all_committed(client, run_request, ledger_url, processor):
    def send(number: int) -> None:
        body = run_request(f"r{number}", turns=1).SerializeToString()
        with httpx.Client(base_url=processor.http_endpoint or "", timeout=60) as own:
            statuses.append(post(own, body).status_code)

    statuses: list[int] = []
    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [200] * 8
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 24


def test_more_requests_than_may_wait_are_503_and_none_of_the_others_is_lost(
    ledger_url, run_request, until, metric
):
    """One is being committed, one waits, and a third is told to come back."""
    config = parse(
        """
        receivers:
          otlp: {protocols: {http: {endpoint: "localhost:0"}}, max_pending_requests: 1}
        exporters: {prometheus: {endpoint: "localhost:0"}}
        """,
        env={},
    )
    gate, commits = threading.Event(), []
    real = Ledger.add

    def slow(self, *facts, **options):
        commits.append(facts)
        assert gate.wait(60)
        return real(self, *facts, **options)

    def send(number: int) -> int:
        body = run_request(f"r{number}", turns=1).SerializeToString()
        headers = {"content-type": PROTOBUF}
        url = f"{processor.http_endpoint}/v1/traces"
        return httpx.post(url, content=body, headers=headers, timeout=60).status_code

    with (
        mock.patch.object(Ledger, "add", slow),
        ThreadPoolExecutor(2) as pool,
        Processor(config, ledger_url=ledger_url) as processor,
    ):
        first = pool.submit(send, 1)
        until(lambda: commits)
        second = pool.submit(send, 2)
        until(lambda: metric(processor, "turnavoid_receiver_pending_requests") == 1)
        third = send(3)
        gate.set()
        statuses = [first.result(), second.result(), third]
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 6
    assert statuses == [200, 200, 503]


def test_a_signal_without_a_pipeline_is_404(ledger_url):
    config = parse(
        """
        receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}
        service: {pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}}
        """,
        env={},
    )
    with Processor(config, ledger_url=ledger_url) as processor:
        response = httpx.post(
            f"{processor.http_endpoint}/v1/logs",
            content=b"",
            headers={"content-type": PROTOBUF},
            timeout=60,
        )
    assert response.status_code == 404
