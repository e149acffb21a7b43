"""``turnavoid collect`` as a process: killed, stopped, and with a backend that stays away."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from otel_turnavoid.testing import other_spans, run_spans

ROUNDS = 4
SENDERS = 4
MIB = 1 << 20
PROTOBUF = {"content-type": "application/x-protobuf"}


class Collector:
    """A process that forwards to ``otlp/x``."""

    def __init__(self, config: Path, ledger_url: str) -> None:
        command = [sys.executable, "-m", "otel_turnavoid", "collect"]
        self.process = subprocess.Popen(
            [*command, "--config", str(config), "--ledger", ledger_url],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert self.process.stderr is not None
        self.said: list[str] = []
        self.url = self._url()
        self._draining = threading.Thread(target=self._drain, daemon=True)
        self._draining.start()

    def _url(self) -> str:
        assert self.process.stderr is not None
        while line := self.process.stderr.readline():
            self.said.append(line)
            if found := re.fullmatch(r"OTLP/HTTP at (\S+)\n", line):
                return found[1]
        pytest.fail(f"it ended: {self.said}")

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.said += self.process.stderr

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def end(self, number: int) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self._draining.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@pytest.fixture
def collector(tmp_path: Path, configured, ledger_url: str) -> Iterator[Callable[..., Collector]]:
    """Start a process that forwards to an endpoint; what still runs at the end is killed."""
    started: list[Collector] = []

    def start(endpoint: str, queue: str = "") -> Collector:
        config = tmp_path / "turnavoid.yaml"
        config.write_text(configured(endpoint, queue))
        started.append(Collector(config, ledger_url))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.end(signal.SIGKILL)


def send_until_gone(url: str, bodies: list[bytes], acknowledged: list[bytes]) -> None:
    with httpx.Client(timeout=60) as client:
        for body in bodies:
            try:
                response = client.post(f"{url}/v1/traces", content=body, headers=PROTOBUF)
            except httpx.TransportError:
                return
            if response.status_code == 200:
                acknowledged.append(body)


def test_killed_at_any_moment_it_forwards_all_that_it_acknowledged(collector, grpc_backend, until):
    chance = random.Random(7)
    acknowledged: list[bytes] = []
    for round_ in range(ROUNDS):
        process = collector(grpc_backend.endpoint)
        senders = []
        for sender in range(SENDERS):
            bodies = [run_spans(run_id=f"{round_}-{sender}-{number}") for number in range(150)]
            senders.append(
                threading.Thread(target=send_until_gone, args=(process.url, bodies, acknowledged))
            )
        before = len(acknowledged)
        for thread in senders:
            thread.start()
        enough = before + chance.randrange(5, 120)
        until(lambda enough=enough: len(acknowledged) >= enough)
        process.end(signal.SIGKILL)
        for thread in senders:
            thread.join()
    collector(grpc_backend.endpoint)
    until(lambda: set(acknowledged) <= set(grpc_backend.bodies))

    assert len(acknowledged) == len(set(acknowledged))


def test_a_stop_with_a_dead_backend_is_quick_and_loses_nothing(collector, grpc_backend, until):
    grpc_backend.stop()
    first = collector(grpc_backend.endpoint)
    bodies = [other_spans(1, service=f"s{number}") for number in range(20)]
    acknowledged: list[bytes] = []
    send_until_gone(first.url, bodies, acknowledged)
    code = first.end(signal.SIGTERM)
    grpc_backend.start()
    collector(grpc_backend.endpoint)
    until(lambda: len(grpc_backend.bodies) == 20)

    assert (code, acknowledged) == (0, bodies)
    assert sorted(grpc_backend.bodies) == sorted(bodies)
    assert any("otlp/x: the backend takes no exports: UNAVAILABLE" in line for line in first.said)
    assert not any("Traceback" in line for line in first.said)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_what_waits_for_a_dead_backend_takes_no_memory(collector, grpc_backend, until):
    grpc_backend.stop()
    process = collector(grpc_backend.endpoint)
    acknowledged: list[bytes] = []
    bodies = [other_spans(1, service=f"{number}" + "x" * MIB) for number in range(120)]
    send_until_gone(process.url, bodies[:20], acknowledged)
    warm = process.resident_bytes()
    send_until_gone(process.url, bodies[20:], acknowledged)
    full = process.resident_bytes()
    grpc_backend.start()
    until(lambda: len(grpc_backend.bodies) == 120)

    assert acknowledged == bodies
    assert full - warm < 50 * MIB, "half of what waits"
