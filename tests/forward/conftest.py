"""Backends that answer by a script, over real sockets; queues on real files."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.forward import Queue, QueueFile, Signal

DEADLINE_S = 60.0
SERVICES = {
    "opentelemetry.proto.collector.trace.v1.TraceService": Signal.TRACES,
    "opentelemetry.proto.collector.logs.v1.LogsService": Signal.LOGS,
}


class Received(NamedTuple):
    signal: Signal
    body: bytes
    headers: dict[str, Any]


class Answer(NamedTuple):
    """What a backend does with one request."""

    code: Any = None
    """gRPC's or HTTP's; None is success."""
    after_s: float | None = None
    rejected: int = 0
    body: bytes | None = None
    hang: bool = False


class Backend:
    """Remembers what it got and answers by its script, then with success."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.script: list[Answer] = []
        self.unhang = threading.Event()
        self._lock = threading.Lock()

    def take(self, signal: Signal, body: bytes, headers: dict[str, Any]) -> Answer:
        with self._lock:
            answer = self.script.pop(0) if self.script else Answer()
            self.received.append(Received(signal, body, headers))
        if answer.hang:
            self.unhang.wait(DEADLINE_S)
        return answer

    @property
    def bodies(self) -> list[bytes]:
        with self._lock:
            return [each.body for each in self.received]

    @staticmethod
    def success(answer: Answer, signal: Signal) -> bytes:
        if answer.body is not None:
            return answer.body
        if signal is Signal.TRACES:
            traces = ExportTraceServiceResponse()
            if answer.rejected:
                traces.partial_success.rejected_spans = answer.rejected
            return traces.SerializeToString()
        logs = ExportLogsServiceResponse()
        if answer.rejected:
            logs.partial_success.rejected_log_records = answer.rejected
        return logs.SerializeToString()


class GrpcBackend(Backend):
    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self._server: grpc.Server | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen, at the port of last time where there was one."""
        server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
        for name, signal in SERVICES.items():
            handler = grpc.unary_unary_rpc_method_handler(self._export(signal))
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(name, {"Export": handler}),)
            )
        address = f"127.0.0.1:{self.port}"
        if credentials is None:
            self.port = server.add_insecure_port(address)
        else:
            self.port = server.add_secure_port(address, credentials)
        server.start()
        self._server = server

    def _export(self, signal: Signal) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def export(body: bytes, context: grpc.ServicerContext) -> bytes:
            answer = self.take(signal, body, dict(context.invocation_metadata()))
            if answer.code is not None:
                if answer.after_s is not None:
                    status = Status(code=answer.code.value[0])
                    delay = Duration(nanos=int(answer.after_s * 1e9))
                    status.details.add().Pack(RetryInfo(retry_delay=delay))
                    context.set_trailing_metadata(
                        (("grpc-status-details-bin", status.SerializeToString()),)
                    )
                context.abort(answer.code, "in the backend's words: secret content")
            return self.success(answer, signal)

        return export

    def stop(self) -> None:
        self.unhang.set()
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None


class HttpBackend(Backend):
    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen, at the port of last time where there was one."""
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                signal = Signal(self.path.rpartition("/")[2])
                headers = {key.lower(): value for key, value in self.headers.items()}
                answer = backend.take(
                    signal, body, {**headers, ":path": self.path, ":from": self.client_address}
                )
                content = b"" if answer.code else backend.success(answer, signal)
                self.send_response(answer.code or 200)
                if answer.after_s is not None:
                    self.send_header("retry-after", str(int(answer.after_s)))
                if answer.code in (301, 307):
                    self.send_header("location", "/elsewhere/v1/traces")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.unhang.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@pytest.fixture
def answer() -> type[Answer]:
    return Answer


@pytest.fixture
def grpc_backend() -> Iterator[GrpcBackend]:
    backend = GrpcBackend()
    backend.start()
    yield backend
    backend.stop()


@pytest.fixture
def http_backend() -> Iterator[HttpBackend]:
    backend = HttpBackend()
    backend.start()
    yield backend
    backend.stop()


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Return a condition's first true value, or fail at the deadline."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        tick = threading.Event()
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            tick.wait(0.01)
        return value

    return wait


async def eventually(condition: Callable[[], Any]) -> None:
    """Let the event loop go on until a condition is true."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.001)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[[Callable[[], Any]], Coroutine[Any, Any, None]]:
    return eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "backend.queue"


Scenario = Callable[[Queue], Coroutine[Any, Any, Any]]


@pytest.fixture
def queued(path: Path) -> Callable[..., Any]:
    """Run a scenario on the queue of ``path``, which is closed at its end."""

    def run(
        scenario: Scenario,
        *,
        max_requests: int = 100,
        max_bytes: int = 1 << 20,
        file: QueueFile | None = None,
    ) -> Any:
        async def main() -> Any:
            queue = Queue(file or QueueFile(path), max_requests=max_requests, max_bytes=max_bytes)
            working = asyncio.create_task(queue.run())
            try:
                return await asyncio.wait_for(scenario(queue), DEADLINE_S)
            finally:
                queue.close()
                await working
                await queue.release_file()

        return asyncio.run(main())

    return run


CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "localhost:0"}}
      http: {{endpoint: "localhost:0"}}
processors: {{turnavoid: {{settle: 50ms}}}}
exporters:
  prometheus: {{endpoint: "localhost:0"}}
  otlp/x:
    endpoint: "{endpoint}"
    tls: {{insecure: true}}
    timeout: 60s
    sending_queue: {{{queue}}}
    retry_on_failure: {{initial_interval: 20ms, max_interval: 50ms}}
{more}
service:
  telemetry: {{logs: {{level: warn}}}}
  pipelines:
    traces: {{receivers: [otlp], processors: [turnavoid], exporters: [{exporters}]}}
    logs: {{receivers: [otlp], processors: [turnavoid], exporters: [{exporters}]}}
    metrics: {{receivers: [turnavoid], exporters: [prometheus]}}
"""


@pytest.fixture
def configured() -> Callable[..., str]:
    """Return a configuration that forwards to ``otlp/x`` at an endpoint."""

    def text(endpoint: str, queue: str = "", more: str = "", exporters: str = "otlp/x") -> str:
        return CONFIG.format(endpoint=endpoint, queue=queue, more=more, exporters=exporters)

    return text


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def start(ledger_url: str) -> Iterator[Callable[..., Processor]]:
    """Start a processor with a configuration's text; those started are stopped at the end."""
    running: list[Processor] = []

    def started(text: str, env: Mapping[str, str] = MappingProxyType({})) -> Processor:
        processor = Processor(parse(text, env=env), ledger_url=ledger_url)
        running.append(processor)
        processor.start()
        return processor

    yield started
    for processor in running:
        processor.stop()


@pytest.fixture
def forwarding(configured: Callable[..., str], start: Callable[[str], Processor]):
    """Start a processor that forwards to ``otlp/x`` at an endpoint."""
    return lambda *arguments, **options: start(configured(*arguments, **options))


@pytest.fixture
def scrape() -> Callable[..., float | None]:
    """Return the sum of a metric's samples of one exporter."""

    def read(processor: Processor, name: str, exporter: str = "otlp/x") -> float | None:
        found = [
            sample.value
            for family in text_string_to_metric_families(
                httpx.get(processor.metrics_endpoints[0], timeout=60).text
            )
            for sample in family.samples
            if sample.name == f"turnavoid_exporter_{name}"
            and sample.labels["exporter"] == exporter
            and sample.labels["otel_scope_name"] == "otel_turnavoid.collector"
        ]
        return sum(found) if found else None

    return read
