"""A running processor, and clients of both protocols that speak to it as senders do."""

from __future__ import annotations

import itertools
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
import sqlalchemy
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger, schema
from otel_turnavoid.testing import CountingIds, run_spans

DEADLINE_S = 60.0
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
PATHS = {"traces": "/v1/traces", "logs": "/v1/logs"}
SERVICES = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

_runs = itertools.count(1)


class Refusal(NamedTuple):
    """How a call ended that was refused."""

    code: grpc.StatusCode
    message: str
    metadata: dict[str, bytes]

    @property
    def status(self) -> Status:
        return Status.FromString(self.metadata["grpc-status-details-bin"])


class Running:
    """A processor, spoken to over the wire only; what it stored is read from its ledger."""

    def __init__(self, processor: Processor, ledger_url: str) -> None:
        self.processor = processor
        self.ledger_url = ledger_url
        self.grpc_endpoint = processor.grpc_endpoint or ""
        self.http_endpoint = processor.http_endpoint or ""
        self.channel = grpc.insecure_channel(self.grpc_endpoint)
        self.web = httpx.Client(base_url=self.http_endpoint, timeout=60)

    def close(self) -> None:
        self.web.close()
        self.channel.close()

    def post(self, body: Any, signal: str = "traces", **headers: str) -> httpx.Response:
        """Send a body over HTTP, as protobuf unless said otherwise."""
        sent = {"content-type": PROTOBUF}
        sent.update({key.replace("_", "-"): value for key, value in headers.items()})
        return self.web.post(PATHS.get(signal, signal), content=body, headers=sent)

    def export(self, body: bytes, signal: str = "traces", **options: Any) -> bytes:
        """Send a body over gRPC; return the answer's bytes, or raise ``grpc.RpcError``."""
        call = self.channel.unary_unary(f"/{SERVICES.get(signal, signal)}/Export")
        return call(body, timeout=DEADLINE_S, **options)

    def refused(self, body: bytes, signal: str = "traces", **options: Any) -> Refusal:
        """Send a body over gRPC that must be refused."""
        with pytest.raises(grpc.RpcError) as caught:
            self.export(body, signal, **options)
        error = caught.value
        return Refusal(error.code(), error.details(), dict(error.trailing_metadata()))

    def stored(self, run_id: str) -> list[tuple[str, str, bytes]]:
        """Return identity and content of what the ledger has of a run, in order."""
        table = schema.spans.c
        columns = (table.trace_id, table.span_id, table.content)
        query = sqlalchemy.select(*columns).where(table.run_id == run_id).order_by(*columns)
        engine = sqlalchemy.create_engine(self.ledger_url)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(query)]
        finally:
            engine.dispose()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with the labels, read from a scrape."""
        text = httpx.get(self.processor.metrics_endpoints[0], timeout=60).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def accounts(self) -> list[Any]:
        """Return the pairs decided so far."""
        with Ledger.open(self.ledger_url, create=False) as ledger:
            return [made for _, made in ledger.decisions() if isinstance(made, PairDecided)]

    def connect(self, endpoint: str = "") -> socket.socket:
        """Return a bare connection, to HTTP unless said otherwise."""
        host, port = (endpoint or self.http_endpoint).removeprefix("http://").rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=DEADLINE_S)


class Clock:
    """Stands still while requests arrive, however long that takes, until it is told to go on."""

    def __init__(self) -> None:
        self.now_ns = time.time_ns()

    def __call__(self) -> int:
        return self.now_ns

    def wait_over(self) -> None:
        """Let more time pass than anything waits for evidence."""
        self.now_ns += 2 * Settings().decision_wait_ns


CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "localhost:0", {grpc}}}
      http: {{endpoint: "localhost:0", {http}}}
    {receiver}
processors: {{turnavoid: {{settle: 50ms, {judging}}}, {processors}}}
exporters: {{prometheus: {{endpoint: "localhost:0"}}, {exporters}}}
{rest}
"""


def config_text(rest: str = "", **keys: str) -> str:
    """Return a configuration on free ports, with further keys where they are named."""
    places = ("grpc", "http", "receiver", "judging", "processors", "exporters")
    return CONFIG.format(rest=rest, **(dict.fromkeys(places, "") | keys))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A processor with the defaults, shared by the tests of a file: each takes runs of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}"
    with Processor(parse(config_text(), env={}), ledger_url=url) as processor:
        running = Running(processor, url)
        yield running
        running.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start processors with further keys and maybe a clock, each on a ledger of its own."""
    with ExitStack() as stack:

        def begin(clock: Callable[[], int] = time.time_ns, **keys: str) -> Running:
            url = f"sqlite:///{tmp_path / f'ledger{next(_runs)}.db'}"
            config = parse(config_text(**keys), env={})
            processor = stack.enter_context(Processor(config, ledger_url=url, clock=clock))
            running = Running(processor, url)
            stack.callback(running.close)
            return running

        yield begin


class Served:
    """``turnavoid collect`` as a process of its own, whose memory can be looked at."""

    def __init__(self, folder: Path, text: str) -> None:
        path = folder / "collector.yaml"
        path.write_text(text)
        command = ("collect", "--config", str(path), "--ledger", f"sqlite:///{folder}/ledger.db")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "otel_turnavoid", *command], stderr=subprocess.PIPE, text=True
        )
        self.grpc_endpoint = self._said(r"OTLP/gRPC .*at (\S+)\n")
        self.http_endpoint = self._said(r"OTLP/HTTP at (\S+)\n")
        assert self.process.stderr is not None
        self._draining = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._draining.start()

    def _said(self, wanted: str) -> str:
        assert self.process.stderr is not None
        said = []
        while line := self.process.stderr.readline():
            said.append(line)
            if found := re.search(wanted, line):
                return found[1]
        pytest.fail(f"it ended: {said}")

    def peak_mib(self) -> int:
        """Return the most memory that it ever used."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            pytest.skip("needs Linux")
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) // 1024

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self._draining.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start ``turnavoid collect`` in a process of its own, with further keys."""
    with ExitStack() as stack:

        def begin(**keys: str) -> Served:
            served = Served(tmp_path, config_text(**keys))
            stack.callback(served.end)
            return served

        yield begin


@pytest.fixture
def run_id() -> str:
    """A run id that no other test has."""
    return f"run-{next(_runs)}"


@pytest.fixture
def request_of(run_id: str) -> ExportTraceServiceRequest:
    """One whole run of one turn."""
    return ExportTraceServiceRequest.FromString(run_spans(run_id=run_id, turns=1))


@pytest.fixture
def sdk_spans(run_id: str) -> Sequence[ReadableSpan]:
    """Two spans about agents, as the OpenTelemetry SDK hands them to an exporter."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(id_generator=CountingIds(hash(run_id) % 10**12 + 1))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("agent")
    for name in ("chat m", "execute_tool t"):
        operation = name.split()[0]
        attributes = {"turnavoid.run.id": run_id, "gen_ai.operation.name": operation}
        attributes.update({f"own.{number}": "more" for number in range(30)})
        tracer.start_span(name, attributes=attributes).end()
    provider.shutdown()
    return memory.get_finished_spans()


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Return a condition's first true value, or fail at the deadline."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        tick = threading.Event()
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            tick.wait(0.02)
        return value

    return wait
