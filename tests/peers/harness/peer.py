"""One real program: on free ports, in a folder of its own, ended by its process id."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / ".peers" / "bin"
DEADLINE_S = 120.0


def until(
    condition: Callable[[], Any], what: str | Callable[[], str], *, peers: Sequence[Peer] = ()
) -> Any:
    """Return a condition's first true value, or fail at the deadline or when a peer has ended."""
    deadline = time.monotonic() + DEADLINE_S
    tick = threading.Event()
    while not (value := condition()):
        ended = [peer.name for peer in peers if not peer.running]
        if ended or time.monotonic() > deadline:
            wanted = what if isinstance(what, str) else what()
            said = "".join(f"\n{peer.name} said:\n{peer.said()}" for peer in peers)
            pytest.fail(f"waited in vain for {wanted}; ended: {ended or 'none'}{said}")
        tick.wait(0.1)
    return value


@dataclass
class Peer:
    """One program: started, killed and started again with the same arguments."""

    name: str
    command: list[str]
    folder: Path
    """Where it runs, and where its log is."""
    environment: Mapping[str, str]
    ports: Sequence[int]
    """It is ready when it listens on all of these."""
    ready: str = ""
    """URL that says so too, with a status of 200."""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> Peer:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**_plain_environment(), **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._is_ready, f"{self.name} to listen", peers=[self])
        return self

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int | None:
        """End it in order and return its exit code."""
        if self._process is None:
            return None
        self._process.terminate()
        try:
            return self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop\n{self.said()}") from None

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        """The last lines of its log."""
        log = self.folder / f"{self.name}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-30:])

    def _is_ready(self) -> bool:
        if not all(map(_listens, self.ports)):
            return False
        try:
            return not self.ready or httpx.get(self.ready, timeout=60).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


def _plain_environment() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("OTEL_", "TURNAVOID"))
    }


class Peers:
    """Starts programs; ends at the end what still runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Peer] = []
        # Below the ports that the system gives to outgoing connections.
        self._ports = iter(random.sample(range(20_000, 30_000), 10_000))

    def port(self) -> int:
        return next(port for port in self._ports if _free(port))

    def program(self, name: str) -> str:
        """Path of a built program; its absence is a failure: whoever runs this wants it."""
        path = PROGRAMS / name
        if not path.is_file():
            pytest.fail(f"{path.relative_to(ROOT)} is missing; `make peers` builds it")
        return str(path)

    def start(self, peer: Peer) -> Peer:
        self._started.append(peer)
        return peer.start()

    def end(self) -> None:
        for peer in reversed(self._started):
            peer.kill()


def _free(port: int) -> bool:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as tried:
            try:
                tried.bind((host, port))
            except OSError:
                return False
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True
