"""``turnavoid loadgen`` against a running processor: what it says is what the accounts show."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.store import Ledger

CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:0"}
      http: {endpoint: "localhost:0"}
processors: {turnavoid: {settle: 50ms}}
exporters: {}
"""
DEADLINE_S = 60.0


@pytest.fixture
def ledger_url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


class Clock:
    """Stands still while requests arrive, however long that takes, until every wait is over."""

    def __init__(self):
        self.now_ns = time.time_ns()

    def __call__(self):
        return self.now_ns

    def wait_over(self):
        self.now_ns += 2 * Settings().decision_wait_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def processor(ledger_url, clock):
    with Processor(parse(CONFIG, env={}), ledger_url=ledger_url, clock=clock) as running:
        yield running


def loadgen(*arguments, **environment):
    return CliRunner().invoke(main, ["loadgen", *arguments], env=environment)


def pairs_of(url, count):
    """Return the pairs in a ledger once there are so many, or fail at the deadline."""
    deadline, tick = time.monotonic() + DEADLINE_S, threading.Event()
    ledger = Ledger.open(url)
    try:
        while True:
            decided = [
                each for _, each in ledger.decisions() if type(each).__name__ == "PairDecided"
            ]
            if len(decided) >= count:
                return decided
            assert time.monotonic() < deadline, f"{len(decided)} of {count} pairs are decided"
            tick.wait(0.1)
    finally:
        ledger.close()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf", "http/json"])
def test_the_accounts_are_those_that_it_says(processor, clock, ledger_url, protocol):
    endpoint = processor.grpc_endpoint if protocol == "grpc" else processor.http_endpoint

    done = loadgen(
        *("--endpoint", endpoint, "--protocol", protocol, "--json"),
        *(
            "--seed",
            "5",
            "--rate",
            "0",
            "--runs",
            "80",
            "--turns",
            "2-6",
            "--candidate-turns",
            "1-5",
        ),
        *("--foreign", "0.5", "--duplicates", "0.3", "--lost", "0.01", "--suppressed", "0.1"),
    )
    said = json.loads(done.stdout)
    clock.wait_over()
    pairs = pairs_of(ledger_url, said["expected"]["pairs"])
    withheld = Counter()
    for pair in pairs:
        withheld[pair.causes[0].value if pair.causes else ""] += pair.withheld

    assert done.exit_code == 0
    assert said["exact"] is True
    assert said["sent"]["runs"] == 80
    assert said["requests"]["failed"] == {}
    assert len(pairs) == said["expected"]["pairs"]
    assert sum(pair.avoided for pair in pairs) == said["expected"]["avoided"] > 0
    assert sum(pair.added for pair in pairs) == said["expected"]["added"]
    assert dict(+withheld) == said["expected"]["withheld"]


def test_people_read_lines(processor):
    done = loadgen(
        *("--endpoint", processor.grpc_endpoint, "--seed", "5", "--rate", "0", "--runs", "10"),
        *("--suppressed", "1"),
    )

    lines = done.stdout.splitlines()
    assert lines[0] == "seed 5 runs 10 suppressed 1.0"
    assert lines[1].startswith(
        "sent          10 runs, 125 of their spans (0 lost), 0 foreign spans"
    )
    assert lines[2] == "requests      6 acknowledged, 0 retried, 0 failed"
    assert lines[-8:] == [
        "expected in the accounts",
        "  pairs       5 decided",
        "  committed   20 control, 15 fused-batch",
        "  avoided     0",
        "  withheld    5 effects-suppressed",
        "  added       0",
        "  runs        10 paired",
        "  duplicates  0 entries and observations",
    ]


def test_a_refusal_is_named_and_the_exit_code_is_1(processor):
    """The receiver's path is not there: a final answer."""
    done = loadgen(
        *("--endpoint", f"{processor.http_endpoint}/elsewhere", "--protocol", "http/protobuf"),
        *("--runs", "2", "--workers", "1"),
    )

    assert done.exit_code == 1
    assert "1 failed (1 HTTP 404)" in done.stdout


def test_a_bad_range_is_one_line_and_2():
    done = loadgen("--turns", "6-2")

    assert done.exit_code == 2
    assert "wants a number such as 4, or a range such as 2-6, got '6-2'" in done.stderr


def test_a_variable_that_cannot_be_used_is_one_line_and_2():
    done = loadgen("--runs", "2", OTEL_EXPORTER_OTLP_PROTOCOL="thrift")

    assert done.exit_code == 2
    assert done.stderr == (
        "turnavoid loadgen: OTEL_EXPORTER_OTLP_PROTOCOL: "
        "wants one of grpc, http/protobuf, http/json, got 'thrift'\n"
    )
