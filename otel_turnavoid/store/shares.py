"""Whose part of the journal is whose to publish, where several processors share a ledger.

Every decision belongs to one share, for ever, and every share is published by at most one
process at a time, as series of its own. So the sum over all shares is the whole journal. A
process works for one share: what it decides belongs to that one. It holds it for the length of
a lease and extends that while it runs. A share that nobody works for any more is taken over by
the next process that starts; until then it is kept, published unchanged, by one that runs.

What is decided outside of any share (by ``turnavoid ingest``, or in an agent's own process)
belongs to the first.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.store import schema

FIRST: Final = 1
"""The share of what is decided outside of any."""


class Author(NamedTuple):
    """For which share a process decides, and the name under which it holds that."""

    share: int
    holder: str


class Holding(NamedTuple):
    """A share that a process holds for the length of a lease, counted from when it asked."""

    share: int
    working: bool
    """Whether the process decides for it; else it only keeps what others decided published."""
    wait_ns: int
    """How long somebody else may still be publishing it."""


class Stamp(NamedTuple):
    """When and by whom something is written into the journal."""

    at_ns: int
    """By the processor's clock."""
    author: Author | None = None
    """None outside of any share."""

    def share(self, connection: Connection) -> int:
        """Return the share that it belongs to.

        Raises:
            LedgerError: The author does not hold it any more; ``hold`` finds another.
        """
        if self.author is None:
            return FIRST
        columns = schema.shares.c
        share, holder = self.author
        if connection.scalar(select(columns.holder).where(columns.id == share)) != holder:
            raise LedgerError(
                f"share {share} of the ledger was taken over by another processor, "
                "because this one did not extend its lease in time"
            )
        return share


def hold(connection: Connection, holder: str, lease_ns: int) -> list[Holding]:
    """Extend what ``holder`` holds, find it a share to work for, and keep abandoned ones.

    Args:
        connection: In a writing transaction.
        holder: A name that no other process has.
        lease_ns: For how long the shares are held.
    """
    columns = schema.shares.c
    now_ns, place = clock(connection), this_place()
    rows = connection.execute(select(schema.shares).order_by(columns.id)).all()
    held = {row.id: row.working for row in rows if row.holder == holder}
    wait_ns = 0
    if not any(held.values()):
        free = [row for row in rows if row.holder != holder and _is_free(row, now_ns, place)]
        kept = [row for row in rows if row.holder is not None and not row.working]
        if free:
            share = free[0].id
        elif kept:
            share = kept[0].id
            wait_ns = 0 if share in held else max(kept[0].until_ns - now_ns, 0)
        else:
            share = max((row.id for row in rows), default=0) + 1
            connection.execute(
                insert(schema.shares).values(id=share, holder=None, working=False, until_ns=0)
            )
        held[share] = True
    for row in rows:
        # Not at once: a process that was only restarted takes its own share back.
        if row.id not in held and row.until_ns <= now_ns - lease_ns:
            held[row.id] = False
    for share, working in held.items():
        values = {"holder": holder, "place": place, "working": working}
        mine = update(schema.shares).where(columns.id == share)
        connection.execute(mine.values(**values, until_ns=now_ns + lease_ns))
    return [
        Holding(share, working, wait_ns if working else 0)
        for share, working in sorted(held.items())
    ]


def release(connection: Connection, holder: str) -> None:
    """Let go of everything that ``holder`` holds."""
    mine = update(schema.shares).where(schema.shares.c.holder == holder)
    connection.execute(mine.values(holder=None, working=False, until_ns=clock(connection)))


class Totals(NamedTuple):
    """What a share of the journal folds to, up to some place in it."""

    decision: int
    """Id of the last decision in it."""
    contradiction: int
    """Order of the last contradiction in it."""
    form: str
    """By which rules it was folded."""
    body: bytes


def save_totals(connection: Connection, author: Author, totals: Totals) -> None:
    """Keep what a share folds to, in place of what was kept before.

    Raises:
        LedgerError: The author does not hold the share any more.
    """
    share = Stamp(0, author).share(connection)
    connection.execute(delete(schema.totals).where(schema.totals.c.share == share))
    connection.execute(insert(schema.totals).values(share=share, **totals._asdict()))


def saved_totals(connection: Connection, share: int, form: str) -> Totals | None:
    """Return what a share folds to, as far as that was kept; None where by other rules."""
    columns = schema.totals.c
    fields = [columns[name] for name in Totals._fields]
    row = connection.execute(
        select(*fields).where(columns.share == share, columns.form == form)
    ).one_or_none()
    return None if row is None else Totals(*row)


def clock(connection: Connection) -> int:
    """Return the time by which leases run, in ns since the epoch: the database's own.

    Processes that share a SQLite file share its machine's clock, too.
    """
    if connection.dialect.name == "sqlite":
        return time.time_ns()
    microseconds = func.floor(func.extract("epoch", func.clock_timestamp()) * 1_000_000)
    return int(connection.scalar(select(microseconds)) or 0) * 1000


def this_place() -> str | None:
    """Return where this process runs, as ``machine pid start``; None where that cannot be told.

    Two processes have the same machine part only if each sees the other's pid.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pids = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - a link to no path
    except OSError:
        return None
    return f"{boot}/{pids} {os.getpid()} {_start_of(os.getpid())}"


def _is_free(row: Row[Any], now_ns: int, place: str | None) -> bool:
    """Whether nobody holds a share any more."""
    if row.until_ns <= now_ns:
        return True
    return _is_gone(row.place, place)


def _is_gone(holders: str | None, ours: str | None) -> bool:
    """Whether a process of this machine has ended; False where that cannot be told."""
    if holders is None or ours is None:
        return False
    machine, pid, start = holders.split(" ")
    return ours.split(" ")[0] == machine and _start_of(int(pid)) != start


def _start_of(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; empty where it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
