"""Fixtures shared by all rooms."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("thorough", max_examples=2000)
"""Twenty times the usual cases: ``pytest --hypothesis-profile thorough``."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for what it starts in the background, and so would every process that a
    # test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).parents[2] / "shared"

SERVER_FOLDERS = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"
"""Where distributions keep the programs of a PostgreSQL server, beside the search path."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded spans and conformance data beside the checkout.

    It exists on developers' machines and on CI, where its absence is a failure; elsewhere
    the tests that need it are skipped.
    """
    if SHARED.is_dir():
        return SHARED
    if os.environ.get("CI"):
        pytest.fail(f"the shared data folder is missing: {SHARED}")
    pytest.skip("needs ../shared, which only developers and CI have")


class Cluster:
    """A PostgreSQL server of its own, in a folder of its own, on a free port of localhost."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._said = folder / "server.log"
        # The server refuses to run as root; the folder then belongs to whom it runs as.
        self._user = _unprivileged_user() if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._run("initdb", "-D", self._data, "-U", "test", "-A", "trust", "-N", "-E", "UTF8")
        with (self._data / "postgresql.conf").open("a") as options:
            # Tests kill processes, not machines: what the system has is as good as on disk.
            options.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\n"
                f"unix_socket_directories = '{folder}'\nfsync = off\nmax_connections = 200\n"
            )
        self.start()

    @property
    def url(self) -> str:
        """The URL of a ledger in its one database."""
        return f"postgresql://test@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start, and return when it takes connections."""
        self._run("pg_ctl", "-D", self._data, "-l", self._said, "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop; ``immediate`` is what a crash leaves."""
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "60", "-m", mode, "stop")

    def execute(self, *statements: str) -> None:
        """Execute statements as the superuser."""
        import psycopg  # noqa: PLC0415 - an extra

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def empty(self) -> None:
        """End every connection and remove all that is in the database."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
        )

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            group=self._user and _group_of(self._user),
            extra_groups=None if self._user is None else [],
            cwd=self._data.parent,
            stdin=subprocess.DEVNULL,
            # Not a pipe: the server inherits it, and would keep it open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            said = self._said.read_text() if self._said.exists() else "nothing"
            pytest.fail(f"{program} failed with {done.returncode}; the server said: {said}")


def _unprivileged_user() -> str:
    import pwd  # noqa: PLC0415 - not on every system

    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _group_of(user: str) -> int:
    import pwd  # noqa: PLC0415 - not on every system

    return pwd.getpwnam(user).pw_gid


def server_programs() -> Path | None:
    """Return the folder with the programs of a PostgreSQL server, if there is one."""
    for folder in SERVER_FOLDERS:
        for found in sorted(Path("/").glob(f"{folder[1:]}/initdb"), reverse=True):
            return found.parent
    onpath = shutil.which("initdb")
    return None if onpath is None else Path(onpath).resolve().parent


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server; where there is none, a failure on CI and a reason to skip elsewhere."""
    programs = server_programs()
    if programs is None or not hasattr(os, "geteuid"):
        if os.environ.get("CI"):
            pytest.fail("the programs of a PostgreSQL server are missing")
        pytest.skip("needs the programs of a PostgreSQL server (initdb, pg_ctl)")
    if not os.environ.get("CI"):
        pytest.importorskip("psycopg", reason="PostgreSQL needs psycopg")
    with tempfile.TemporaryDirectory(prefix="turnavoid-postgresql-") as folder:
        running = Cluster(programs, Path(folder))
        yield running
        running.stop("immediate")


@pytest.fixture
def postgresql_url(cluster: Cluster) -> Iterator[str]:
    """URL of an empty PostgreSQL database."""
    yield cluster.url
    cluster.empty()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def either_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a ledger that does not exist yet, in each database that can hold one."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url
