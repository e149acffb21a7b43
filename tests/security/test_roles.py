"""What each role may do, over real OTLP with TLS; and what that means for credit."""

# ruff: noqa: PLR0913, PLR0917 - fixtures are arguments

from __future__ import annotations

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_turnavoid._proto.turnavoid.v1 import ledger_pb2
from otel_turnavoid.collector.auth import Credential
from otel_turnavoid.collector.permits import permitted
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import Observation
from otel_turnavoid.otlp import Batch, read_traces
from otel_turnavoid.testing import observation, observation_span, other_spans, run_spans
from otel_turnavoid.vocabulary import Role

LEDGER = "/turnavoid.v1.LedgerService/GetReport"
BARRED_EFFECTS = "a credential of role agent sends no effects (1 refused)"


@pytest.fixture
def secured(start, client):
    """A client of a processor with TLS and tokens."""
    return client(start())


def sent(secured, signal, body, token):
    """Send over HTTP and return the message and count of the partial success."""
    answer = secured.post(f"/v1/{signal}", body, token)
    assert answer.status_code == 200
    if signal == "traces":
        partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
        return partial.rejected_spans, partial.error_message
    partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
    return partial.rejected_log_records, partial.error_message


def test_runs_by_agents_and_effects_by_an_observer_earn(
    secured, tokens, runs, effects, services, until
):
    for body in runs:
        assert secured.rpc(services["traces"], body, tokens["agent"]) == b""
    for body in effects:
        assert secured.rpc(services["logs"], body, tokens["observer"]) == b""

    (pair,) = until(secured.pairs)

    assert (pair.avoided, pair.withheld, list(pair.causes)) == (1, 0, [])


def test_effects_that_agents_report_themselves_earn_nothing(
    secured, clock, tokens, runs, effects, until
):
    for body in runs:
        assert sent(secured, "traces", body, tokens["agent"]) == (0, "")
    for body in effects:
        assert sent(secured, "logs", body, tokens["agent"]) == (1, BARRED_EFFECTS)
    clock.wait_over()

    (pair,) = until(secured.pairs)

    assert (pair.avoided, pair.withheld) == (0, 1)
    assert list(pair.causes) == ["effects-unobserved"]


def test_an_agents_effects_do_not_stand_in_the_way_of_the_observers(
    secured, tokens, runs, effects, until
):
    """What an agent says first, and differently, is not conflicting evidence: it is not there."""
    for body in runs:
        sent(secured, "traces", body, tokens["agent"])
    sent(secured, "logs", observation("candidate", ["all:well"]), tokens["agent"])
    for body in effects:
        assert sent(secured, "logs", body, tokens["observer"]) == (0, "")

    (pair,) = until(secured.pairs)

    assert (pair.avoided, list(pair.causes)) == (1, [])


def test_effects_in_a_span_are_refused_singly_beside_the_spans_of_the_run(secured, tokens):
    body = run_spans(run_id="r", turns=1) + observation_span("r")

    assert sent(secured, "traces", body, tokens["agent"]) == (1, BARRED_EFFECTS)
    assert secured.metric("turnavoid_receiver_refused_by_role_total", role="agent") == 1
    assert secured.metric("turnavoid_receiver_refused_spans_total", transport="http") == 1


def test_an_observers_credential_sends_effects_in_spans_but_no_spans_of_agents(secured, tokens):
    """The Invoke, the UserTurn, an AgentTurn, its call and its tool: five spans."""
    body = run_spans(run_id="r", turns=1) + observation_span("r")

    assert sent(secured, "traces", body, tokens["observer"]) == (
        5,
        "a credential of role observer sends no spans of agents (5 refused)",
    )
    assert secured.metric("turnavoid_receiver_refused_by_role_total", role="observer") == 5


def test_what_is_not_about_agents_anybody_may_send(secured, tokens):
    for role in ("agent", "observer"):
        assert sent(secured, "traces", other_spans(3), tokens[role]) == (0, "")


def test_what_a_role_may_not_say_is_added_to_what_was_refused_before():
    fact = read_traces(run_spans(run_id="r", turns=1), Reader()).facts[0]
    effect = Observation(run_id="r", observer="o", labels=(), observed_ns=1)
    batch = Batch(facts=[fact], observations=[effect], spans=3, rejected=1, problem="spans: bad")

    left, barred = permitted(batch, Credential(Role.AGENT, "shop"))

    assert (left.facts, left.observations, left.rejected, barred) == ([fact], [], 2, 1)
    assert left.problem == f"spans: bad; {BARRED_EFFECTS}"


def test_without_authentication_everything_passes():
    effect = Observation(run_id="r", observer="o", labels=(), observed_ns=1)
    batch = Batch(observations=[effect], records=1)

    assert permitted(batch, None) == (batch, 0)


@pytest.mark.parametrize("role", ["agent", "observer"])
def test_senders_read_no_verdicts_and_no_metrics(secured, tokens, role):
    refused = secured.rpc(LEDGER, b"", tokens[role])

    assert isinstance(refused, grpc.RpcError)
    assert (refused.code(), refused.details()) == (
        grpc.StatusCode.PERMISSION_DENIED,
        f"a credential of role {role} may not do that; role reader may",
    )
    assert secured.scrape(tokens[role]).status_code == 403


def test_a_reader_reads_verdicts_and_metrics_and_sends_nothing(secured, tokens, runs, services):
    report = secured.rpc(LEDGER, b"", tokens["reader"])
    refused = secured.rpc(services["traces"], runs[0], tokens["reader"])

    assert b"fak.turnavoid.report/v1" in report
    assert secured.scrape(tokens["reader"]).status_code == 200
    assert refused.code() is grpc.StatusCode.PERMISSION_DENIED
    assert secured.post("/v1/traces", runs[0], tokens["reader"]).status_code == 403


def test_every_method_of_the_ledger_is_for_readers_only(secured, tokens):
    for method in ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"].methods:
        refused = secured.rpc(f"/turnavoid.v1.LedgerService/{method.name}", b"", tokens["agent"])
        assert refused.code() is grpc.StatusCode.PERMISSION_DENIED, method.name


def test_probes_of_health_need_no_credential(secured):
    assert secured.rpc("/grpc.health.v1.Health/Check", b"", None) == b"\x08\x01"


def test_reflection_is_for_whoever_has_a_credential(secured, tokens):
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    list_services = b"\x3a\x00"

    def ask(token):
        with secured.channel() as channel:
            metadata = tuple(secured.metadata(token).items())
            call = channel.stream_stream(path)(iter([list_services]), metadata=metadata, timeout=60)
            try:
                return len(list(call))
            except grpc.RpcError as error:
                return error.code()

    assert ask(None) is grpc.StatusCode.UNAUTHENTICATED
    assert [ask(token) for token in tokens.values()] == [1, 1, 1]


def test_strangers_do_not_learn_what_is_not_there(secured, tokens):
    path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

    assert secured.rpc(path, b"", None).code() is grpc.StatusCode.UNAUTHENTICATED
    assert secured.rpc(path, b"", tokens["agent"]).code() is grpc.StatusCode.UNIMPLEMENTED
    assert secured.post("/nowhere", b"", None).status_code == 401
    assert secured.post("/nowhere", b"", tokens["agent"]).status_code == 404


def test_methods_other_than_post_are_refused_to_strangers_first(secured, start, tokens):
    with secured.web() as web:
        url = f"{secured._processor.http_endpoint}/v1/traces"
        statuses = [
            web.request(method, url, headers=secured.metadata(token)).status_code
            for token in (None, tokens["agent"])
            for method in ("GET", "OPTIONS")
        ]

    assert statuses == [401, 401, 405, 405]
    assert isinstance(web, httpx.Client)


def test_calls_at_the_same_time_keep_their_own_roles(secured, tokens, services):
    """Over one connection, interleaved: nobody is taken for somebody else."""
    roles = ["agent", "observer"] * 40
    with secured.channel() as channel:
        call = channel.unary_unary(services["logs"])
        waiting = [
            call.future(
                observation(f"run-{number}"),
                timeout=60,
                metadata=tuple(secured.metadata(tokens[role]).items()),
            )
            for number, role in enumerate(roles)
        ]
        answered = [
            ExportLogsServiceResponse.FromString(each.result()).partial_success.rejected_log_records
            for each in waiting
        ]

    assert answered == [1 if role == "agent" else 0 for role in roles]
