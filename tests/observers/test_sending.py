"""One observation through the SDK's own exporters, accepted, refused and partly refused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from uuid import UUID

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from otel_turnavoid.errors import InputError, UsageError
from otel_turnavoid.observers.sending import send

ACCEPTED = ExportLogsServiceResponse()
REFUSED = ExportLogsServiceResponse(
    partial_success=ExportLogsPartialSuccess(
        rejected_log_records=1, error_message="agents send no effects"
    )
)


class Receiver(NamedTuple):
    endpoint: str
    got: list[ExportLogsServiceRequest]


Start = Callable[..., Receiver]


@pytest.fixture
def over_grpc() -> Iterator[Start]:
    servers = []

    def start(answer: ExportLogsServiceResponse | grpc.StatusCode = ACCEPTED) -> Receiver:
        got: list[ExportLogsServiceRequest] = []

        class Logs(logs_service_pb2_grpc.LogsServiceServicer):
            def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
                got.append(request)
                if isinstance(answer, grpc.StatusCode):
                    context.abort(answer, "no\nentry")
                return answer

        server = grpc.server(ThreadPoolExecutor(1))
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
        port = server.add_insecure_port("localhost:0")
        server.start()
        servers.append(server)
        return Receiver(f"localhost:{port}", got)

    yield start
    for server in servers:
        server.stop(None).wait()


@pytest.fixture
def over_http() -> Iterator[Start]:
    running = []

    def start(answer: ExportLogsServiceResponse | int = ACCEPTED) -> Receiver:
        got: list[ExportLogsServiceRequest] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/logs"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                got.append(ExportLogsServiceRequest.FromString(body))
                said = b"" if isinstance(answer, int) else answer.SerializeToString()
                self.send_response(answer if isinstance(answer, int) else 200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return Receiver(f"http://127.0.0.1:{server.server_port}", got)

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(protocol: str, over_grpc: Start, over_http: Start) -> Start:
    return over_grpc if protocol == "grpc" else over_http


@pytest.fixture(autouse=True)
def _an_agents_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "the-agent")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=agent-1")


@pytest.fixture(autouse=True)
def _everything_is_said_again() -> None:
    """Let the exporters' loggers say what they said in an earlier test."""
    for name in ("grpc.exporter", "grpc", "http._log_exporter"):
        for each in logging.getLogger(f"opentelemetry.exporter.otlp.proto.{name}").filters:
            each.last_log = None


def strings(attributes: Any) -> dict[str, Any]:
    return {
        each.key: each.value.string_value
        or [value.string_value for value in each.value.array_value.values]
        for each in attributes
    }


def test_what_is_sent_is_one_event_from_a_process_of_its_own(protocol: str, start: Start) -> None:
    receiver = start()

    for _ in range(2):
        send(
            *("r1", {"order:42=cancelled": 2}),
            observer_id="shop-db/v1",
            endpoint=receiver.endpoint,
            protocol=protocol,
        )

    resources = [each.resource_logs[0] for each in receiver.got]
    (record,) = resources[0].scope_logs[0].log_records
    assert record.event_name == "turnavoid.effects.observed"
    assert strings(record.attributes) == {
        "turnavoid.run.id": "r1",
        "turnavoid.observer.id": "shop-db/v1",
        "turnavoid.effects.labels": ["order:42=cancelled", "order:42=cancelled"],
    }
    said = [strings(each.resource.attributes) for each in resources]
    assert {each["service.name"] for each in said} == {"shop-db/v1"}
    instances = {UUID(each["service.instance.id"]) for each in said}
    assert len(instances) == 2


def test_a_record_that_is_refused_in_an_accepted_request_is_an_error(
    protocol: str, start: Start
) -> None:
    receiver = start(REFUSED)

    with pytest.raises(
        InputError, match=r"did not accept the observation: agents send no effects$"
    ):
        send("r1", ["a"], observer_id="o", endpoint=receiver.endpoint, protocol=protocol)


def test_a_refusal_over_grpc_is_said_in_one_line(over_grpc: Start) -> None:
    receiver = over_grpc(grpc.StatusCode.PERMISSION_DENIED)

    with pytest.raises(InputError, match=r"did not accept the observation: no entry$"):
        send("r1", ["a"], observer_id="o", endpoint=receiver.endpoint)


def test_a_refusal_over_http_is_said_in_one_line(over_http: Start) -> None:
    receiver = over_http(403)

    with pytest.raises(InputError, match=r"/v1/logs: did not accept the observation: Forbidden$"):
        send("r1", ["a"], observer_id="o", endpoint=receiver.endpoint, protocol="http")


def test_nobody_there_is_an_error_within_the_timeout(protocol: str) -> None:
    with pytest.raises(InputError, match=r"did not accept the observation: .*(refused|in time)$"):
        send(
            *("r1", ["a"]),
            observer_id="o",
            endpoint="localhost:1",
            protocol=protocol,
            timeout_s=0.5,
        )


def test_the_environment_names_the_endpoint(protocol: str, start: Start) -> None:
    receiver = start()
    address = receiver.endpoint if "//" in receiver.endpoint else f"http://{receiver.endpoint}"

    send(
        *("r1", []),
        observer_id="o",
        protocol=protocol,
        environment={"OTEL_EXPORTER_OTLP_ENDPOINT": address},
    )

    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("ftp://host", "an endpoint is a URL such as http://localhost:4317"),
        ("http://", "an endpoint is a URL"),
        ("http://host:port", "an endpoint is a URL"),
        ("http://me:geheim@host", "an endpoint holds no user or password"),
    ],
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refusal:
        send("r1", ["a"], observer_id="o", endpoint=endpoint)
    assert "geheim" not in str(refusal.value)


def test_labels_that_cannot_be_compared_are_not_sent(protocol: str, start: Start) -> None:
    receiver = start()

    with pytest.raises(UsageError, match="an effect label is text"):
        send("r1", [""], observer_id="o", endpoint=receiver.endpoint, protocol=protocol)
    assert receiver.got == []
