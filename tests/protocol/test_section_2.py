"""OTLP/HTTP server and OTLP/JSON: section 2 of the requirements, each rule under its number."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import httpx
import pytest
from google.protobuf import json_format
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_turnavoid.collector.answer import Trouble
from otel_turnavoid.collector.components import HttpProtocol
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.http_receiver import _STATUSES
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.collector.rpc_status import CODES
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, run_spans

MIB = 1 << 20
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
SMALL = "max_request_body_size: 4096"


def otlp_json(request: ExportTraceServiceRequest) -> dict:
    """Return OTLP/JSON: protobuf's JSON with hex ids and numbers for enumerations."""
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for span in spans_in(document):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64decode(span[key]).hex()
    return document


def spans_in(document: dict) -> list[dict]:
    return [
        span
        for resource in document["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


@pytest.fixture
def document(request_of) -> dict:
    return otlp_json(request_of)


@pytest.fixture
def send_json(running) -> Callable[..., httpx.Response]:
    def send(document: object, signal: str = "traces") -> httpx.Response:
        return running.post(json.dumps(document).encode(), signal, content_type=JSON)

    return send


@pytest.fixture
def exporter(running):
    """The SDK's own exporter, as an agent has it."""
    made = []

    def make(base=None, **options):
        made.append(OTLPSpanExporter(f"{base or running.http_endpoint}/v1/traces", **options))
        return made[-1]

    yield make
    for each in made:
        each.shutdown()


def test_2_1_the_sdk_posts_spans_to_v1_traces(running, exporter, sdk_spans, run_id):
    assert exporter().export(sdk_spans) is SpanExportResult.SUCCESS
    assert len(running.stored(run_id)) == 2


def test_2_1_the_sdk_posts_log_records_to_v1_logs(running):
    before = running.metric("turnavoid_receiver_accepted_log_records_total", transport="http")
    provider = LoggerProvider(shutdown_on_exit=False)
    exporter = OTLPLogExporter(f"{running.http_endpoint}/v1/logs")
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("app").emit(body="hello")
    provider.shutdown()

    after = running.metric("turnavoid_receiver_accepted_log_records_total", transport="http")
    assert after == before + 1


def test_2_1_the_default_port_is_4318():
    assert HttpProtocol().endpoint.port == 4318


def test_2_1_the_paths_can_be_configured(start, request_of, run_id):
    running = start(http="traces_url_path: /in/spans, logs_url_path: /in/logs")
    body = request_of.SerializeToString()

    assert running.post(body, "/in/spans").status_code == 200
    assert running.post(b"", "/in/logs").status_code == 200
    assert running.post(body, "/v1/traces").status_code == 404
    assert len(running.stored(run_id)) == 5


def test_2_1_metrics_are_not_accepted(running):
    assert running.post(b"", "/v1/metrics").status_code == 404


@pytest.mark.parametrize(
    "content_type", [PROTOBUF, f"{PROTOBUF}; charset=utf-8", "Application/X-Protobuf"]
)
def test_2_2_protobuf_is_told_by_its_media_type_alone(running, request_of, content_type):
    response = running.post(request_of.SerializeToString(), content_type=content_type)

    assert response.status_code == 200


@pytest.mark.parametrize("content_type", [JSON, f"{JSON};charset=utf-8", "Application/JSON"])
def test_2_2_json_is_told_by_its_media_type_alone_on_the_same_port(running, document, content_type):
    body = json.dumps(document).encode()

    assert running.post(body, content_type=content_type).status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/grpc", ""])
def test_2_2_another_media_type_is_415(running, content_type):
    assert running.post(b"", content_type=content_type).status_code == 415


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_2_2_another_method_is_405(running, method):
    response = running.web.request(method, "/v1/traces")

    assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"", {}, 200),
        (b"\x7b\x7b", {}, 400),
        (b"", {"content_encoding": "br"}, 400),
        (b"x" * 5000, {}, 413),
    ],
)
def test_2_3_the_answer_is_in_the_encoding_of_the_request(small, content_type, body, headers, code):
    if code == 200 and content_type == JSON:
        body = b"{}"
    response = small.post(body, content_type=content_type, **headers)

    assert (response.status_code, response.headers["content-type"]) == (code, content_type)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A processor that takes 4 KiB a body, and waits for it half a second."""
    url = f"sqlite:///{tmp_path_factory.mktemp('small') / 'ledger.db'}"
    config = parse(
        f"""
        receivers: {{otlp: {{protocols: {{http: {{endpoint: "localhost:0", {SMALL}}}}}}}}}
        exporters: {{prometheus: {{endpoint: "localhost:0"}}}}
        """,
        env={},
    )
    with (
        Processor(config, ledger_url=url) as processor,
        httpx.Client(base_url=processor.http_endpoint or "", timeout=60) as web,
    ):
        yield Poster(web)


class Poster:
    def __init__(self, web: httpx.Client) -> None:
        self.web = web

    def post(self, body: object, **headers: str) -> httpx.Response:
        sent = {"content-type": PROTOBUF}
        sent.update({key.replace("_", "-"): value for key, value in headers.items()})
        return self.web.post("/v1/traces", content=body, headers=sent)


def test_2_4_success_is_200_with_an_empty_protobuf_response(running, request_of):
    response = running.post(request_of.SerializeToString())

    assert (response.status_code, response.content) == (200, b"")


def test_2_4_success_is_200_with_an_empty_json_object(send_json, document):
    response = send_json(document)

    assert (response.status_code, response.content) == (200, b"{}")


@pytest.mark.parametrize("signal", ["traces", "logs"])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (PROTOBUF, b""),
        (PROTOBUF, ExportTraceServiceRequest(resource_spans=[{}]).SerializeToString()),
        (JSON, b"{}"),
        (JSON, b'{"resourceSpans": [], "resourceLogs": []}'),
        (JSON, b'{"resourceSpans": [{"scopeSpans": [{}]}]}'),
    ],
)
def test_2_5_an_empty_request_is_200(running, signal, content_type, body):
    assert running.post(body, signal, content_type=content_type).status_code == 200


def test_2_6_partial_success_is_200_with_the_count_and_a_reason(running, request_of, run_id):
    spans = request_of.resource_spans[0].scope_spans[0].spans
    spans[0].trace_id = b"short"

    response = running.post(request_of.SerializeToString())

    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert response.status_code == 200
    assert partial.rejected_spans == 1
    assert partial.error_message == ("spans refused: 1; the trace id is not 16 bytes long (1)")
    assert len(running.stored(run_id)) == len(spans) - 1


def test_2_6_partial_success_in_json_has_lower_camel_case_and_a_decimal_string(send_json, document):
    spans_in(document)[0]["spanId"] = "00" * 8

    assert send_json(document).json() == {
        "partialSuccess": {
            "rejectedSpans": "1",
            "errorMessage": "spans refused: 1; the span id is all zeros (1)",
        }
    }


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"\x0a\xff", {}, 400),
        (b"", {"content_encoding": "br"}, 400),
        (b"no gzip", {"content_encoding": "gzip"}, 400),
        (b"x" * 5000, {}, 413),
    ],
)
def test_2_7_a_refusal_is_a_status_with_code_and_message(small, body, headers, code):
    response = small.post(body, **headers)

    status = Status.FromString(response.content)
    assert response.status_code == code
    assert status.code in (code_pb2.INVALID_ARGUMENT, code_pb2.RESOURCE_EXHAUSTED)
    assert status.message != ""


def test_2_7_400_carries_a_bad_request(running):
    status = Status.FromString(running.post(b"\x0a\xff").content)

    found = BadRequest()
    assert status.details[0].Unpack(found)
    assert found.field_violations[0].description == status.message


def test_2_7_a_refusal_in_json_names_the_field(send_json, document):
    spans_in(document)[0]["startTimeUnixNano"] = "soon"

    response = send_json(document)

    assert response.status_code == 400
    assert response.json() == {
        "code": 3,
        "message": (
            "resourceSpans[0].scopeSpans[0].spans[0].startTimeUnixNano: want an integer, as a "
            "number or a decimal string, got a string of 4 characters"
        ),
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": "body", "description": response.json()["message"]}],
            }
        ],
    }


@pytest.mark.parametrize("path", ["/v1/metrics", "/", "/v1/traces/"])
def test_2_7_an_unknown_path_is_404_with_a_status_too(running, path):
    response = running.post(b"", path)

    assert response.status_code == 404
    assert Status.FromString(response.content).code == code_pb2.NOT_FOUND


@pytest.mark.parametrize("error", [LedgerError("disk full"), RuntimeError("surprise")])
def test_2_8_a_passing_fault_is_503_and_never_500(running, request_of, error):
    with mock.patch.object(Ledger, "add", side_effect=error):
        assert running.post(request_of.SerializeToString()).status_code == 503


def test_2_8_only_what_may_be_sent_again_has_a_retryable_status():
    retryable = {trouble for trouble, status in _STATUSES.items() if status in (429, 502, 503, 504)}

    assert retryable == {Trouble.UNAVAILABLE}


def test_2_8_the_sdk_sends_again_after_503(running, exporter, sdk_spans, run_id):
    real, troubles = Ledger.add, [LedgerError("database is locked")]

    def add(self, *facts, **options):
        if troubles:
            raise troubles.pop()
        return real(self, *facts, **options)

    with mock.patch.object(Ledger, "add", add):
        assert exporter().export(sdk_spans) is SpanExportResult.SUCCESS
    assert len(running.stored(run_id)) == 2


def test_2_8_the_sdk_does_not_send_again_after_413(start, exporter, sdk_spans, caplog):
    running = start(http="max_request_body_size: 10")

    assert exporter(running.http_endpoint).export(sdk_spans) is SpanExportResult.FAILURE
    assert running.metric("turnavoid_receiver_requests_total", outcome="refused") == 1


@pytest.mark.parametrize("signal", ["traces", "logs"])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [(PROTOBUF, b"\x0a\xff"), (JSON, b"{"), (JSON, b"[]"), (JSON, b'"text"'), (JSON, b"")],
)
def test_2_9_undecodable_data_is_400(running, signal, content_type, body):
    assert running.post(body, signal, content_type=content_type).status_code == 400


def test_2_10_overload_is_503_with_the_same_delay_in_retry_after_and_retry_info(
    start, request_of, until
):
    running = start(receiver="max_concurrent_requests: 1")
    body, gate, busy, real = request_of.SerializeToString(), threading.Event(), [], Ledger.add

    def slow(self, *facts, **options):
        busy.append(facts)
        assert gate.wait(60)
        return real(self, *facts, **options)

    with mock.patch.object(Ledger, "add", slow), ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.post, body)
        until(lambda: busy)
        response = httpx.post(
            f"{running.http_endpoint}/v1/traces",
            content=body,
            headers={"content-type": PROTOBUF},
            timeout=60,
        )
        gate.set()
        assert first.result().status_code == 200

    status, retry = Status.FromString(response.content), RetryInfo()
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert (status.code, status.message) == (code_pb2.UNAVAILABLE, "too many requests in hand")
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


def test_2_11_the_default_limit_is_64_mib():
    assert HttpProtocol().max_request_body_size == 64 * MIB


def test_2_11_a_body_above_the_limit_is_413(small):
    assert small.post(b"x" * 4097).status_code == 413


def test_2_11_a_body_of_exactly_the_limit_is_taken(small):
    assert small.post(b"\x7a\xfd\x1f" + bytes(4093)).status_code == 200


def test_2_11_a_body_that_expands_above_the_limit_is_413(small):
    response = small.post(gzip.compress(bytes(4097)), content_encoding="gzip")

    assert response.status_code == 413
    assert Status.FromString(response.content) == Status(
        code=code_pb2.RESOURCE_EXHAUSTED, message="the body is larger than 4096 bytes"
    )


def test_2_12_the_answer_to_the_worst_request_is_short(running):
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for size in range(1, 2000):
        spans.add(trace_id=bytes([1]) * (16 + size), span_id=bytes([2]) * 8)

    assert len(running.post(request.SerializeToString()).content) < 4096


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_2_13_identity_and_gzip_of_the_sdk_are_accepted(
    running, exporter, sdk_spans, run_id, compression
):
    assert exporter(compression=compression).export(sdk_spans) is SpanExportResult.SUCCESS
    assert len(running.stored(run_id)) == 2


@pytest.mark.parametrize("coding", ["identity", "", "GZIP"])
def test_2_13_codings_are_told_whatever_their_case(running, request_of, coding):
    body = request_of.SerializeToString()
    sent = gzip.compress(body) if "gzip" in coding.lower() else body

    assert running.post(sent, content_encoding=coding).status_code == 200


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "gzip, gzip"])
def test_2_13_another_coding_is_400(running, coding):
    response = running.post(b"", content_encoding=coding)

    assert response.status_code == 400
    assert Status.FromString(response.content).message == (
        f"Content-Encoding {coding!r} is not understood; use gzip or identity"
    )


def test_2_13_json_may_be_gzipped_too(running, document, run_id):
    body = gzip.compress(json.dumps(document).encode())

    assert running.post(body, content_type=JSON, content_encoding="gzip").status_code == 200
    assert len(running.stored(run_id)) == 5


def test_2_14_status_and_code_of_every_refusal_agree_with_the_collectors_table():
    table = {
        code_pb2.UNAVAILABLE: 503,
        code_pb2.INVALID_ARGUMENT: 400,
        code_pb2.UNAUTHENTICATED: 401,
        code_pb2.PERMISSION_DENIED: 403,
        code_pb2.INTERNAL: 500,
        # Not the collector's 429, which senders repeat: OTLP 1.11 wants 413 for what is too large.
        code_pb2.RESOURCE_EXHAUSTED: 413,
    }

    assert {CODES[trouble]: status for trouble, status in _STATUSES.items()} == table


def test_2_15_the_deadlines_are_the_collectors():
    protocol = HttpProtocol()

    assert protocol.read_header_timeout.seconds == 60
    assert protocol.write_timeout.seconds == 30
    assert protocol.idle_timeout.seconds == 60


def test_2_15_connections_are_kept_alive(running, request_of):
    with running.connect() as connection:
        for _ in range(3):
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                b"Content-Type: application/x-protobuf\r\n\r\n"
            )
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"POST /v1/tra", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"])
def test_2_15_a_connection_whose_headers_do_not_arrive_is_closed(start, sent):
    running = start(http="read_header_timeout: 200ms")
    with running.connect() as connection:
        connection.sendall(sent)

        assert connection.recv(65536) == b""


def test_2_15_dripping_headers_do_not_put_the_deadline_off(start):
    running = start(http="read_header_timeout: 300ms")
    tick = threading.Event()
    with running.connect() as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nX: ")
        try:
            for _ in range(400):
                connection.sendall(b"x")
                tick.wait(0.05)
        except OSError:  # the other side is gone
            return
    pytest.fail("it is still there")


def test_2_15_an_idle_connection_is_closed(start):
    running = start(http="idle_timeout: 200ms")
    with running.connect() as connection:
        connection.sendall(b"GET /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece

    assert answer.startswith(b"HTTP/1.1 405")


def test_2_16_no_origin_is_allowed(running):
    origin = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
    for method in ("OPTIONS", "POST"):
        response = running.web.request(method, "/v1/traces", headers=origin)
        assert [name for name in response.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize("written", [str.lower, str.upper])
def test_2_17_ids_are_hex_in_either_case(running, send_json, document, run_id, written):
    for span in spans_in(document):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = written(span[key])

    send_json(document)

    assert {row[:2] for row in running.stored(run_id)} == {
        (span["traceId"].lower(), span["spanId"].lower()) for span in spans_in(document)
    }


@pytest.mark.parametrize("key", ["traceId", "spanId", "parentSpanId"])
def test_2_17_ids_in_base64_are_refused_and_never_read_as_something_else(send_json, document, key):
    spans_in(document)[0][key] = "CgsMDQ4PEBESExQVFhcYGQ=="

    assert send_json(document).status_code == 400


def test_2_17_an_empty_parent_is_no_parent(running, send_json, document, run_id):
    spans_in(document)[0]["parentSpanId"] = ""

    assert send_json(document).content == b"{}"


def test_2_17_other_bytes_are_base64(send_json, document):
    span = spans_in(document)[0]
    span["attributes"].append({"key": "b", "value": {"bytesValue": "/wD+"}})
    assert send_json(document).status_code == 200

    span["attributes"].append({"key": "c", "value": {"bytesValue": "!"}})
    assert send_json(document).status_code == 400


def test_2_18_keys_in_snake_case_are_unknown_fields(running, send_json, document, run_id):
    renamed = {"resource_spans": document["resourceSpans"]}

    assert send_json(renamed).content == b"{}"
    assert running.stored(run_id) == []


@pytest.mark.parametrize("kind", ["SPAN_KIND_CLIENT", "3"])
def test_2_19_names_of_enumeration_values_are_refused(send_json, document, kind):
    spans_in(document)[0]["kind"] = kind

    assert send_json(document).status_code == 400


@pytest.mark.parametrize("written", [str, int])
def test_2_20_64_bit_integers_are_read_as_text_and_as_numbers(
    running, send_json, document, run_id, written
):
    for span in spans_in(document):
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = written(span[key])
        for attribute in span["attributes"]:
            if "intValue" in attribute["value"]:
                attribute["value"]["intValue"] = written(attribute["value"]["intValue"])

    assert send_json(document).content == b"{}"
    assert running.stored(run_id) != []


def test_2_21_unknown_fields_are_ignored_wherever_they_stand(running, send_json, document, run_id):
    for part in (document, document["resourceSpans"][0], *spans_in(document)):
        part["somethingNew"] = {"a": [1, {"b": None}]}

    assert send_json(document).content == b"{}"
    assert len(running.stored(run_id)) == len(spans_in(document))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", 1.5, "1.5", 2])
def test_2_22_doubles_may_be_numbers_or_the_words_of_proto3(send_json, document, value):
    spans_in(document)[0]["attributes"].append({"key": "d", "value": {"doubleValue": value}})

    assert send_json(document).status_code == 200


@pytest.mark.parametrize("value", ["nan", "inf", "one", True])
def test_2_22_other_words_are_no_doubles(send_json, document, value):
    spans_in(document)[0]["attributes"].append({"key": "d", "value": {"doubleValue": value}})

    assert send_json(document).status_code == 400


def test_2_23_protobuf_and_json_of_one_request_are_equal_rows(start, run_id):
    body = run_spans(run_id=run_id, turns=2)
    rows = []
    for encoding in (PROTOBUF, JSON):
        running = start()
        sent = body
        if encoding == JSON:
            sent = json.dumps(otlp_json(ExportTraceServiceRequest.FromString(body))).encode()
        assert running.post(sent, content_type=encoding).status_code == 200
        rows.append(running.stored(run_id))

    assert rows[0] == rows[1] != []


def test_2_23_of_log_records_too(start, run_id):
    body = observation(run_id)
    document = json_format.MessageToDict(
        ExportLogsServiceRequest.FromString(body), use_integers_for_enums=True
    )
    running = start()

    assert running.post(body, "logs").status_code == 200
    assert running.post(json.dumps(document).encode(), "logs", content_type=JSON).status_code == 200
    assert running.metric("turnavoid_processor_stored_items_total") == 1
    assert running.metric("turnavoid_processor_duplicates_total") == 1
