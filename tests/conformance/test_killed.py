"""Killed at any moment under load, the processor loses nothing and counts nothing twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import START_NS, observation, other_spans, run_spans, shatter

SEED = 20_260_528
KILLS = 6
TASKS = 40
SENDERS = 4
DEADLINE_S = 25.0
SECOND_NS = 1_000_000_000

CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
processors: {turnavoid: {settle: 300s, decision_wait: 600s}}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
"""
"""Nothing is decided before the end: what is decided early depends on what came early."""

DECIDING = CONFIG.replace("300s", "1ms")
"""Every kill may fall into a round of deciding, too."""

Request = tuple[str, bytes]
"""Path and body."""


class Killed(Exception):  # noqa: N818 - nothing went wrong
    """The processor went away before it answered."""


def requests_of(task: int, rng: random.Random) -> list[list[Request]]:
    """Return what one task sends, split and in an order that may differ from any other's.

    Control and candidate differ by one turn; a third of the candidates lack an effect.
    """
    effects = ("mailed", "refunded")
    start_ns = START_NS + task * 60 * SECOND_NS
    control = run_spans(run_id=f"c{task}", task=task, turns=3, start_ns=start_ns)
    candidate = run_spans(
        run_id=f"k{task}", arm="fused-batch", task=task, turns=2, start_ns=start_ns
    )
    seen_at = start_ns + 30 * SECOND_NS
    candidates = effects[task % 3 == 0 :]
    logs = [
        ("/v1/logs", observation(f"c{task}", effects, observed_ns=seen_at)),
        ("/v1/logs", observation(f"k{task}", candidates, observed_ns=seen_at)),
    ]
    spans = [("/v1/traces", control), ("/v1/traces", other_spans(20, start_ns=start_ns))]
    spans += [("/v1/traces", part) for part in shatter(candidate)]
    sent = [*spans, *logs]
    rng.shuffle(sent)
    return [sent[start : start + 3] for start in range(0, len(sent), 3)]


class Collector:
    """``turnavoid collect`` as a process of its own, on a port that it chose."""

    def __init__(self, config: Path, ledger: str) -> None:
        self._command = [
            *(sys.executable, "-m", "otel_turnavoid", "collect"),
            *("--config", str(config), "--ledger", ledger),
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        said = self._process.stderr
        assert said is not None
        line = next((line for line in said if "OTLP/HTTP at http://" in line), "")
        host, _, port = line.strip().rpartition("/")[2].rpartition(":")
        self.address = host, int(port)
        # Somebody has to read on, or the pipe fills up.
        self._reading = threading.Thread(target=read_out, args=(said,))
        self._reading.start()

    def kill(self) -> None:
        """End it at once, by SIGKILL; safe where it has ended."""
        self._process.kill()
        self._process.wait()
        self._reading.join()

    def end(self) -> int:
        """End it as an operator would, and return its exit code."""
        self._process.terminate()
        return self._process.wait(timeout=DEADLINE_S)


def read_out(stream: IO[str]) -> None:
    with stream:
        for _ in stream:
            pass


def export(address: tuple[str, int], request: Request) -> None:
    """Send one request; returning means that it was acknowledged."""
    path, body = request
    connection = HTTPConnection(*address, timeout=DEADLINE_S)
    try:
        connection.request("POST", path, body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, HTTPException) as error:
        raise Killed from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Killed


class Load:
    """Senders that work off a list of requests and remember what was acknowledged."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.waiting = list(requests[::-1])
        self.acknowledged: list[Request] = []
        self.unanswered = 0
        self._lock = threading.Lock()

    def run(self, address: tuple[str, int]) -> list[threading.Thread]:
        """Start the senders; each ends when nothing waits or the processor is gone."""
        senders = [threading.Thread(target=self._send, args=(address,)) for _ in range(SENDERS)]
        for sender in senders:
            sender.start()
        return senders

    def _send(self, address: tuple[str, int]) -> None:
        while True:
            with self._lock:
                if not self.waiting:
                    return
                request = self.waiting.pop()
            try:
                export(address, request)
            except Killed:
                with self._lock:
                    self.waiting.append(request)
                    self.unanswered += 1
                return
            with self._lock:
                self.acknowledged.append(request)


@contextmanager
def collecting(config: Path, ledger: str) -> Iterator[Collector]:
    collector = Collector(config, ledger)
    try:
        yield collector
    finally:
        collector.kill()


def said(ledger: str, command: str, *options: str) -> str:
    result = CliRunner().invoke(main, [command, "--ledger", ledger, *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(ledger: str, command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said(ledger, command, "--json").splitlines()]


def undisturbed(folder: Path, requests: Sequence[Request]) -> str:
    """Return the ledger that the same requests make when they are simply read."""
    ledger = f"sqlite:///{folder / 'undisturbed.db'}"
    files = []
    for number, (path, body) in enumerate(requests):
        files.append(str(folder / f"{number:05}.{path.rpartition('/')[2]}.pb"))
        Path(files[-1]).write_bytes(body)
    said(ledger, "ingest", *files)
    return ledger


@pytest.mark.parametrize("text", [CONFIG, DECIDING], ids=["undecided", "deciding"])
def test_killed_at_random_moments_nothing_acknowledged_is_lost_and_nothing_counts_twice(
    text: str, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    groups = [group for task in range(TASKS) for group in requests_of(task, rng)]
    rng.shuffle(groups)
    requests = [request for group in groups for request in group]
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    config = tmp_path / "turnavoid.yaml"
    config.write_text(text)

    load = Load(requests)
    with collecting(config, ledger) as collector:
        for life in range(1, KILLS + 1):
            senders = load.run(collector.address)
            goal = len(requests) * life // (KILLS + 2)
            while len(load.acknowledged) < goal and any(each.is_alive() for each in senders):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.03))
            collector.kill()
            for sender in senders:
                sender.join()
            collector.start()
            # A sender whose answer was lost cannot know better: it sends again, and more.
            load.waiting += rng.sample(load.acknowledged, len(load.acknowledged) // 8)
        for sender in load.run(collector.address):
            sender.join()
        assert load.waiting == []
        assert collector.end() == 0
    said(ledger, "ingest", "--config", str(config), str(nothing(tmp_path)))

    expected = undisturbed(tmp_path, requests)
    assert load.unanswered > 0
    assert said(ledger, "report", "--json") == said(expected, "report", "--json")
    assert rows(ledger, "runs") == rows(expected, "runs")
    pairs = rows(ledger, "pairs")
    assert pairs == rows(expected, "pairs")
    assert Counter(pair["candidate"] for pair in pairs) == {f"k{n}": 1 for n in range(TASKS)}
    assert sum(pair["avoided"] for pair in pairs) == TASKS - len(range(0, TASKS, 3))


def nothing(folder: Path) -> Path:
    """Return a recording without telemetry: reading it ends every wait."""
    file = folder / "nothing.json"
    file.write_text('{"resourceSpans": []}')
    return file
