"""Connections to the ledger's database, and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from otel_turnavoid.errors import LedgerError

_BUSY_SECONDS = 30.0
"""How long one process waits for another to finish its transaction."""

_WRITER_LOCK: Final = 0x7475726E61766F69
"""PostgreSQL advisory lock of a ledger's one writer; the bytes spell "turnavoi"."""

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
        self.name = url if self.sqlite else self._url.render_as_string(hide_password=True)
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
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends, or had no effect."""
        with self._translated(), self._engine.connect() as connection:
            writing = connection.execution_options(turnavoid_write=True)
            with writing.begin():
                if not self.sqlite:
                    # One writer at a time, as SQLite has it: what one transaction reads as
                    # pending, no other may change before it has removed it.
                    writing.exec_driver_sql(f"SET LOCAL lock_timeout = '{_BUSY_SECONDS:.0f}s'")
                    writing.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")
                yield writing

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise LedgerError(f"{self.name}: {_short(error)}") from error

    def close(self) -> None:
        """Close every connection; safe twice."""
        self._engine.dispose()


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that knows ON CONFLICT, which SQLAlchemy keeps in its dialects."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # What cannot be parsed may hold a password anywhere before the host.
        shown = url if "@" not in url else f"…@{url.rpartition('@')[2]}"
        raise LedgerError(
            f"{shown!r} is not a ledger URL; give one such as sqlite:///turnavoid.db"
        ) from error
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise LedgerError(f"{parsed.drivername} is not supported; use sqlite or postgresql+psycopg")
    return parsed.set(drivername=driver)


def _connect(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # We begin transactions ourselves: the driver would begin them too late to lock.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        # FULL: a commit survives power loss too, not only the death of the process.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA temp_store=MEMORY")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("turnavoid_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _short(error: Exception) -> str:
    """Return the driver's own words in one line, without the statement."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split()) or type(cause).__name__
