"""What a processor cannot keep it refuses in the protocol's words, and then goes on by itself."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from otel_turnavoid.cli.main import main
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import TurnAvoidError
from otel_turnavoid.store import Ledger, engine
from otel_turnavoid.testing import observation, run_spans

MIB = 1 << 20
CONFIG = """
receivers:
  otlp:
    protocols: {http: {endpoint: "127.0.0.1:0"}, grpc: {endpoint: "127.0.0.1:0"}}
processors: {turnavoid: {settle: 50ms}}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
"""
Trouble = Callable[[], AbstractContextManager[None]]


class Senders:
    """One sender over each protocol."""

    def __init__(self, processor: Processor) -> None:
        host, _, port = str(processor.http_endpoint).rpartition("/")[2].rpartition(":")
        self._http = host, int(port)
        self._channel = grpc.insecure_channel(str(processor.grpc_endpoint))

    def http(self, body: bytes, path: str = "/v1/traces") -> tuple[int, str | None]:
        """Return status and Retry-After."""
        connection = HTTPConnection(*self._http, timeout=60)
        connection.request("POST", path, body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.getheader("retry-after")

    def grpc(self, body: bytes) -> str:
        """Return the name of the status."""
        request = ExportTraceServiceRequest.FromString(body)
        try:
            TraceServiceStub(self._channel).Export(request, timeout=60)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    def close(self) -> None:
        self._channel.close()


class Running:
    """A processor, its senders, and what they were told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.processor = Processor(parse(CONFIG, env={}), ledger_url=url)
        self.processor.start()
        self.senders = Senders(self.processor)

    def close(self) -> None:
        self.senders.close()
        self.processor.stop()


@contextmanager
def running(url: str) -> Iterator[Running]:
    one = Running(url)
    try:
        yield one
    finally:
        one.close()


def run(name: str, task: int, arm: str = "control", turns: int = 3) -> bytes:
    return run_spans(run_id=name, task=task, arm=arm, turns=turns)


def send_pair(senders: Senders, task: int) -> None:
    assert senders.http(run(f"c{task}", task))[0] == 200
    assert senders.grpc(run(f"k{task}", task, "fused-batch", 2)) == "OK"
    for name in (f"c{task}", f"k{task}"):
        assert senders.http(observation(name), "/v1/logs")[0] == 200


def pairs(url: str) -> list[str]:
    with Ledger.open(url, create=False) as ledger:
        return sorted(
            made.candidate.run_id
            for _, made in ledger.decisions()
            if type(made).__name__ == "PairDecided"
        )


def refused_and_recovered(
    one: Running, trouble: Trouble, until: Callable[[Callable[[], Any]], Any], url: str
) -> None:
    """Send before, in and after trouble."""
    send_pair(one.senders, 1)
    until(lambda: pairs(url) == ["k1"])
    lost = run("c2", 2)

    with trouble():
        assert one.senders.http(lost) == (503, "1")
        assert one.senders.grpc(lost) == "UNAVAILABLE"
        assert one.processor.running

    # By itself, as soon as the trouble is over.
    until(lambda: one.senders.http(lost)[0] == 200)
    until(lambda: one.senders.grpc(lost) == "OK")
    send_pair(one.senders, 2)
    until(lambda: pairs(url) == ["k1", "k2"])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are waited for less long than in life."""
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 1.0)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of eight MiB."""
    import tempfile  # noqa: PLC0415 - only here

    folder = Path(tempfile.mkdtemp(prefix="turnavoid-disk-"))
    if shutil.which("mount") is None or _run("mount", "-t", "tmpfs", "-o", "size=8m", "t", folder):
        folder.rmdir()
        pytest.skip("this user may not mount a file system")
    yield folder
    assert _run("umount", folder) == 0
    folder.rmdir()


def _run(*command: str | Path) -> int:
    return subprocess.run(
        command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode


def test_a_full_disk(small_disk: Path, until: Callable[[Callable[[], Any]], Any]) -> None:
    ballast = small_disk / "ballast"
    url = f"sqlite:///{small_disk / 'ledger.db'}"

    @contextmanager
    def full() -> Iterator[None]:
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
                    file.flush()
            except OSError:
                pass
        # What is left of the files' last blocks takes a few more.
        number = 100
        while one.senders.http(run(f"filling{number}", number))[0] == 200:
            number += 1
        yield
        ballast.unlink()

    with running(url) as one:
        refused_and_recovered(one, full, until, url)
    with closing(sqlite3.connect(small_disk / "ledger.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_ledger_that_becomes_read_only(
    tmp_path: Path, until: Callable[[Callable[[], Any]], Any]
) -> None:
    files = [tmp_path / f"ledger.db{suffix}" for suffix in ("", "-wal")]
    url = f"sqlite:///{files[0]}"

    @contextmanager
    def immutable() -> Iterator[None]:
        if shutil.which("chattr") is None or _run("chattr", "+i", *files):
            pytest.skip("this file system or user cannot make a file immutable")
        try:
            yield
        finally:
            assert _run("chattr", "-i", *files) == 0

    with running(url) as one:
        refused_and_recovered(one, immutable, until, url)


def test_a_connection_made_while_the_file_was_read_only_is_not_used_again(tmp_path: Path) -> None:
    """It would never write, however long the trouble is over."""
    file = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger._database.close()  # so that the next connection is a new one
        if shutil.which("chattr") is None or _run("chattr", "+i", file):
            pytest.skip("this file system or user cannot make a file immutable")
        try:
            with pytest.raises(TurnAvoidError, match="readonly"):
                ledger.hold("me", lease_ns=1)
        finally:
            assert _run("chattr", "-i", file) == 0

        assert [holding.share for holding in ledger.hold("me", lease_ns=1)] == [1]


@pytest.mark.usefixtures("impatient")
def test_a_locked_ledger(either_url: str, until: Callable[[Callable[[], Any]], Any]) -> None:
    with running(either_url) as one:
        refused_and_recovered(one, lambda: lock(either_url), until, either_url)


@contextmanager
def lock(url: str) -> Iterator[None]:
    """Hold the lock of a ledger's one writer, as another program would."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
    else:
        import psycopg  # noqa: PLC0415 - an extra

        connection = psycopg.connect(url)
        connection.execute(f"SELECT pg_advisory_xact_lock({engine._WRITER_LOCK})")
    try:
        yield
    finally:
        connection.close()


@pytest.mark.postgresql
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_goes_away(
    mode: str, cluster: Any, postgresql_url: str, until: Callable[[Callable[[], Any]], Any]
) -> None:
    @contextmanager
    def stopped() -> Iterator[None]:
        cluster.stop(mode)
        try:
            yield
        finally:
            cluster.start()

    with running(postgresql_url) as one:
        refused_and_recovered(one, stopped, until, postgresql_url)


@pytest.mark.postgresql
def test_connections_that_the_server_ends(
    cluster: Any, postgresql_url: str, until: Callable[[Callable[[], Any]], Any]
) -> None:
    with running(postgresql_url) as one:
        send_pair(one.senders, 1)
        cluster.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'turnavoid'"
        )

        # Nobody needs to hear of it: a connection is tried before it is used.
        send_pair(one.senders, 2)
        until(lambda: pairs(postgresql_url) == ["k1", "k2"])


def test_a_file_that_was_taken_away(
    tmp_path: Path, until: Callable[[Callable[[], Any]], Any]
) -> None:
    """What goes into a file that nobody can find any more is not durable."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    @contextmanager
    def removed() -> Iterator[None]:
        files = list(tmp_path.glob("ledger.db*"))
        for file in files:
            file.rename(elsewhere / file.name)
        try:
            yield
            assert not list(tmp_path.glob("ledger.db*"))
        finally:
            for file in files:
                (elsewhere / file.name).rename(file)

    with running(url) as one:
        refused_and_recovered(one, removed, until, url)


def test_a_file_that_was_replaced_is_not_taken_for_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    Ledger.open(f"sqlite:///{tmp_path / 'other.db'}").close()
    with running(f"sqlite:///{file}") as one:
        send_pair(one.senders, 1)
        (tmp_path / "other.db").rename(file)

        assert one.senders.http(run("c2", 2)) == (503, "1")


class TestAStartThatFails:
    """It leaves nothing behind that it made."""

    def test_where_an_endpoint_is_taken(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
        with running(f"sqlite:///{tmp_path / 'other.db'}") as one:
            taken = str(one.processor.http_endpoint).rpartition("/")[2]
            config = CONFIG.replace("127.0.0.1:0", taken, 1)
            with pytest.raises(TurnAvoidError):
                Processor(parse(config, env={}), ledger_url=url).start()

        assert not list(tmp_path.glob("ledger.db*"))

    def test_and_what_was_there_before_stays(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
        Ledger.open(url).close()
        with running(f"sqlite:///{tmp_path / 'other.db'}") as one:
            taken = str(one.processor.http_endpoint).rpartition("/")[2]
            config = CONFIG.replace("127.0.0.1:0", taken, 1)
            with pytest.raises(TurnAvoidError):
                Processor(parse(config, env={}), ledger_url=url).start()

        Ledger.open(url, create=False).close()

    def test_where_the_disk_is_full(self, small_disk: Path) -> None:
        (small_disk / "ballast").write_bytes(b"\0" * (8 * MIB - 16384))

        with pytest.raises(TurnAvoidError, match=r"disk is full|disk I/O error"):
            Ledger.open(f"sqlite:///{small_disk / 'ledger.db'}")

        assert [file.name for file in small_disk.iterdir()] == ["ballast"]


@pytest.mark.postgresql
def test_a_server_that_does_not_answer_is_one_line(
    cluster: Any, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner  # noqa: PLC0415 - only here

    cluster.stop()
    try:
        result = CliRunner().invoke(main, ["runs", "--ledger", postgresql_url])
    finally:
        cluster.start()

    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "refused" in result.stderr


def test_requests_that_wait_for_a_lock_are_told_before_they_give_up(either_url: str) -> None:
    """Exporters give up after ten seconds by default; here they wait for as long as it takes."""
    assert engine._BUSY_SECONDS < 10
    with running(either_url) as one, lock(either_url):
        told: list[tuple[int, str | None]] = []
        senders = [
            threading.Thread(target=lambda n=n: told.append(one.senders.http(run(f"c{n}", n))))
            for n in range(3)
        ]
        for sender in senders[:1]:
            sender.start()
        for sender in senders[:1]:
            sender.join()

        assert told == [(503, "1")]
