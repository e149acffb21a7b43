"""Feature flags sent as log records name the arms of runs: from files, live, in any order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
import yaml
from click.testing import CliRunner
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_turnavoid.cli.main import main
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation

DEADLINE_S: Final = 60.0
JUDGING: Final = {
    "accept": ["declared", "inferred"],
    "digest": ["ticket.id"],
    "units": ["feature_flag.context.id"],
    "arms": {
        "feature_flag.memory": {
            "off": "control",
            "on": {
                "arm": "exact-reuse",
                "variant": "v2",
                "experiment": "memory",
                "mechanism": "exact-reuse",
                "lifecycle": "realized",
                "reason": "exact-match",
            },
        }
    },
    "experiments": ["feature_flag.set.id"],
}
LIVE: Final = {
    "receivers": {
        "otlp": {
            "protocols": {
                "grpc": {"endpoint": "localhost:0"},
                "http": {"endpoint": "localhost:0"},
            }
        }
    },
    "exporters": {"prometheus": {"endpoint": "localhost:0"}},
}
PAIR: Final = {
    "arm": "exact-reuse",
    "variant": "v2",
    "mechanism": "exact-reuse",
    "lifecycle": "realized",
    "reason": "exact-match",
    "evidence": "inferred",
    "control_turns": 3,
    "candidate_turns": 1,
    "potential": 2,
    "avoided": 2,
    "withheld": 0,
    "added": 0,
    "causes": [],
}


class Sent(NamedTuple):
    """One export request."""

    signal: str
    body: bytes


def key_values(attributes: dict[str, str]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(string_value=each)) for key, each in attributes.items()
    ]


def run_spans(name: str, turns: int) -> Sent:
    """An agent's span and a call for each turn, by somebody else's instrumentation."""
    trace_id = name.encode().ljust(16, b"-")
    root = bytes([1]) * 8
    spans = [
        Span(
            trace_id=trace_id,
            span_id=root,
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + 10 * SECOND,
            attributes=key_values({"gen_ai.operation.name": "invoke_agent", "ticket.id": "T-1"}),
        )
    ]
    spans += [
        Span(
            trace_id=trace_id,
            span_id=bytes([2 + turn]) * 8,
            parent_span_id=root,
            start_time_unix_nano=START_NS + turn * SECOND,
            end_time_unix_nano=START_NS + (turn + 1) * SECOND,
            attributes=key_values({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}),
        )
        for turn in range(turns)
    ]
    resource = Resource(attributes=key_values({"service.name": "desk", "service.instance.id": "d"}))
    scopes = [ScopeSpans(scope=InstrumentationScope(name="framework"), spans=spans)]
    resources = [ResourceSpans(resource=resource, scope_spans=scopes)]
    request = ExportTraceServiceRequest(resource_spans=resources)
    return Sent("traces", request.SerializeToString())


def evaluation(name: str, variant: str, *, at_ns: int = START_NS) -> Sent:
    """What a flag's provider logs when the agent asks it."""
    record = LogRecord(
        time_unix_nano=at_ns,
        event_name="feature_flag.evaluation",
        trace_id=name.encode().ljust(16, b"-"),
        span_id=bytes([1]) * 8,
        attributes=key_values(
            {
                "feature_flag.key": "memory",
                "feature_flag.result.variant": variant,
                "feature_flag.set.id": "memory",
                "feature_flag.context.id": "customer-7",
            }
        ),
    )
    logs = [ResourceLogs(scope_logs=[ScopeLogs(log_records=[record])])]
    return Sent("logs", ExportLogsServiceRequest(resource_logs=logs).SerializeToString())


def run_id(name: str) -> str:
    return f"trace:{name.encode().ljust(16, b'-').hex()}/{(bytes([1]) * 8).hex()}"


def seen(name: str) -> Sent:
    return Sent("logs", observation(run_id(name), observed_ns=START_NS + 11 * SECOND))


CONTROL: Final = (run_spans("control", 3), evaluation("control", "off"), seen("control"))
CANDIDATE: Final = (run_spans("memory", 1), evaluation("memory", "on"), seen("memory"))


class Bench:
    """A ledger and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'ledger.db'}"

    def run(self, command: str, *arguments: str | Path) -> str:
        given = [command, *map(str, arguments), "--ledger", self.url]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def ingest(self, requests: Sequence[Sent]) -> None:
        config = self.folder / "turnavoid.yaml"
        config.write_text(yaml.safe_dump({"processors": {"turnavoid": JUDGING}}))
        files = []
        for number, sent in enumerate(requests):
            ending = "logs.pb" if sent.signal == "logs" else "pb"
            files.append(self.folder / f"{number:02}.{ending}")
            files[-1].write_bytes(sent.body)
        self.run("ingest", *files, "--config", config)

    def rows(self, command: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(command, "--json").splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_records_in_files_name_the_arms(bench: Bench) -> None:
    bench.ingest([*CONTROL, *CANDIDATE])

    assert bench.rows("pairs") == [
        {**PAIR, "control": run_id("control"), "candidate": run_id("memory")}
    ]


def test_experiment_and_unit_are_part_of_what_is_compared(bench: Bench) -> None:
    bench.ingest([*CONTROL, *CANDIDATE])

    explained = bench.run("explain", run_id("memory"))
    assert "experiment memory, unit customer-7, turn index 0" in explained


def test_contradicting_records_are_refused_and_nothing_is_paired(bench: Bench) -> None:
    later = evaluation("memory", "off", at_ns=START_NS + SECOND)
    bench.ingest([*CONTROL, *CANDIDATE, later])

    assert bench.rows("pairs") == []
    rows = {row["run_id"]: (row["outcome"], row["causes"]) for row in bench.rows("runs")}
    assert rows[run_id("memory")] == ("rejected", ["run-id-reused"])


ORDERS: Final = sorted(permutations([*CONTROL, *CANDIDATE]))[::60]
"""Twelve of 720, spread over all of them."""


@pytest.mark.parametrize("decided_between", [True, False])
@pytest.mark.parametrize("order", ORDERS, ids=range(len(ORDERS)))
def test_any_order_of_arrival_gives_the_same_verdict(
    tmp_path: Path, order: Sequence[Sent], *, decided_between: bool
) -> None:
    settings = parse(yaml.safe_dump({"processors": {"turnavoid": JUDGING}}), env={}).settings
    url = f"sqlite:///{tmp_path / 'ledger.db'}"

    assert _verdicts(url, order, settings, decided_between=decided_between) == ((2, 0, 0, ()),)


def _verdicts(
    url: str, order: Sequence[Sent], settings: Settings, *, decided_between: bool
) -> tuple[tuple[Any, ...], ...]:
    ledger = Ledger.open(url)
    reader = Reader(settings)
    made = []
    now_ns = START_NS
    for sent in order:
        batch = (read_traces if sent.signal == "traces" else read_logs)(sent.body, reader)
        ledger.add(batch.facts, batch.observations, arrived_ns=now_ns)
        if decided_between:
            now_ns += SECOND
            made += ledger.decide(settings, now_ns=now_ns)
    made += ledger.decide(settings, now_ns=now_ns + SECOND, final=True)
    ledger.close()
    pairs = [each for each in made if isinstance(each, PairDecided)]
    return tuple((each.avoided, each.withheld, each.added, each.causes) for each in pairs)


def test_records_sent_after_their_spans_reach_a_running_processor(bench: Bench) -> None:
    config = {**LIVE, "processors": {"turnavoid": JUDGING}}
    now_ns = time.time_ns()
    with Processor(
        parse(yaml.safe_dump(config), env={}), ledger_url=bench.url, clock=lambda: now_ns
    ) as processor:
        for sent in sorted([*CONTROL, *CANDIDATE], key=lambda each: each.signal, reverse=True):
            answer = httpx.post(
                f"{processor.http_endpoint}/v1/{sent.signal}",
                content=sent.body,
                headers={"content-type": "application/x-protobuf"},
                timeout=60,
            )
            assert (answer.status_code, answer.content) == (200, b"")
        # However long all that took, the wait was not over.
        now_ns += 2 * Settings().decision_wait_ns
        [pair] = until(lambda: bench.rows("pairs"))

    assert pair == {**PAIR, "control": run_id("control"), "candidate": run_id("memory")}


def until(condition: Callable[[], Any]) -> Any:
    """Return a condition's first true value, or fail at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    tick = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never came true"
        tick.wait(0.05)
    return value
