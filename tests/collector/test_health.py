"""Probes of a running processor, over HTTP and gRPC."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor

CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:0"}
      http: {endpoint: "localhost:0"}
exporters: {prometheus: {endpoint: "localhost:0"}}
extensions: {health_check: {endpoint: "localhost:0", path: /status}}
"""
TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"
LEDGER = "turnavoid.v1.LedgerService"


@pytest.fixture
def probed(ledger_url):
    with Processor(parse(CONFIG, env={}), ledger_url=ledger_url) as running:
        yield running


def ask(processor, path):
    answer = httpx.get(f"{processor.health_endpoint}{path}", timeout=60)
    said = answer.json()
    assert set(said) - {"reasons"} == {"status", "upSince", "uptime"}
    return answer.status_code, said["status"], said.get("reasons")


def serving(processor, service=""):
    with grpc.insecure_channel(processor.grpc_endpoint) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service))
    return answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def locked(probed, tmp_path):
    """Nobody can write the ledger while somebody else has it."""
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield probed


@pytest.mark.parametrize("path", ["/health", "/ready", "/status"])
def test_a_processor_that_takes_exports_is_live_and_ready(probed, path):
    assert ask(probed, path) == (200, "Server available", None)
    assert serving(probed)


def test_without_a_ledger_that_can_be_written_it_is_live_and_not_ready(locked, until, metric):
    reasons = ["the ledger cannot be written"]

    assert until(lambda: ask(locked, "/ready")[0] == 503)
    assert ask(locked, "/ready") == (503, "Server not available", reasons)
    assert ask(locked, "/status") == (503, "Server not available", reasons)
    assert ask(locked, "/health") == (200, "Server available", None)
    assert not serving(locked)
    assert not serving(locked, TRACES)
    assert serving(locked, LEDGER)
    assert metric(locked, "turnavoid_processor_ready") == 0


def test_it_is_ready_again_by_itself(probed, tmp_path, until):
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        until(lambda: ask(probed, "/ready")[0] == 503)

    assert until(lambda: ask(probed, "/ready")[0] == 200)
    assert until(lambda: serving(probed, TRACES))


def test_other_paths_are_not_found(probed):
    assert httpx.get(f"{probed.health_endpoint}/metrics", timeout=60).status_code == 404


def test_without_the_extension_nothing_listens(processor):
    assert processor.health_endpoint is None


def test_after_the_end_nothing_answers(ledger_url):
    with Processor(parse(CONFIG, env={}), ledger_url=ledger_url) as running:
        endpoint = running.health_endpoint

    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{endpoint}/health", timeout=60)


def test_a_full_queue_is_not_ready(ledger_url, run_request, until):
    """Whoever sends to it would be told to come back."""
    config = CONFIG.replace(
        'prometheus: {endpoint: "localhost:0"}',
        'otlphttp/dead: {endpoint: "http://localhost:9", sending_queue: {queue_size: 1}}',
    )
    service = """
service:
  extensions: [health_check]
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid], exporters: [otlphttp/dead]}
"""
    with Processor(parse(config + service, env={}), ledger_url=ledger_url) as running:
        answer = httpx.post(
            f"{running.http_endpoint}/v1/traces",
            content=run_request("r").SerializeToString(),
            headers={"content-type": "application/x-protobuf"},
            timeout=60,
        )
        until(lambda: ask(running, "/ready")[0] == 503)

        assert answer.status_code == 200
        assert ask(running, "/ready")[2] == ["the queue of otlphttp/dead is full"]
