"""The processes of the demo: the processor, three agents and the observer.

Every process is a child of the demo, writes its log beside the ledger, and is ended by its own
id when the demo ends, however it ends.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple
from urllib.request import urlopen

import yaml

from otel_turnavoid.demo import shop
from otel_turnavoid.demo.figures import Figures, published
from otel_turnavoid.demo.scenario import PLAYS
from otel_turnavoid.errors import TurnAvoidError
from otel_turnavoid.store import Ledger
from otel_turnavoid.vocabulary import Arm

START_S: Final = 60.0
PLAY_S: Final = 120.0
DECIDE_S: Final = 90.0
PUBLISH_S: Final = 20.0
SCRAPE_S: Final = 20.0
STOP_S: Final = 10.0
POLL_S: Final = 0.05

LEDGER: Final = "ledger.db"
CONFIG: Final = "config.yaml"
BEFORE: Final = "before.db"


class DemoError(TurnAvoidError):
    """The demo cannot be played; says which part failed and where its log is."""


class Ports(NamedTuple):
    """Where the processor listens."""

    grpc: int
    http: int
    prometheus: int

    @classmethod
    def free(cls) -> Ports:
        """Return three ports that nobody uses at the moment."""
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in cls._fields]
            for each in sockets:
                each.bind(("localhost", 0))
            return cls(*(each.getsockname()[1] for each in sockets))


class Stage(NamedTuple):
    """A fresh folder, and where everything in it is."""

    folder: Path
    ports: Ports

    @classmethod
    def build(cls, parent: Path) -> Stage:
        """Make the next free numbered folder in ``parent``, with a shop for every run.

        Raises:
            DemoError: The folder cannot be made or written.
        """
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder = _next_folder(parent.resolve())
            stage = cls(folder, Ports.free())
            stage.shops.mkdir()
            shop.build(stage.shops / BEFORE)
            for run_id in PLAYS:
                shutil.copy(stage.shops / BEFORE, stage.shops / f"{run_id}.db")
            stage.config.write_text(yaml.safe_dump(stage._configuration()), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise DemoError(f"cannot write into {parent}: {reason.lower()}") from error
        return stage

    @property
    def shops(self) -> Path:
        """The folder of the shops."""
        return self.folder / "shops"

    @property
    def config(self) -> Path:
        """The processor's configuration."""
        return self.folder / CONFIG

    @property
    def ledger_url(self) -> str:
        """The processor's ledger."""
        return f"sqlite:///{self.folder / LEDGER}"

    @property
    def endpoint(self) -> str:
        """Where spans and observations go, over OTLP/gRPC."""
        return f"http://localhost:{self.ports.grpc}"

    @property
    def metrics_url(self) -> str:
        """Where Prometheus would scrape."""
        return f"http://localhost:{self.ports.prometheus}/metrics"

    @property
    def pages_url(self) -> str:
        """Where a browser shows what was withheld, and why."""
        return f"http://localhost:{self.ports.http}/"

    def log(self, name: str) -> Path:
        """Return the log of a process."""
        return self.folder / f"{name}.log"

    def _configuration(self) -> dict[str, object]:
        grpc, http, prometheus = (f"localhost:{port}" for port in self.ports)
        return {
            "receivers": {
                "otlp": {"protocols": {"grpc": {"endpoint": grpc}, "http": {"endpoint": http}}}
            },
            "processors": {"turnavoid": {"decision_wait": "60s", "settle": "300ms"}},
            "exporters": {"prometheus": {"endpoint": prometheus}},
            "extensions": {"ledger": {"url": self.ledger_url.replace("$", "$$")}},
        }


def _next_folder(parent: Path) -> Path:
    number = 1
    while True:
        folder = parent / str(number)
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


@contextmanager
def processor(stage: Stage) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``turnavoid collect`` for the time of the block; it is ready when the block starts.

    Raises:
        DemoError: It did not start, or did not stop as told.
    """
    arguments = ("otel_turnavoid", "collect", "--config", str(stage.config))
    with _process(stage, "processor", arguments) as process:
        deadline = time.monotonic() + START_S
        while not all(map(_answers, stage.ports)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise _failed(stage, "processor", "did not start")
            time.sleep(POLL_S)
        yield process
        process.terminate()
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise _failed(stage, "processor", "did not stop") from None
        if code:
            raise _failed(stage, "processor", f"stopped with exit code {code}")


def agents(stage: Stage) -> None:
    """Let the agents of all arms play their runs, each in a process of its own."""
    _play(
        stage,
        {
            f"agent-{arm}": (
                "otel_turnavoid.demo.agent",
                *(arm.value, str(stage.shops), stage.endpoint),
            )
            for arm in Arm
        },
    )


def observer(stage: Stage) -> None:
    """Let the observer look at every shop."""
    arguments = ("otel_turnavoid.demo.observer", str(stage.shops), stage.endpoint, *PLAYS)
    _play(stage, {"observer": arguments})


def verdicts(stage: Stage) -> Figures:
    """Return the ledger's figures as soon as everything expected is decided.

    What is decided when the wait ends is returned as it is: the demo's check names what lacks.
    """
    deadline = time.monotonic() + DECIDE_S
    with Ledger.open(stage.ledger_url, create=False) as ledger:
        while True:
            figures = Figures.read(decision for _, decision in ledger.decisions())
            if figures.complete or time.monotonic() > deadline:
                return figures
            time.sleep(POLL_S)


def published_faults(stage: Stage, figures: Figures) -> list[str]:
    """Scrape the processor; return what its metrics say otherwise than its ledger."""
    deadline = time.monotonic() + PUBLISH_S
    while True:
        found = published(_scrape(stage))
        if found == figures.turns or time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return [
        f"{name} of {arm}: published as {found[name, arm]:g}, in the ledger {value:g}"
        for (name, arm), value in figures.turns.items()
        if found[name, arm] != value
    ]


def _scrape(stage: Stage) -> str:
    try:
        with urlopen(stage.metrics_url, timeout=SCRAPE_S) as answer:  # noqa: S310 - our own http
            body: bytes = answer.read()
    except OSError as error:
        raise DemoError(f"cannot scrape {stage.metrics_url}: {error}") from error
    return body.decode()


def _play(stage: Stage, parts: dict[str, Sequence[str]]) -> None:
    deadline = time.monotonic() + PLAY_S
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(_process(stage, name, arguments))
            for name, arguments in parts.items()
        }
        for name, process in running.items():
            try:
                code = process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                raise _failed(stage, name, f"did not end within {PLAY_S:.0f} s") from None
            if code:
                raise _failed(stage, name, f"ended with exit code {code}")


@contextmanager
def _process(
    stage: Stage, name: str, arguments: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    with stage.log(name).open("wb") as log:
        process = _start(arguments, log)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _start(arguments: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603 - our own modules


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True


def _failed(stage: Stage, name: str, what: str) -> DemoError:
    log = stage.log(name)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = f": {lines[-1]}" if lines else ""
    return DemoError(f"the {name} {what}{said} (log: {log})")
