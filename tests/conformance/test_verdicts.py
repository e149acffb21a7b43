"""Every verdict case comes out the same, whichever way its requests take.

The expected outcomes were stated by hand from the design; nothing here was asked of this
program first.
"""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from otel_turnavoid.collector import config
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.testing import START_NS

pytestmark = pytest.mark.corpus

FORMS = ("plain", "backwards", "again", "split", "split_again")
PARTS = 3
"""Lives of a processor that is restarted."""
RESTARTED = (
    *("conflicting-span", "duplicates", "invoke-lost", "observation-conflict", "observer-first"),
    *("one-to-one", "paused-and-resumed", "refused-leakage", "two-arms-one-control"),
)
"""One case of each kind in which the order could matter: a restart takes half a second."""
WAIT_OVER_NS = 3600 * 1_000_000_000
"""Longer than any decision wait of the cases."""

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks no proxy, whatever the environment says."""

FREE_PORTS = {
    "receivers": {
        "otlp": {
            "protocols": {
                "grpc": {"endpoint": "127.0.0.1:0"},
                "http": {"endpoint": "127.0.0.1:0"},
            }
        }
    },
    "exporters": {"prometheus": {"endpoint": "127.0.0.1:0"}},
}


class Sent(Protocol):
    """A request of a case, ready to send."""

    signal: str
    json: bytes
    protobuf: bytes


@pytest.mark.parametrize("form", FORMS)
def test_recorded_requests_are_judged_as_stated(form: str, case: Any, bench: Any) -> None:
    """JSON and protobuf bodies in turn, so that each form is read in both encodings."""
    files = []
    for number, request in enumerate(case.in_form(form)):
        binary = number % 2 == FORMS.index(form) % 2
        file = bench.folder / f"{number:03}.{request.signal}.{'pb' if binary else 'json'}"
        file.write_bytes(request.protobuf if binary else request.json)
        files.append(file)

    said = bench.run("ingest", *files, "--config", bench.configured(case, {}))

    bench.check(case)
    if form == "plain":
        assert f"{case.expected.get('rejected_spans', 0)} refused" in said


def test_reading_a_recording_again_changes_nothing(case: Any, bench: Any) -> None:
    files = []
    for number, request in enumerate(case.requests):
        files.append(bench.folder / f"{number}.json")
        files[-1].write_bytes(request.json)
    arguments = (*files, "--config", bench.configured(case, {}))
    bench.run("ingest", *arguments)
    before = bench.run("runs", "--json"), bench.run("pairs", "--json", "--null")

    said = bench.run("ingest", *arguments)

    assert (bench.run("runs", "--json"), bench.run("pairs", "--json", "--null")) == before
    assert "0 facts, 0 observations" in said


class Clock:
    """Stands still while requests arrive, then jumps over every wait."""

    def __init__(self) -> None:
        self.now_ns = START_NS

    def __call__(self) -> int:
        return self.now_ns


@contextmanager
def running(file: Path, ledger: str) -> Iterator[Processor]:
    """Run a processor; what arrived is decided when the block ends, all waits over."""
    clock = Clock()
    processor = Processor(config.load(file), ledger_url=ledger, clock=clock)
    processor.start()
    try:
        yield processor
        clock.now_ns += WAIT_OVER_NS
    finally:
        processor.stop()


def over_grpc(processor: Processor, requests: Sequence[Sent]) -> int:
    """Send protobuf over one connection; return how many spans were refused."""
    refused = 0
    with grpc.insecure_channel(processor.grpc_endpoint or "") as channel:
        traces, logs = TraceServiceStub(channel), LogsServiceStub(channel)
        for request in requests:
            if request.signal == "logs":
                logs.Export(ExportLogsServiceRequest.FromString(request.protobuf), timeout=60)
                continue
            body = ExportTraceServiceRequest.FromString(request.protobuf)
            refused += traces.Export(body, timeout=60).partial_success.rejected_spans
    return refused


def over_http(processor: Processor, requests: Sequence[Sent]) -> int:
    """Send JSON; return how many spans were refused."""
    refused = 0
    for request in requests:
        refused += _post(f"{processor.http_endpoint}/v1/{request.signal}", request.json)
    return refused


def _post(url: str, body: bytes) -> int:
    posted = urllib.request.Request(url, body, {"content-type": "application/json"})
    with DIRECT.open(posted, timeout=60) as response:
        answer: Mapping[str, Any] = json.loads(response.read())
    return int(answer.get("partialSuccess", {}).get("rejectedSpans", 0))


LIVE = {
    "grpc, plain": (over_grpc, "plain"),
    "http, split and repeated": (over_http, "split_again"),
}


@pytest.mark.parametrize("way", LIVE)
def test_live_requests_are_judged_as_stated(way: str, case: Any, bench: Any) -> None:
    send, form = LIVE[way]
    with running(bench.configured(case, FREE_PORTS), bench.ledger) as processor:
        refused = send(processor, case.in_form(form))

    bench.check(case)
    if form == "plain":
        assert refused == case.expected.get("rejected_spans", 0)


@pytest.mark.parametrize("case_name", RESTARTED)
def test_restarts_while_requests_arrive_change_nothing(case: Any, bench: Any) -> None:
    """The processor is stopped and started between requests, which come over either protocol."""
    file = bench.configured(case, FREE_PORTS)
    requests = case.in_form("split")
    rng = random.Random(case.name)
    cuts = sorted(rng.sample(range(len(requests)), PARTS - 1))
    for start, end in pairwise([0, *cuts, len(requests)]):
        with Processor(config.load(file), ledger_url=bench.ledger, clock=Clock()) as processor:
            rng.choice([over_grpc, over_http])(processor, requests[start:end])
    with running(file, bench.ledger):
        pass

    bench.check(case)
