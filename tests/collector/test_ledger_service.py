"""LedgerService, health and reflection on the gRPC port of a running processor."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import grpc
import pytest
from click.testing import CliRunner
from google.protobuf import json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from otel_turnavoid._proto.turnavoid.v1 import ledger_pb2, ledger_pb2_grpc
from otel_turnavoid.cli.main import main
from otel_turnavoid.cli.pairs import pair_row
from otel_turnavoid.cli.runs import run_row
from otel_turnavoid.collector import ledger_service
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
SERVICES = [
    "opentelemetry.proto.collector.trace.v1.TraceService",
    "opentelemetry.proto.collector.logs.v1.LogsService",
    "turnavoid.v1.LedgerService",
]


@pytest.fixture
def channel(processor: Processor) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(processor.grpc_endpoint) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> ledger_pb2_grpc.LedgerServiceStub:
    return ledger_pb2_grpc.LedgerServiceStub(channel)


@pytest.fixture
def send_pair(channel, run_request, effects_request) -> Callable[[str], None]:
    """One control of 3 turns and one candidate of 1, with the same effect."""

    def send(name: str) -> None:
        for method, request in (
            (TRACES, run_request(f"{name}-control", turns=3, question=name)),
            (TRACES, run_request(f"{name}-reuse", "exact-reuse", turns=1, question=name)),
            (LOGS, effects_request(f"{name}-control")),
            (LOGS, effects_request(f"{name}-reuse")),
        ):
            channel.unary_unary(method)(request.SerializeToString(), timeout=60)

    return send


def decided(stub: ledger_pb2_grpc.LedgerServiceStub, count: int) -> list[ledger_pb2.Verdict]:
    """Return the first verdicts, waiting for those not decided yet."""
    stream = stub.StreamVerdicts(ledger_pb2.StreamVerdictsRequest(), timeout=60)
    verdicts = [next(stream) for _ in range(count)]
    stream.cancel()
    return verdicts


def refusal(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def test_the_report_of_an_empty_ledger_has_three_empty_arms(stub):
    report = stub.GetReport(ledger_pb2.GetReportRequest())

    assert report.schema_version == "fak.turnavoid.report/v1"
    assert [(arm.arm, arm.decisions) for arm in report.arms] == [
        ("control", 0),
        ("exact-reuse", 0),
        ("fused-batch", 0),
    ]


def test_the_report_counts_decided_pairs(stub, send_pair):
    send_pair("q")
    decided(stub, 1)

    report = stub.GetReport(ledger_pb2.GetReportRequest())

    reuse = report.arms[1]
    assert (report.rows, report.immutable_inputs) == (3, 1)
    assert (
        reuse.arm,
        reuse.control_committed_model_turns,
        reuse.candidate_committed_model_turns,
        reuse.realized_turns_avoided,
    ) == ("exact-reuse", 3, 1, 2)


def test_runs_and_pairs_say_what_the_commands_print(stub, send_pair, ledger_url):
    send_pair("q")
    decided(stub, 1)

    runs = stub.ListRuns(ledger_pb2.ListRunsRequest()).runs
    pairs = stub.ListPairs(ledger_pb2.ListPairsRequest()).pairs

    with Ledger.open(ledger_url) as ledger:
        expected_runs = {line.run.run_id: run_row(line) for line in ledger.runs()}
        expected_pairs = [
            pair_row(made) for _, made in ledger.decisions() if isinstance(made, PairDecided)
        ]
    assert {run.run_id: plain(run) for run in runs} == {
        run_id: known(row) for run_id, row in expected_runs.items()
    }
    assert [plain(pair) for pair in pairs] == [known(row) for row in expected_pairs]


def plain(message: ledger_pb2.Run | ledger_pb2.Pair) -> dict:
    """Return a message with its numbers as numbers and what is unset left out."""
    document = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for key, value in document.items():
        if isinstance(value, str) and value.isdigit():
            document[key] = int(value)
    if "tokens" in document:
        document["tokens"] = {key: int(value) for key, value in document["tokens"].items()}
    return document


def known(row: dict) -> dict:
    return {key: value for key, value in row.items() if value is not None}


def test_pages_of_pairs_follow_each_other_without_gap_or_repetition(stub, send_pair):
    for number in range(3):
        send_pair(f"q{number}")
    order = [verdict.pair.control for verdict in decided(stub, 3)]

    first = stub.ListPairs(ledger_pb2.ListPairsRequest(page_size=2))
    second = stub.ListPairs(
        ledger_pb2.ListPairsRequest(page_size=2, page_token=first.next_page_token)
    )

    assert [pair.control for pair in (*first.pairs, *second.pairs)] == order
    assert (len(first.pairs), second.next_page_token) == (2, "")


def test_pages_of_runs_follow_each_other_without_gap_or_repetition(stub, send_pair):
    for number in range(2):
        send_pair(f"q{number}")
    decided(stub, 2)

    seen, token = [], ""
    while True:
        page = stub.ListRuns(ledger_pb2.ListRunsRequest(page_size=1, page_token=token))
        seen += [run.run_id for run in page.runs]
        token = page.next_page_token
        if not token:
            break

    assert sorted(seen) == ["q0-control", "q0-reuse", "q1-control", "q1-reuse"]


@pytest.mark.parametrize("method", ["ListRuns", "ListPairs"])
@pytest.mark.parametrize("size", [-1, 1001])
def test_a_page_size_outside_its_range_is_invalid(stub, method, size):
    request = getattr(ledger_pb2, f"{method}Request")(page_size=size)

    assert refusal(lambda: getattr(stub, method)(request)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        f"page_size: must be 0 to 1000 (got {size})",
    )


@pytest.mark.parametrize("method", ["ListRuns", "ListPairs"])
@pytest.mark.parametrize("token", ["nonsense", "-1", "e30=", "ü", "99999999999999999999"])
def test_a_page_token_that_is_not_ours_is_invalid(stub, method, token):
    request = getattr(ledger_pb2, f"{method}Request")(page_token=token)

    assert refusal(lambda: getattr(stub, method)(request)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        f"page_token: not a token of {method}",
    )


def test_an_explanation_is_what_the_command_prints(stub, send_pair, ledger_url):
    send_pair("p")
    decided(stub, 1)

    explanation = stub.Explain(ledger_pb2.ExplainRequest(ids=["p-control", "p-reuse"]))

    for option, said in (((), explanation.text), (("--json",), explanation.json + "\n")):
        command = ["explain", "p-control", "p-reuse", "--ledger", ledger_url, *option]
        assert CliRunner().invoke(main, command).stdout == said
    assert "2 model turns avoided" in explanation.text


def test_what_the_ledger_does_not_know_is_not_found(stub, send_pair):
    send_pair("p")
    decided(stub, 1)

    code, message = refusal(lambda: stub.Explain(ledger_pb2.ExplainRequest(ids=["p-contro"])))

    assert code is grpc.StatusCode.NOT_FOUND
    assert message.startswith("no run, trace, pair or verdict 'p-contro' in ")
    assert message.endswith("; near: 'p-control'")


@pytest.mark.parametrize("ids", [[], ["a", "b", "c"]])
def test_a_question_names_one_thing_or_a_pair(stub, ids):
    assert refusal(lambda: stub.Explain(ledger_pb2.ExplainRequest(ids=ids))) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        f"ids: one, or the two run ids of a pair (got {len(ids)})",
    )


def test_verdicts_are_streamed_as_they_are_decided(stub, send_pair):
    stream = stub.StreamVerdicts(ledger_pb2.StreamVerdictsRequest(), timeout=60)
    send_pair("q0")
    first = next(stream)
    send_pair("q1")
    second = next(stream)

    assert (first.pair.candidate, second.pair.candidate) == ("q0-reuse", "q1-reuse")
    assert first.id < second.id


def test_a_stream_resumes_after_an_id(stub, send_pair):
    send_pair("q0")
    send_pair("q1")
    first, second = decided(stub, 2)

    request = ledger_pb2.StreamVerdictsRequest(after_id=first.id)

    assert next(stub.StreamVerdicts(request, timeout=60)) == second


def test_a_negative_after_id_is_invalid(stub):
    request = ledger_pb2.StreamVerdictsRequest(after_id=-1)

    assert refusal(lambda: next(stub.StreamVerdicts(request))) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "after_id: must not be negative (got -1)",
    )


def test_streams_are_bounded(stub, send_pair):
    send_pair("q")
    with mock.patch.object(ledger_service, "STREAMS", 1):
        stream = stub.StreamVerdicts(ledger_pb2.StreamVerdictsRequest(), timeout=60)
        next(stream)

        assert refusal(lambda: next(stub.StreamVerdicts(ledger_pb2.StreamVerdictsRequest()))) == (
            grpc.StatusCode.UNAVAILABLE,
            "1 streams are open already",
        )


def test_a_stream_that_its_client_ended_is_no_longer_counted(stub, send_pair, until):
    send_pair("q")
    with mock.patch.object(ledger_service, "STREAMS", 1):
        for _ in range(2):
            until(lambda: opened(stub))


def opened(stub: ledger_pb2_grpc.LedgerServiceStub) -> bool:
    """Open a stream, read one verdict and end it; False where it was refused."""
    try:
        decided(stub, 1)
    except grpc.RpcError:
        return False
    return True


def test_a_stop_ends_streams_with_unavailable(config, ledger_url):
    processor = Processor(config, ledger_url=ledger_url)
    processor.start()
    with grpc.insecure_channel(processor.grpc_endpoint) as channel:
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        stream = stub.StreamVerdicts(ledger_pb2.StreamVerdictsRequest(), timeout=60)
        stream.initial_metadata()
        stopping = threading.Thread(target=processor.stop)
        stopping.start()

        code, _ = refusal(lambda: next(stream))

        stopping.join()
    assert code is grpc.StatusCode.UNAVAILABLE


def test_trouble_of_the_ledger_is_unavailable(stub):
    with mock.patch.object(Ledger, "runs", side_effect=LedgerError("disk I/O error")):
        answer = refusal(lambda: stub.ListRuns(ledger_pb2.ListRunsRequest()))

    assert answer == (grpc.StatusCode.UNAVAILABLE, "the ledger cannot be read now")


@pytest.mark.parametrize("service", ["", *SERVICES])
def test_health_is_serving_for_the_server_and_each_service(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)

    response = stub.Check(health_pb2.HealthCheckRequest(service=service))

    assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_health_is_not_serving_when_the_processor_stops(config, ledger_url):
    processor = Processor(config, ledger_url=ledger_url)
    processor.start()
    with grpc.insecure_channel(processor.grpc_endpoint) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        seen = [next(watched).status]
        stopping = threading.Thread(target=processor.stop)
        stopping.start()
        seen.append(next(watched).status)
        watched.cancel()
        stopping.join()

    serving = health_pb2.HealthCheckResponse
    assert seen == [serving.SERVING, serving.NOT_SERVING]


def test_reflection_lists_every_service(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")

    (response,) = stub.ServerReflectionInfo(iter([request]))

    assert {service.name for service in response.list_services_response.service} == {
        *SERVICES,
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


@pytest.mark.parametrize("symbol", SERVICES)
def test_reflection_describes_every_service(channel, symbol):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)

    (response,) = stub.ServerReflectionInfo(iter([request]))

    assert response.WhichOneof("message_response") == "file_descriptor_response"


def test_the_example_client_follows_the_verdicts_by_reflection_alone(channel, stub, send_pair):
    client = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "ledger_client.py"))
    send_pair("q")
    (first,) = decided(stub, 1)
    send_pair("r")

    lines = [client["line"](next(client["verdicts"](channel, after))) for after in (0, first.id)]

    assert [line.split(" ", 1)[1] for line in lines] == [
        "q-control -> q-reuse: 2 avoided, 0 withheld, 0 added",
        "r-control -> r-reuse: 2 avoided, 0 withheld, 0 added",
    ]
