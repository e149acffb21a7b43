"""A processor removes old evidence, keeps every figure, and counts what comes too late."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, run_spans

DAY_NS = 86_400 * 10**9
CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
processors: {turnavoid: {settle: 50ms}}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
extensions: {ledger: {retention: 30d}}
"""
EVIDENCE = 11 + 8 + 2
"""Facts of a run of three turns and one of two, and an observation of each."""


class Clock:
    """The processor's clock, days ahead of this machine's."""

    ahead = 0

    def __call__(self) -> int:
        return time.time_ns() + self.ahead * DAY_NS


def figure(processor: Processor, name: str) -> float:
    with urllib.request.urlopen(processor.metrics_endpoints[0], timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))


def send(processor: Processor, path: str, body: bytes) -> int:
    address = str(processor.http_endpoint).rpartition("/")[2]
    connection = HTTPConnection(address, timeout=60)
    connection.request("POST", path, body, {"content-type": "application/x-protobuf"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_what_is_old_goes_and_does_not_come_back(
    either_url: str, until: Callable[[Callable[[], Any]], Any]
) -> None:
    clock, now_ns = Clock(), time.time_ns()
    requests = [
        ("/v1/traces", run_spans(run_id="c", turns=3, start_ns=now_ns)),
        ("/v1/traces", run_spans(run_id="k", arm="fused-batch", turns=2, start_ns=now_ns)),
        ("/v1/logs", observation("c", observed_ns=now_ns)),
        ("/v1/logs", observation("k", observed_ns=now_ns)),
    ]
    config = parse(CONFIG, env={})
    with Processor(config, ledger_url=either_url, clock=clock) as processor:
        assert [send(processor, *request) for request in requests] == [200] * 4
        until(lambda: figure(processor, "turnavoid_model_turns_avoided_total") == 1)

        clock.ahead = 31
        pruned = "turnavoid_processor_pruned_items_total"
        until(lambda: figure(processor, pruned) == 2 + EVIDENCE)
        assert [send(processor, *request) for request in requests] == [200] * 4

        assert figure(processor, "turnavoid_processor_late_items_total") == EVIDENCE
        assert figure(processor, "turnavoid_model_turns_avoided_total") == 1
    with Ledger.open(either_url, create=False) as ledger:
        sizes = ledger.sizes()
    assert (sizes["spans"], sizes["observations"], sizes["runs"]) == (0, 0, 0)
    assert sizes["decisions"] == 3
