"""The file of a queue: SQLite, one transaction at a time, one process at a time.

Every function blocks; ``Queue`` calls them in a thread of its own. The file is locked while it
is open, because two processes that empty one queue would send everything twice.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from otel_turnavoid.errors import TurnAvoidError
from otel_turnavoid.forward.request import Encoding, Signal, Stored

_APPLICATION_ID: Final = 0x74617671
"""Marks a file as a queue of ours; the bytes spell "tavq"."""

_VERSION: Final = 1
_LOCK_PATIENCE_S: Final = 1.0
_SPARE_PAGES: Final = 4096
"""Free pages (of 4 KiB) that an empty queue keeps for the next flood; more go back to the disk."""

_SCHEMA: Final = """
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    signal TEXT NOT NULL,
    encoding TEXT NOT NULL,
    items INTEGER NOT NULL,
    body BLOB NOT NULL
)
"""


class QueueError(TurnAvoidError):
    """The file of a queue cannot be opened, read or written."""


class Slot(NamedTuple):
    """What memory keeps of a stored request."""

    id: int
    size: int
    """Bytes of its body."""


class QueueFile:
    """An open queue file."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make an empty one.

        Raises:
            QueueError: It cannot be opened, is no queue, is damaged, or another process has it.
        """
        self.path = path
        self._flushing = True
        with self._translated():
            _make_private(path)
            self._connection = sqlite3.connect(
                path, timeout=_LOCK_PATIENCE_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("PRAGMA synchronous=FULL")
        run("PRAGMA auto_vacuum=INCREMENTAL")  # heeded only while the file is empty
        if run("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise QueueError(f"{self.path}: the file system cannot hold a queue (no WAL)")
        run("BEGIN EXCLUSIVE")
        identity = (
            run("PRAGMA application_id").fetchone()[0],
            run("PRAGMA user_version").fetchone()[0],
        )
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty:
            run(f"PRAGMA application_id={_APPLICATION_ID}")
            run(f"PRAGMA user_version={_VERSION}")
            run(_SCHEMA)
        elif identity != (_APPLICATION_ID, _VERSION):
            run("ROLLBACK")
            raise QueueError(f"{self.path}: is a database, but no queue of this version")
        run("COMMIT")

    def slots(self) -> list[Slot]:
        """Return what is stored, oldest first.

        Raises:
            QueueError: The file cannot be read.
        """
        with self._translated():
            rows = self._connection.execute("SELECT id, length(body) FROM requests ORDER BY id")
            return [Slot(*row) for row in rows]

    def write(self, added: Sequence[Stored], removed: Sequence[int]) -> None:
        """Add and remove in one transaction.

        What is added is on the disk at the return, safe from power loss. Removals alone are
        safe from the death of the process only: a removal that power loss undoes is sent again.

        Raises:
            QueueError: Nothing was written.
        """
        with self._translated():
            run = self._connection.execute
            if bool(added) is not self._flushing:
                self._flushing = bool(added)
                run(f"PRAGMA synchronous={'FULL' if added else 'NORMAL'}")
            run("BEGIN IMMEDIATE")
            try:
                if removed:
                    self._connection.executemany(
                        "DELETE FROM requests WHERE id = ?", ((each,) for each in removed)
                    )
                if added:
                    self._connection.executemany(
                        "INSERT INTO requests VALUES (?, ?, ?, ?, ?)",
                        (
                            (each.id, each.signal.value, each.encoding.value, each.items, each.body)
                            for each in added
                        ),
                    )
                run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise

    def give_back_space(self) -> None:
        """Return the free pages of an emptied queue to the disk, where they are many.

        Raises:
            QueueError: The file cannot be written.
        """
        with self._translated():
            run = self._connection.execute
            if run("PRAGMA freelist_count").fetchone()[0] > _SPARE_PAGES:
                # As a script: `execute` would stop at the first page that is freed.
                self._connection.executescript("PRAGMA incremental_vacuum")
                run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def read(self, number: int) -> Stored:
        """Return a stored request.

        Raises:
            QueueError: It cannot be read, or is not there.
        """
        with self._translated():
            row = self._connection.execute(
                "SELECT id, signal, encoding, items, body FROM requests WHERE id = ?", (number,)
            ).fetchone()
        if row is None:
            raise QueueError(f"{self.path}: request {number} is missing")
        return Stored(row[0], Signal(row[1]), Encoding(row[2]), row[3], row[4])

    def close(self) -> None:
        """Close the file and let others open it; safe twice."""
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise QueueError(f"{self.path}: {_words(error)}") from error
        except OSError as error:
            raise QueueError(f"{self.path}: {(error.strerror or str(error)).lower()}") from error


def _make_private(path: Path) -> None:
    """Make a file that only its owner can read, as spans may carry content; leave an old one."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _words(error: sqlite3.DatabaseError) -> str:
    said = " ".join(str(error).split())
    if "locked" in said:
        return "another processor or exporter uses this queue"
    if "not a database" in said or "malformed" in said:
        return f"is damaged or no queue ({said}); move it away to start with an empty one"
    return said
