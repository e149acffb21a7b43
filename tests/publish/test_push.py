"""Pushing over OTLP: what a real receiver gets, and what happens when there is none."""

from __future__ import annotations

import gzip
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from opentelemetry import context
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceProto
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource

from otel_turnavoid.errors import ConfigurationError, UsageError
from otel_turnavoid.judge.accounts import Posting
from otel_turnavoid.publish.metrics import metrics_data
from otel_turnavoid.publish.push import (
    Compression,
    OtlpPusher,
    Protocol,
    Target,
    default_interval_s,
)
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.vocabulary import Metric

BIRTH_NS = 1_700_000_000_000_000_000
NOW_NS = BIRTH_NS + 1_000
HOUR_S = 3600.0
PATIENCE_S = 60.0
"""How long a test waits for another thread before it fails."""

DECLARED = (("turnavoid.evidence", "declared"),)
REUSE = (("turnavoid.arm", "exact-reuse"), *DECLARED)
NET = (("turnavoid.arm", "exact-reuse"), ("turnavoid.basis", "net"), *DECLARED)


def reader(totals: Totals) -> Callable[[], MetricsData]:
    resource = Resource({"service.name": "turns"})
    return lambda: metrics_data(
        totals.snapshot(), birth_ns=BIRTH_NS, now_ns=NOW_NS, resource=resource
    )


@pytest.fixture
def totals() -> Totals:
    totals = Totals()
    totals.add_posting(Posting(Metric.TURNS_ADDED, REUSE, 3))
    totals.add_posting(Posting(Metric.TOOL_BATCH_SIZE, REUSE, 40))
    totals.add_posting(Posting(Metric.SAVED_DURATION, NET, -0.25))
    return totals


class Receiver(metrics_service_pb2_grpc.MetricsServiceServicer):
    """A metrics service that keeps what it gets."""

    def __init__(self) -> None:
        self.requests: queue.Queue[ExportMetricsServiceRequest] = queue.Queue()
        self.metadata: dict[str, str] = {}

    def Export(  # noqa: N802  # the name of the call
        self, request: ExportMetricsServiceRequest, call: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        self.metadata = dict(call.invocation_metadata())
        self.requests.put(request)
        return ExportMetricsServiceResponse()


@pytest.fixture
def grpc_receiver() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()
    server = grpc.server(ThreadPoolExecutor(1))
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield receiver, f"http://localhost:{port}"
    server.stop(0).wait()


@pytest.fixture
def http_receiver() -> Iterator[tuple[queue.Queue, str]]:
    requests: queue.Queue = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.put((self.path, headers, body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Be quiet."""

    with HTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield requests, f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


class Scripted(MetricExporter):
    """An exporter that does what it is told."""

    def __init__(self, script: Callable[[int], MetricExportResult] | None = None) -> None:
        super().__init__()
        self.script = script or (lambda _: MetricExportResult.SUCCESS)
        self.exported: queue.Queue[MetricsData] = queue.Queue()
        self.calls = 0
        self.closed = 0
        self.suppressed: list[object] = []

    def export(self, metrics_data: MetricsData, *_: object, **__: object) -> MetricExportResult:
        self.calls += 1
        self.suppressed.append(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))
        self.exported.put(metrics_data)
        return self.script(self.calls)

    def force_flush(self, *_: object) -> bool:
        return True

    def shutdown(self, *_: object, **__: object) -> None:
        self.closed += 1


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def number(labels: tuple[tuple[str, str], ...], **value: float) -> pb.NumberDataPoint:
    return pb.NumberDataPoint(
        attributes=[text(*label) for label in labels],
        start_time_unix_nano=BIRTH_NS,
        time_unix_nano=NOW_NS,
        **value,
    )


def scope(account: str, metric: pb.Metric) -> pb.ScopeMetrics:
    name = InstrumentationScope(name=f"otel_turnavoid.{account}", version=version("otel-turnavoid"))
    return pb.ScopeMetrics(scope=name, metrics=[metric])


CUMULATIVE = pb.AGGREGATION_TEMPORALITY_CUMULATIVE
EXPECTED = ExportMetricsServiceRequest(
    resource_metrics=[
        pb.ResourceMetrics(
            resource=ResourceProto(attributes=[text("service.name", "turns")]),
            scope_metrics=[
                scope(
                    "turns",
                    pb.Metric(
                        name="turnavoid.model_turns.added",
                        description=Metric.TURNS_ADDED.description,
                        unit="{turn}",
                        sum=pb.Sum(
                            aggregation_temporality=CUMULATIVE,
                            is_monotonic=True,
                            data_points=[number(REUSE, as_int=3)],
                        ),
                    ),
                ),
                scope(
                    "tools",
                    pb.Metric(
                        name="turnavoid.tool_batch.size",
                        description=Metric.TOOL_BATCH_SIZE.description,
                        unit="{call}",
                        histogram=pb.Histogram(
                            aggregation_temporality=CUMULATIVE,
                            data_points=[
                                pb.HistogramDataPoint(
                                    attributes=[text(*label) for label in REUSE],
                                    start_time_unix_nano=BIRTH_NS,
                                    time_unix_nano=NOW_NS,
                                    count=1,
                                    sum=40,
                                    bucket_counts=[0] * 10 + [1],
                                    explicit_bounds=[1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
                                )
                            ],
                        ),
                    ),
                ),
                scope(
                    "work",
                    pb.Metric(
                        name="turnavoid.saved.duration",
                        description=Metric.SAVED_DURATION.description,
                        unit="s",
                        sum=pb.Sum(
                            aggregation_temporality=CUMULATIVE,
                            data_points=[number(NET, as_double=-0.25)],
                        ),
                    ),
                ),
            ],
        )
    ]
)


def test_a_grpc_receiver_gets_the_totals(
    totals: Totals, grpc_receiver: tuple[Receiver, str]
) -> None:
    receiver, endpoint = grpc_receiver
    target = Target(endpoint=endpoint, headers={"X-Tenant": "t1"}, compression=Compression.GZIP)
    pusher = OtlpPusher(reader(totals), target.exporter(), interval_s=HOUR_S)

    arrived = pusher.push()
    pusher.shutdown()

    assert arrived
    assert receiver.requests.get_nowait() == EXPECTED
    assert receiver.metadata["x-tenant"] == "t1"


def test_a_grpc_endpoint_may_be_a_host_and_port(
    totals: Totals, grpc_receiver: tuple[Receiver, str]
) -> None:
    receiver, endpoint = grpc_receiver
    target = Target(endpoint=endpoint.removeprefix("http://"), insecure=True)
    pusher = OtlpPusher(reader(totals), target.exporter(), interval_s=HOUR_S)

    pusher.push()
    pusher.shutdown()

    assert receiver.requests.get_nowait() == EXPECTED


@pytest.mark.parametrize("compression", [None, Compression.NONE, Compression.GZIP])
def test_an_http_receiver_gets_the_totals(
    totals: Totals, http_receiver: tuple[queue.Queue, str], compression: Compression | None
) -> None:
    requests, endpoint = http_receiver
    target = Target(
        protocol=Protocol.HTTP,
        endpoint=f"{endpoint}/base/",
        headers={"X-Tenant": "t1"},
        compression=compression,
    )
    pusher = OtlpPusher(reader(totals), target.exporter(), interval_s=HOUR_S)

    arrived = pusher.push()
    pusher.shutdown()

    path, headers, body = requests.get_nowait()
    if compression is Compression.GZIP:
        body = gzip.decompress(body)
    assert arrived
    assert path == "/base/v1/metrics"
    assert headers["x-tenant"] == "t1"
    assert headers["content-type"] == "application/x-protobuf"
    assert ExportMetricsServiceRequest.FromString(body) == EXPECTED


def test_it_pushes_when_started_and_a_last_time_at_shutdown(totals: Totals) -> None:
    exporter = Scripted()
    read = reader(totals)
    pusher = OtlpPusher(read, exporter, interval_s=HOUR_S)

    pusher.start()
    first = exporter.exported.get(timeout=PATIENCE_S)
    expected_first = read()
    totals.add_posting(Posting(Metric.TURNS_ADDED, REUSE, 1))
    pusher.shutdown(PATIENCE_S)

    assert (first, exporter.exported.get_nowait()) == (expected_first, read())
    assert (exporter.calls, exporter.closed, pusher.pushed, pusher.failed) == (2, 1, 2, 0)


def test_it_pushes_again_after_each_interval(totals: Totals) -> None:
    exporter = Scripted()
    pusher = OtlpPusher(reader(totals), exporter, interval_s=0.001)

    pusher.start()
    for _ in range(3):
        exporter.exported.get(timeout=PATIENCE_S)
    pusher.shutdown(PATIENCE_S)

    assert exporter.closed == 1


def test_shutdown_may_be_repeated_and_needs_no_start(totals: Totals) -> None:
    exporter = Scripted()
    pusher = OtlpPusher(reader(totals), exporter, interval_s=HOUR_S)

    pusher.shutdown()
    pusher.shutdown()

    assert (exporter.calls, exporter.closed) == (0, 1)


def test_a_pusher_is_started_once(totals: Totals) -> None:
    pusher = OtlpPusher(reader(totals), Scripted(), interval_s=HOUR_S)
    pusher.start()

    with pytest.raises(UsageError, match=r"^a pusher is started once$"):
        pusher.start()

    pusher.shutdown(PATIENCE_S)


def test_shutdown_does_not_wait_for_a_receiver_that_hangs(totals: Totals) -> None:
    begun, released = threading.Event(), threading.Event()

    def hang(_: int) -> MetricExportResult:
        begun.set()
        released.wait(PATIENCE_S)
        return MetricExportResult.FAILURE

    exporter = Scripted(hang)
    pusher = OtlpPusher(reader(totals), exporter, interval_s=HOUR_S)
    pusher.start()
    begun.wait(PATIENCE_S)

    pusher.shutdown(timeout_s=0)

    assert exporter.closed == 1
    released.set()


def test_export_calls_are_kept_from_instrumentation(totals: Totals) -> None:
    exporter = Scripted()

    OtlpPusher(reader(totals), exporter, interval_s=HOUR_S).push()

    assert exporter.suppressed == [True]
    assert context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY) is None


def test_a_failure_is_counted_each_time_and_said_once_until_it_is_over(
    totals: Totals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    success, failure = MetricExportResult.SUCCESS, MetricExportResult.FAILURE
    exporter = Scripted(lambda call: success if call in {4, 5} else failure)
    pusher = OtlpPusher(reader(totals), exporter, interval_s=HOUR_S)

    arrived = [pusher.push() for _ in range(7)]

    assert arrived == [False, False, False, True, True, False, False]
    assert (pusher.pushed, pusher.failed) == (2, 5)
    problem = "metrics cannot be pushed, will keep trying: the exporter gave no reason"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", problem),
        ("INFO", "metrics are pushed again"),
        ("WARNING", problem),
    ]


@pytest.mark.parametrize("place", ["read", "export"])
def test_nothing_is_raised(totals: Totals, caplog: pytest.LogCaptureFixture, place: str) -> None:
    def fail(*_: object) -> MetricExportResult:
        raise RuntimeError("boom")

    read = fail if place == "read" else reader(totals)
    pusher = OtlpPusher(read, Scripted(fail), interval_s=HOUR_S)

    assert not pusher.push()
    assert [record.getMessage() for record in caplog.records] == [
        "metrics cannot be pushed, will keep trying: RuntimeError: boom"
    ]


@pytest.mark.parametrize("protocol", list(Protocol))
def test_the_stock_exporters_say_why_in_our_one_line(
    totals: Totals,
    caplog: pytest.LogCaptureFixture,
    http_receiver: tuple[queue.Queue, str],
    protocol: Protocol,
) -> None:
    """Nothing listens on the port of a server that is gone."""
    with HTTPServer(("localhost", 0), BaseHTTPRequestHandler) as gone:
        port = gone.server_port
    target = Target(protocol=protocol, endpoint=f"http://localhost:{port}", timeout_s=0.5)
    pusher = OtlpPusher(reader(totals), target.exporter(), interval_s=HOUR_S)

    arrived = pusher.push()
    pusher.shutdown()

    assert not arrived
    (record,) = caplog.records
    assert record.name == "otel_turnavoid.publish.push"
    assert record.getMessage().startswith("metrics cannot be pushed, will keep trying: ")
    assert "Failed to export metrics" in record.getMessage()


@pytest.mark.parametrize(
    ("setting", "seconds"), [(None, 60.0), ("", 60.0), ("5000", 5.0), (" 250 ", 0.25)]
)
def test_the_interval_is_a_minute_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, seconds: float
) -> None:
    monkeypatch.delenv("OTEL_METRIC_EXPORT_INTERVAL", raising=False)
    if setting is not None:
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", setting)

    assert default_interval_s() == seconds


@pytest.mark.parametrize("setting", ["soon", "0", "-1", "inf", "nan"])
def test_an_interval_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, totals: Totals, setting: str
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", setting)

    with pytest.raises(ConfigurationError) as refused:
        OtlpPusher(reader(totals), Scripted())

    assert str(refused.value) == (
        f"OTEL_METRIC_EXPORT_INTERVAL: must be a number of milliseconds above 0 (got {setting!r})"
    )


def test_a_configured_interval_must_be_above_0(totals: Totals) -> None:
    with pytest.raises(ConfigurationError, match=r"^interval: must be above 0 s \(got 0\)$"):
        OtlpPusher(reader(totals), Scripted(), interval_s=0)


def test_another_temporality_is_said_to_be_unsupported(
    monkeypatch: pytest.MonkeyPatch, totals: Totals, caplog: pytest.LogCaptureFixture
) -> None:
    key = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
    monkeypatch.setenv(key, "delta")

    OtlpPusher(reader(totals), Scripted(), interval_s=HOUR_S)

    assert [record.getMessage() for record in caplog.records] == [
        f"{key}=delta is not supported: totals are pushed as cumulative"
    ]


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("key", ["ca_file", "cert_file", "key_file"])
def test_an_unreadable_certificate_is_refused_by_its_key(
    tmp_path: Path, protocol: Protocol, key: str
) -> None:
    target = Target(
        protocol=protocol, endpoint="https://localhost:1", **{key: tmp_path / "absent.pem"}
    )

    with pytest.raises(ConfigurationError, match=rf"^tls\.{key}: cannot be read: .*absent\.pem"):
        target.exporter()
