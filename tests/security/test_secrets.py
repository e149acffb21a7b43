"""Nothing that was sent, and no secret, shows up where it does not belong.

Every way to refuse a request, a span or a record is taken with a marker in whatever carries
content; then logs, answers, metrics, reports and explanations are searched for it.
"""

# ruff: noqa: PLR0913, PLR0917 - fixtures are arguments

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_turnavoid._proto.turnavoid.v1 import ledger_pb2, ledger_pb2_grpc
from otel_turnavoid.collector.components import OtlpExporter, OtlpHttpExporter
from otel_turnavoid.collector.exporters import target
from otel_turnavoid.collector.section import Secret
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.forward.target import Target
from otel_turnavoid.observers.sql import SqlSource
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, run_spans

MARKER = "hunter2"
CONTENT = f"my password is {MARKER}, my card ends in 4242"
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def string(key: str, value: str = CONTENT) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def with_content(run_id: str) -> ExportTraceServiceRequest:
    """A run that carries content in every place that has room for it."""
    request = ExportTraceServiceRequest.FromString(run_spans(run_id=run_id, turns=1))
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.attributes.extend(
            string(key)
            for key in (
                "gen_ai.input.messages",
                "gen_ai.output.messages",
                "gen_ai.system_instructions",
                "gen_ai.prompt.0.content",
                "gen_ai.tool.call.arguments",
                "input.value",
                "llm.input_messages.0.message.content",
                "traceloop.entity.input",
            )
        )
        span.status.message = CONTENT
        event = span.events.add(name="gen_ai.content.prompt")
        event.attributes.append(string("gen_ai.prompt"))
    return request


def without_ids() -> bytes:
    request = with_content("lost")
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.trace_id = b""
    return request.SerializeToString()


def bad_effects(*attributes: KeyValue) -> bytes:
    request = ExportLogsServiceRequest.FromString(observation("bad"))
    (record,) = request.resource_logs[0].scope_logs[0].log_records
    changed = {each.key: each for each in (*record.attributes, *attributes)}
    del record.attributes[:]
    record.attributes.extend(changed.values())
    record.body.string_value = CONTENT
    return request.SerializeToString()


def json_traces(value: object) -> bytes:
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "chat"}
    span["attributes"] = [{"key": "gen_ai.input.messages", "value": value}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


WHOLE = with_content("mine").SerializeToString()
BODIES = {
    "accepted": (WHOLE, {}),
    "without ids": (without_ids(), {}),
    "cut": (WHOLE[:-20], {}),
    "not protobuf": (CONTENT.encode() * 10, {}),
    "not UTF-8": (WHOLE.replace(MARKER.encode(), b"\xff\xfehunt"), {}),
    "not gzip": (WHOLE, {"content-encoding": "gzip"}),
    "cut gzip": (gzip.compress(WHOLE)[:-9], {"content-encoding": "gzip"}),
    "too large": (WHOLE * 400, {}),
    "too large unpacked": (gzip.compress(WHOLE * 400), {"content-encoding": "gzip"}),
    "not JSON": (b'{"resourceSpans": "' + CONTENT.encode(), {"content-type": JSON}),
    "JSON text": (json.dumps(CONTENT).encode(), {"content-type": JSON}),
    "JSON value": (json_traces(CONTENT), {"content-type": JSON}),
    "JSON list": (json_traces([CONTENT]), {"content-type": JSON}),
    "JSON number": (json_traces({"intValue": CONTENT}), {"content-type": JSON}),
    "JSON array": (json_traces({"arrayValue": CONTENT}), {"content-type": JSON}),
    "JSON bytes": (json_traces({"bytesValue": CONTENT}), {"content-type": JSON}),
    "no type": (WHOLE, {"content-type": "text/plain"}),
}
LOGS = {
    "run id": bad_effects(string("turnavoid.run.id", f" {CONTENT}")),
    "observer": bad_effects(string("turnavoid.observer.id", f"{CONTENT}\n")),
    "labels": bad_effects(string("turnavoid.effects.labels")),
    "ordered": bad_effects(string("turnavoid.effects.ordered")),
}

CONFIGURATION = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:0", max_recv_msg_size_mib: 1, AUTH}
      http: {endpoint: "localhost:0", max_request_body_size: 200000, AUTH}
processors: {turnavoid: {settle: 50ms, prefix_chain: true, accept: [declared, inferred]}}
exporters: {prometheus: {endpoint: "localhost:0", AUTH}}
extensions:
  bearertokenauth:
    reload_interval: 20ms
    tokens:
      - {filename: FOLDER/agent.token, role: agent}
      - {filename: FOLDER/observer.token, role: observer}
      - {filename: FOLDER/reader.token, role: reader}
""".replace("AUTH", "tls: {TLS}, auth: {authenticator: bearertokenauth}")


def visible(answer) -> str:
    """Return all that a sender sees of an answer."""
    if isinstance(answer, grpc.RpcError):
        return f"{answer.code()} {answer.details()} {answer.trailing_metadata()!r}"
    if isinstance(answer, bytes):
        return repr(answer)
    return f"{answer.status_code} {answer.headers} {answer.content!r}"


def answers(secured, services, strangers):
    """Yield what is answered to every body from everybody over every protocol."""
    for who, token in strangers.items():
        for name, (body, headers) in BODIES.items():
            sent = dict(headers)
            content_type = sent.pop("content-type", PROTOBUF)
            answer = secured.post("/v1/traces", body, token, content_type, **sent)
            yield (name, who, "http"), visible(answer)
            if not headers:
                answer = secured.rpc(services["traces"], body, token)
                yield (name, who, "grpc"), visible(answer)
        for name, body in LOGS.items():
            yield (name, who, "http"), visible(secured.post("/v1/logs", body, token))
            yield (name, who, "grpc"), visible(secured.rpc(services["logs"], body, token))


def readings(secured, token, until):
    """Yield what a reader reads of the ledger, once it has the runs."""
    metadata = (("authorization", f"Bearer {token}"),)
    with secured.channel() as channel:
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        runs = ledger_pb2.ListRunsRequest()
        until(lambda: len(stub.ListRuns(runs, metadata=metadata).runs) > 1)
        for name, call, question in (
            ("report", stub.GetReport, ledger_pb2.GetReportRequest()),
            ("runs", stub.ListRuns, runs),
            ("pairs", stub.ListPairs, ledger_pb2.ListPairsRequest()),
            ("explain other", stub.Explain, ledger_pb2.ExplainRequest(ids=["other"])),
            ("explain mine", stub.Explain, ledger_pb2.ExplainRequest(ids=["mine"])),
        ):
            yield name, str(call(question, metadata=metadata))
    yield "metrics", secured.scrape(token).text


@pytest.fixture
def everything(start, client, tokens, services, folder, caplog, until):
    """Take every way, and return what became visible, by where it was seen."""
    caplog.set_level(logging.DEBUG)
    secured = client(start(CONFIGURATION))
    strangers = {"nobody": None, "stranger": f"{MARKER}-{MARKER}-{MARKER}", **tokens}
    seen = dict(answers(secured, services, strangers))
    secured.rpc(services["traces"], run_spans(run_id="other", turns=1), tokens["agent"])
    for name in ("agent.token", "server.key"):  # what breaks meanwhile is complained of
        (folder / name).write_text(f"{CONTENT}\n")
    until(lambda: sum("stays in use" in record.getMessage() for record in caplog.records) > 1)
    seen.update(readings(secured, tokens["reader"], until))
    for number, record in enumerate(caplog.records):
        # The clients of this test log what they themselves send.
        if not record.name.startswith(("httpcore", "httpx")):
            seen["log", number] = logging.Formatter("%(name)s %(message)s").format(record)
    return seen


def test_no_content_and_no_token_is_seen_anywhere(everything, tokens):
    needles = (MARKER, "4242", *tokens.values())

    assert {
        where: text
        for where, text in everything.items()
        if any(needle in text for needle in needles)
    } == {}
    assert len(everything) > 100


def test_the_ways_that_were_taken_are_those_that_were_meant(everything):
    """So that the search above is not one in answers of one kind."""
    assert {text.split(" ")[0] for (_, *rest), text in by_transport(everything, "http")} == {
        *("200", "400", "401", "403", "413", "415")
    }
    assert {text.split(" ")[0] for _, text in by_transport(everything, "grpc")} >= {
        *("StatusCode.UNAUTHENTICATED", "StatusCode.PERMISSION_DENIED"),
        *("StatusCode.INVALID_ARGUMENT", "StatusCode.RESOURCE_EXHAUSTED"),
    }


def by_transport(seen, transport):
    return [(where, text) for where, text in seen.items() if where[-1] == transport]


class TestPrinting:
    """What is printed by accident shows no secret."""

    def test_a_secret_is_masked(self):
        assert repr(Secret(MARKER)) == "'****'"

    @pytest.mark.parametrize("kind", [OtlpExporter, OtlpHttpExporter])
    def test_headers_of_an_exporter_are_not_shown(self, kind):
        exporter = kind(endpoint="http://e", headers={"authorization": Secret(f"Bearer {MARKER}")})

        assert target(exporter).headers == {"authorization": f"Bearer {MARKER}"}
        assert MARKER not in f"{exporter!r} {target(exporter)!r} {target(exporter)}"

    def test_headers_of_a_forwarding_target_are_not_shown(self):
        assert MARKER not in repr(Target("http://e", (("authorization", MARKER),)))

    @pytest.mark.parametrize(
        "url",
        [
            f"postgresql://me:{MARKER}@127.0.0.1:1/db?connect_timeout=1",
            f"postgresql://127.0.0.1:1/db?password={MARKER}&user=me&connect_timeout=1",
            f"postgresql://me:{MARKER}@127.0.0.1:port/db",
            f"postgresql://127.0.0.1:port/db?password={MARKER}",
            f"mysql://me:{MARKER}@127.0.0.1/db",
        ],
    )
    def test_a_ledger_that_cannot_be_opened_shows_no_password(self, url):
        with pytest.raises(LedgerError) as caught:
            Ledger.open(url)

        assert MARKER not in str(caught.value)

    def test_an_observed_database_is_named_without_its_password(self):
        source = SqlSource(f"postgresql://me:{MARKER}@h/db?sslpassword={MARKER}", ["SELECT 1"])

        assert source.name == "postgresql+psycopg://me:***@h/db"

    def test_no_token_stands_in_the_tests_of_anybody_else(self):
        """The marker of this file is worth searching for only while nothing else says it."""
        package = Path(__file__).parents[2] / "otel_turnavoid"

        assert not [path for path in package.rglob("*.py") if MARKER in path.read_text()]
