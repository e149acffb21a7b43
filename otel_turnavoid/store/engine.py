"""Connections to the ledger's database, and its errors in our words."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.store.turns import Turns

_BUSY_SECONDS: Final = 8.0
"""How long one process waits for another to finish its transaction: less than the ten seconds
after which senders of telemetry give up by default, so that they hear why."""

_AGAIN_SECONDS: Final = 0.01

_PLANNING: Final = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
}
"""Settings of every connection to a server. Our queries look up by key; without statistics, as in
a new ledger, the planner would rather read whole tables, which grow for ever."""

_FILE: Final = {"timeout": _BUSY_SECONDS, "cached_statements": 512}
"""Options of a connection to a SQLite file. All of ours that list values stay prepared."""

_LASTING: Final = "readonly", "disk I/O", "unable to open"
"""Troubles of a SQLite file that a connection keeps after they are over: one that was opened
while the file could not be written never will write."""

_FIRST_PAGE: Final = 4096
"""Bytes of a SQLite file without tables."""

_CONNECTION: Final = {
    "application_name": "turnavoid",
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""Options of a connection to a server, where the URL gives no others: one that is gone without
a word is noticed within half a minute."""

_WRITER_LOCK: Final = 0x7475726E61766F69
"""PostgreSQL advisory lock of a ledger's one writer; the bytes spell "turnavoi"."""

_SECRET_OPTIONS: Final = ("password", "sslpassword")
"""Options of libpq that nobody else should read."""

_DRIVERS: Final = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
"""What the front of a ledger URL may be, and the driver that it means."""


class Database:
    """One database with short read and write transactions, usable from any thread."""

    def __init__(self, url: str, *, create: bool) -> None:
        self._url = _parse(url)
        self.sqlite = self._url.get_backend_name() == "sqlite"
        # SQLAlchemy would show a file's path percent-encoded.
        self.name = url if self.sqlite else _shown(self._url)
        self._file = _File(self._url.database or "", self.name) if self.sqlite else None
        self._may_create = create
        self._turns = Turns()
        self._closed = False
        if self.sqlite:
            self._check_file(create=create)
        try:
            self._engine = _connect(self._url)
        except ImportError as error:
            raise LedgerError(
                f"{self.name}: PostgreSQL needs psycopg: pip install 'otel-turnavoid[postgresql]'"
            ) from error
        except SQLAlchemyError as error:
            raise LedgerError(f"{self.name}: {_short(error)}") from error

    def _check_file(self, *, create: bool) -> None:
        """Refuse early what SQLite would say late or unclearly."""
        path = self._url.database
        if not path or path == ":memory:":
            raise LedgerError(
                f"{self.name}: a ledger must be a file, such as sqlite:///turnavoid.db"
            )
        if self._url.query:
            raise LedgerError(f"{self.name}: a SQLite ledger takes no options after '?'")
        if not create and not Path(path).exists():
            raise LedgerError(f"{self.name}: there is no such ledger")
        if create and not Path(path).absolute().parent.is_dir():
            raise LedgerError(f"{self.name}: the folder {Path(path).parent} does not exist")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment of the ledger."""
        with self._translated(), self._connected() as connection:
            seeing = connection
            if not self.sqlite:
                seeing = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with seeing.begin():
                yield seeing

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends, or had no effect."""
        with (
            self._turns.turn(_BUSY_SECONDS) as patience_s,
            self._translated(),
            self._connected() as connection,
        ):
            patience_ms = max(round(patience_s * 1000), 1)
            if self.sqlite:
                # Beside SQLAlchemy, which would begin a transaction.
                driven: Any = connection.connection.dbapi_connection
                driven.execute(f"PRAGMA busy_timeout = {patience_ms}")
            writing = connection.execution_options(turnavoid_write=True)
            with writing.begin():
                if not self.sqlite:
                    # One writer at a time, as SQLite has it: what one transaction reads as
                    # pending, no other may change before it has removed it.
                    writing.exec_driver_sql(
                        f"SET LOCAL lock_timeout = {patience_ms};"
                        f" SELECT pg_advisory_xact_lock({_WRITER_LOCK})",
                        execution_options={"no_parameters": True},  # else it must be one statement
                    )
                yield writing

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if self._file is None:
            with self._lent() as connection:
                yield connection
            return
        if not self._may_create:
            self._file.check()
        with self._lent() as connection:
            if self._may_create:
                self._file.remember()
                self._may_create = False
            yield connection
        # Again, as what went into a file that nobody can find any more is not durable.
        self._file.check()

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        pool = self._engine.pool
        try:
            with self._engine.connect() as connection:
                yield connection
        finally:
            # What was lent while all others were closed came back to where nobody closes it.
            if pool is not self._engine.pool:
                pool.dispose()
            if self._closed:
                self._engine.dispose()

    def remove_if(self, is_empty: Callable[[Connection], bool]) -> None:
        """Close, and remove a SQLite file that this made and in which nothing was kept yet."""
        if self._file is None or self._file.existed:
            self.close()
            return
        try:
            with self.write() as connection:  # nobody else is at it
                empty = is_empty(connection)
        except LedgerError as error:
            locked = "locked" in str(error) or "busy" in str(error)
            empty = self._file.blank and not locked
        finally:
            self.close()
        if empty:
            self._file.remove()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            said = _short(error)
            if self.sqlite and any(trouble in said for trouble in _LASTING):
                self._engine.dispose()
            raise LedgerError(f"{self.name}: {said}") from error

    def close(self) -> None:
        """Close every connection, those in use when they are no more; safe twice."""
        self._closed = True
        self._engine.dispose()


class _File:
    """The file of a SQLite ledger, which a running process must not lose without noticing.

    A file that was removed or replaced would go on to take everything, until it is closed.
    """

    def __init__(self, path: str, name: str) -> None:
        self.existed: Final = Path(path).exists()
        """Whether it was there before."""
        self._path = Path(path)
        self._name = name
        self._known: tuple[int, int] | None = None

    def remember(self) -> None:
        """Take the file that is there now for the ledger."""
        self._known = self._identity()

    def check(self) -> None:
        """Refuse to go on with another file, or none.

        Raises:
            LedgerError: It is not the file that was opened.
        """
        now = self._identity()
        if now is None:
            raise LedgerError(f"{self._name}: the file was removed; put it back, or start again")
        if self._known is not None and now != self._known:
            raise LedgerError(
                f"{self._name}: the file was replaced by another; put it back, or start again"
            )
        self._known = now

    @property
    def blank(self) -> bool:
        """Whether nothing was ever committed to it but that it is a database."""
        wal = Path(f"{self._path}-wal")
        try:
            header_only = self._path.stat().st_size <= _FIRST_PAGE
            return header_only and not (wal.exists() and wal.stat().st_size)
        except OSError:
            return False

    def remove(self) -> None:
        """Remove the file with all that belongs to it."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _shown(url: URL) -> str:
    """Return a URL without passwords, which may also stand among its options."""
    return url.difference_update_query(_SECRET_OPTIONS).render_as_string(hide_password=True)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # What cannot be parsed may hold a password anywhere before the host.
        shown = url if "@" not in url else f"…@{url.rpartition('@')[2]}"
        shown = shown.partition("?")[0]
        raise LedgerError(
            f"{shown!r} is not a ledger URL; give one such as sqlite:///turnavoid.db"
        ) from error
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise LedgerError(f"{parsed.drivername} is not supported; use sqlite or postgresql+psycopg")
    return parsed.set(drivername=driver)


def _connect(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return _connect_to_server(url)
    engine = create_engine(url, connect_args=_FILE)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # We begin transactions ourselves: the driver would begin them too late to lock.
        connection.isolation_level = None
        cursor = connection.cursor()
        _use_wal(cursor)
        # FULL: a commit survives power loss too, not only the death of the process.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA temp_store=MEMORY")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("turnavoid_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Write ahead; SQLite itself does not wait where others do the same to a new file."""
    give_up_s = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:  # noqa: PERF203 - it waits anyway
            if "locked" not in str(error) or time.monotonic() > give_up_s:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _connect_to_server(url: URL) -> Engine:
    # Whatever the server's default is: a writing transaction waits for its turn first, and must
    # then see what the last one wrote.
    options = {**_CONNECTION, **url.query}
    engine = create_engine(
        url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args=options
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # What is acknowledged is on disk, also where the server's default is to be faster.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )
        for name, value in _PLANNING.items():
            connection.execute(f"SELECT set_config('{name}', '{value}', false)")
        connection.commit()

    return engine


def _short(error: Exception) -> str:
    """Return the driver's own words in one line, without the statement."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split()) or type(cause).__name__
