"""Hundreds of damaged bodies for a running processor: each is answered, and nothing comes of it.

After every answer the process lives, after all of them good runs earn what they earn elsewhere.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import httpx
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from fuzz.choices import Choices
from fuzz.mutating import damaged, mutated
from fuzz.odd_json import odd_json
from fuzz.targets import TARGETS
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, run_spans

CONFIG: Final = """
receivers: {otlp: {protocols: {grpc: {endpoint: "localhost:0"}, http: {endpoint: "localhost:0"}}}}
processors: {turnavoid: {settle: 50ms}}
exporters: {prometheus: {endpoint: "localhost:0"}}
"""
BODIES: Final = 300
"""Of each kind."""
DEADLINE_S: Final = 60.0
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
FINAL: Final = {200, 400, 413}
"""What may be said to a body that will never be better; 5xx would have it sent again."""
RESPONSES: Final = {"traces": ExportTraceServiceResponse, "logs": ExportLogsServiceResponse}
GRPC: Final = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}


class Live:
    """A processor and what speaks to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.processor = Processor(parse(CONFIG, env={}), ledger_url=url)
        self.chance = random.Random(20261130)

    def damaged(self, signal: str, kind: str) -> bytes:
        """Return the next damaged body."""
        choices = Choices(self.chance.randbytes(96))
        seed = choices.one(TARGETS[f"{signal}-json" if kind == JSON else signal].seeds())
        if kind == JSON and choices.number(2) and seed:
            return odd_json(seed, choices)
        return (
            mutated(seed, choices)
            if (signal, kind) == ("traces", PROTOBUF)
            else damaged(seed, choices)
        )

    def pairs(self) -> list[PairDecided]:
        """Return the pairs decided so far."""
        with Ledger.open(self.url, create=False) as ledger:
            return [made for _, made in ledger.decisions() if isinstance(made, PairDecided)]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    live = Live(f"sqlite:///{tmp_path / 'ledger.db'}")
    with live.processor:
        yield live


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_http_answers_every_damaged_body_in_the_protocol(
    live: Live, signal: str, kind: str
) -> None:
    with httpx.Client(base_url=live.processor.http_endpoint, timeout=DEADLINE_S) as client:
        for _ in range(BODIES):
            headers = {"content-type": kind}
            answer = client.post(
                f"/v1/{signal}", content=live.damaged(signal, kind), headers=headers
            )

            assert answer.status_code in FINAL
            assert answer.headers["content-type"] == kind
            if kind == PROTOBUF:
                form = RESPONSES[signal] if answer.status_code == 200 else Status
                form.FromString(answer.content)
            else:
                assert isinstance(answer.json(), dict)

    assert_good_runs_earn(live)


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_grpc_answers_every_damaged_message_in_the_protocol(live: Live, signal: str) -> None:
    with grpc.insecure_channel(live.processor.grpc_endpoint) as channel:
        call = channel.unary_unary(GRPC[signal])
        for _ in range(BODIES):
            sent = call.future(live.damaged(signal, PROTOBUF), timeout=DEADLINE_S)

            assert sent.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
            if sent.code() is grpc.StatusCode.OK:
                RESPONSES[signal].FromString(sent.result())

    assert_good_runs_earn(live)


def test_every_damaged_gzip_body_is_answered(live: Live) -> None:
    with httpx.Client(base_url=live.processor.http_endpoint, timeout=DEADLINE_S) as client:
        for _ in range(BODIES):
            choices = Choices(live.chance.randbytes(96))
            body = damaged(choices.one(TARGETS["gzip"].seeds()), choices)
            headers = {"content-type": PROTOBUF, "content-encoding": "gzip"}

            answer = client.post("/v1/traces", content=body, headers=headers)

            assert answer.status_code in FINAL

    assert_good_runs_earn(live)


def assert_good_runs_earn(live: Live) -> None:
    """Send a pair of good runs and their effects, and wait for what they earn."""
    sent = [
        ("traces", run_spans(run_id="good control", arm="control", task="good", turns=4)),
        ("traces", run_spans(run_id="good candidate", arm="fused-batch", task="good", turns=3)),
        ("logs", observation("good control")),
        ("logs", observation("good candidate")),
    ]
    for signal, body in sent:
        answer = httpx.post(
            f"{live.processor.http_endpoint}/v1/{signal}",
            content=body,
            headers={"content-type": PROTOBUF},
            timeout=DEADLINE_S,
        )
        assert (answer.status_code, answer.content) == (200, b"")
    deadline = time.monotonic() + DEADLINE_S
    while not (pairs := live.pairs()) and time.monotonic() < deadline:
        time.sleep(0.05)
    earned = {(pair.candidate.run_id, pair.avoided, pair.withheld) for pair in pairs}
    assert earned == {("good candidate", 1, 0)}
    scraped = httpx.get(live.processor.metrics_endpoints[0], timeout=DEADLINE_S)
    assert scraped.status_code == 200
