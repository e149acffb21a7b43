"""Processors that can be killed at any moment, load on them, and what should come of it."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import START_NS, observation, other_spans, run_spans, shatter

SENDERS = 4
DEADLINE_S = 60.0
SECOND_NS = 1_000_000_000
EFFECTS = ("mailed", "refunded")


class Request(NamedTuple):
    """One export."""

    path: str
    body: bytes
    repeated: bool
    """Whether its sender may send it again although it was acknowledged."""


class Unanswered(Exception):  # noqa: N818 - nothing went wrong
    """The processor went away before it answered, or told the sender to come back."""


def export(address: tuple[str, int], request: Request, timeout_s: float = DEADLINE_S) -> None:
    """Send one request; returning means that it was acknowledged."""
    connection = HTTPConnection(*address, timeout=timeout_s)
    try:
        headers = {"content-type": "application/x-protobuf"}
        connection.request("POST", request.path, request.body, headers)
        answer = connection.getresponse()
        said = answer.read()
    except (OSError, HTTPException) as error:
        raise Unanswered from error
    finally:
        connection.close()
    if answer.status in {429, 502, 503, 504}:
        raise Unanswered(answer.status)
    assert answer.status == 200, said


def requests_of(task: int, rng: random.Random) -> list[Request]:
    """Return what one task sends, split and in an order that may differ from any other's.

    Control and candidate differ by one turn; a third of the candidates lack an effect. What
    every other task sends may come twice.
    """
    start_ns = START_NS + task * 60 * SECOND_NS
    control = run_spans(run_id=f"c{task}", task=task, turns=3, start_ns=start_ns)
    candidate = run_spans(
        run_id=f"k{task}", arm="fused-batch", task=task, turns=2, start_ns=start_ns
    )
    seen_at = start_ns + 30 * SECOND_NS
    logs = [
        observation(f"c{task}", EFFECTS, observed_ns=seen_at),
        observation(f"k{task}", EFFECTS[task % 3 == 0 :], observed_ns=seen_at),
    ]
    parts = list(shatter(candidate))
    spans = [control, other_spans(5, start_ns=start_ns), *(b"".join(p) for p in thirds(parts))]
    sent = [Request("/v1/traces", body, bool(task % 2)) for body in spans]
    sent += [Request("/v1/logs", body, bool(task % 2)) for body in logs]
    rng.shuffle(sent)
    return sent


def thirds(parts: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [parts[start::3] for start in range(3)]


class Load:
    """Senders that work off requests and remember what was acknowledged."""

    def __init__(self, requests: Sequence[Request], rng: random.Random) -> None:
        self.waiting = list(requests[::-1])
        self.acknowledged: list[Request] = []
        self.unanswered = 0
        self._rng = rng
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._senders: list[threading.Thread] = []

    def start(self, *addresses: tuple[str, int]) -> None:
        """Start senders; each ends when told to, or when its processor is gone.

        Where nothing waits any more, they send again what may come twice.
        """
        self._stopped.clear()
        self._senders += [
            threading.Thread(target=self._send, args=(addresses[number % len(addresses)],))
            for number in range(SENDERS)
        ]
        for sender in self._senders[-SENDERS:]:
            sender.start()

    def stop(self) -> None:
        """Let the senders end after the request that they are at."""
        self._stopped.set()
        for sender in self._senders:
            sender.join()
        self._senders.clear()

    def finish(self, *addresses: tuple[str, int]) -> None:
        """Send all that waits, and return when it was acknowledged."""
        deadline = time.monotonic() + DEADLINE_S
        while self.waiting:
            assert time.monotonic() < deadline, f"{len(self.waiting)} requests were never taken"
            request = self.waiting.pop()
            try:
                export(addresses[len(self.waiting) % len(addresses)], request)
            except Unanswered:
                self.waiting.append(request)
            else:
                self.acknowledged.append(request)

    def _send(self, address: tuple[str, int]) -> None:
        while not self._stopped.is_set():
            with self._lock:
                again = not self.waiting or self._rng.random() < 1 / 8
                request = self._again() if again else self.waiting.pop()
            if request is None:
                return
            try:
                export(address, request)
            except Unanswered:
                with self._lock:
                    self.waiting.append(request)
                    self.unanswered += 1
                return
            with self._lock:
                self.acknowledged.append(request)

    def _again(self) -> Request | None:
        for _ in range(64):
            if self.acknowledged:
                request = self._rng.choice(self.acknowledged)
                if request.repeated:
                    return request
        return self.waiting.pop() if self.waiting else None


class Life:
    """One processor from fork to end."""

    def __init__(self, pid: int, said: queue.Queue[dict[str, Any]]) -> None:
        self.pid = pid
        self.metrics = ""
        """URL to scrape, once it is up."""
        self._said = said

    def up(self) -> tuple[str, int]:
        """Wait until it listens, and return where."""
        said = self._said.get(timeout=DEADLINE_S)
        assert "problem" not in said, said
        self.metrics = next(iter(said["metrics"]), "")
        host, _, port = said["http"].rpartition(":")
        return host, int(port)

    def up_by(self, moment: float) -> tuple[str, int] | None:
        """Return where it listens, or None where it does not by a moment (monotonic, s)."""
        try:
            said = self._said.get(timeout=max(0, moment - time.monotonic()))
        except queue.Empty:
            return None
        self._said.put(said)
        return self.up()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def end(self) -> None:
        """End it in order."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + DEADLINE_S
        while self._runs():
            assert time.monotonic() < deadline, f"{self.pid} does not end"
            threading.Event().wait(0.002)

    def _runs(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Nursery:
    """A process that forks processors; see ``nursery.py``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("nursery.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._forked: queue.Queue[int] = queue.Queue()
        self._said: defaultdict[int, queue.Queue[dict[str, Any]]] = defaultdict(queue.Queue)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        self._said[0].get(timeout=DEADLINE_S)
        self._lives: list[Life] = []

    def start(self, config: Path, ledger: str) -> Life:
        """Fork a processor; it is not up yet."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"config": str(config), "ledger": ledger}) + "\n")
        self._process.stdin.flush()
        pid = self._forked.get(timeout=DEADLINE_S)
        self._lives.append(Life(pid, self._said[pid]))
        return self._lives[-1]

    def end_all(self) -> None:
        """End everything that still runs."""
        for life in self._lives:
            life.kill()
        self._lives.clear()

    def close(self) -> None:
        self.end_all()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=DEADLINE_S)
        self._reading.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                if said.get("forked"):
                    self._forked.put(said["pid"])
                else:
                    self._said[said["pid"]].put(said)


@pytest.fixture(scope="session")
def whole_nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


class Ledgers:
    """What commands say of ledgers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def said(self, ledger: str, command: str, *options: str) -> str:
        result = CliRunner().invoke(main, [command, "--ledger", ledger, *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    def rows(self, ledger: str, command: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.said(ledger, command, "--json").splitlines()]

    def decide_finally(self, ledger: str, config: Path) -> None:
        """End every wait, as reading a recording does that holds nothing."""
        nothing = self._folder / "nothing.json"
        nothing.write_text('{"resourceSpans": []}')
        self.said(ledger, "ingest", "--config", str(config), str(nothing))

    def undisturbed(self, requests: Sequence[Request]) -> str:
        """Return a ledger of the same requests, simply read."""
        ledger = f"sqlite:///{self._folder / 'undisturbed.db'}"
        files = []
        for path in ("/v1/traces", "/v1/logs"):
            files.append(str(self._folder / f"all.{path.rpartition('/')[2]}.pb"))
            # Messages put after one another are one message with everything in it.
            bodies = {each.body: None for each in requests if each.path == path}
            Path(files[-1]).write_bytes(b"".join(bodies))
        self.said(ledger, "ingest", *files)
        return ledger


class Scene:
    """Everything that such a test needs, with one configuration and one ledger."""

    def __init__(self, nursery: Nursery, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.config = folder / "turnavoid.yaml"
        self.ledgers = Ledgers(folder)
        self._nursery = nursery

    def configure(self, text: str) -> None:
        """Use this configuration from now on."""
        self.config.write_text(text)

    def start(self) -> Life:
        """Fork a processor; it is not up yet."""
        return self._nursery.start(self.config, self.url)

    def load(self, tasks: int, rng: random.Random) -> Load:
        """Make the load of so many tasks, in an order that the generator decides."""
        requests = [request for task in range(tasks) for request in requests_of(task, rng)]
        # Near each other in time, as traffic is: a pair gets complete while others begin.
        order = sorted(range(len(requests)), key=lambda at: at + rng.uniform(0, 60))
        return Load([requests[at] for at in order], rng)

    def check(self, tasks: int, requests: Sequence[Request]) -> None:
        """Check that the ledger is what these requests make when they are simply read."""
        said, rows = self.ledgers.said, self.ledgers.rows
        self.ledgers.decide_finally(self.url, self.config)
        expected = self.ledgers.undisturbed(requests)
        assert said(self.url, "report", "--json") == said(expected, "report", "--json")
        assert rows(self.url, "runs") == rows(expected, "runs")
        pairs = rows(self.url, "pairs")
        assert pairs == rows(expected, "pairs")
        assert Counter(pair["candidate"] for pair in pairs) == {f"k{n}": 1 for n in range(tasks)}
        assert sum(pair["avoided"] for pair in pairs) == tasks - len(range(0, tasks, 3))


@pytest.fixture
def scene(whole_nursery: Nursery, either_url: str, tmp_path: Path) -> Iterator[Scene]:
    """Processors on one ledger; none outlives its test."""
    yield Scene(whole_nursery, either_url, tmp_path)
    whole_nursery.end_all()


@pytest.fixture
def send() -> Callable[..., None]:
    """Send one request, or raise ``Unanswered``."""
    return export


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Return a condition's first true value, or fail at the deadline."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            threading.Event().wait(0.05)
        return value

    return wait
