"""Tables of the ledger.

Facts and observations are kept once each under their identity and the hash of their content;
decisions are an append-only journal. Everything in between (runs, keys, what waits to be
looked at) can be made again from those.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    text,
)

metadata = MetaData()

# SQLite numbers rows by itself only under the exact type INTEGER.
_Id = BigInteger().with_variant(Integer, "sqlite")


def _text(length: int | None = None) -> String:
    """Return a type of text that sorts by its bytes, whatever a server's locale is."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def _where(condition: str) -> dict[str, Any]:
    """Return the options of an index on part of a table."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


ledger = Table(
    "turnavoid_ledger",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("birth_ns", BigInteger, nullable=False),
    Column("pruned_ns", BigInteger, nullable=False, server_default="0"),
)
"""One row. ``birth_ns``: when the ledger was made, the start time of every published series.
``pruned_ns``: evidence from before it (by its sender's clock) was removed, and is not taken."""

shares = Table(
    "turnavoid_shares",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", _text()),
    Column("place", _text()),
    Column("working", Boolean, nullable=False),
    Column("until_ns", BigInteger, nullable=False),
)
"""Parts of the journal that are published as series of their own: who holds which, until when.

``holder``: the process that publishes it, NULL where nobody does; ``place``: where that runs;
``working``: whether it also decides for this share. Times are the database's (``shares.clock``).
"""

totals = Table(
    "turnavoid_totals",
    metadata,
    Column("share", Integer, primary_key=True, autoincrement=False),
    Column("decision", BigInteger, nullable=False),
    Column("contradiction", Integer, nullable=False),
    Column("form", _text(), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""What a share of the journal folds to up to some decision and contradiction, so that a start
need not fold all of it; ``form``: by which rules. May be removed at any time."""

announced = Table(
    "turnavoid_announced",
    metadata,
    Column("share", Integer, primary_key=True, autoincrement=False),
    Column("decision", BigInteger, nullable=False),
)
"""Up to which decision of a share its verdicts were handed to the exporters of spans and logs."""

migrations = Table(
    "turnavoid_migrations",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("name", _text(), nullable=False),
)
"""Which migrations were applied; each is recorded in the transaction that applied it."""

spans = Table(
    "turnavoid_spans",
    metadata,
    Column("trace_id", _text(32), primary_key=True),
    Column("span_id", _text(16), primary_key=True),
    Column("content", LargeBinary(16), primary_key=True),
    Column("parent_id", _text(16)),
    Column("run_id", _text()),
    Column("body", LargeBinary, nullable=False),
    Index("turnavoid_spans_run", "run_id", **_where("run_id IS NOT NULL")),
    Index("turnavoid_spans_unclaimed", "trace_id", **_where("run_id IS NULL")),
)
"""Span facts. More than one content under one span id is conflicting evidence.

In SQLite rows lie in the order of arrival: kept in the order of ids, as without a rowid, adding
takes almost twice as long.
"""

twins = Table(
    "turnavoid_twins",
    metadata,
    Column("identity", _text(), primary_key=True),
    Column("start_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("trace_id", _text(32), primary_key=True),
    Column("span_id", _text(16), primary_key=True),
    Column("end_ns", BigInteger, nullable=False),
    Column("scope", _text(), nullable=False),
    sqlite_with_rowid=False,
)
"""By what copies of a call can be found in other traces (``judge.twins``); times as sent."""

observations = Table(
    "turnavoid_observations",
    metadata,
    Column("run_id", _text(), primary_key=True),
    Column("observer", _text(), primary_key=True),
    Column("content", LargeBinary(16), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
"""What observers said."""

pending = Table(
    "turnavoid_pending",
    metadata,
    Column("kind", _text(5), primary_key=True),
    Column("id", _text(), primary_key=True),
    Column("arrived_ns", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Runs (kind ``run``) and traces with unclaimed spans (``trace``) that got new facts."""

runs = Table(
    "turnavoid_runs",
    metadata,
    Column("run_id", _text(), primary_key=True),
    Column("trace_id", _text(32)),
    Column("pair_key", _text()),
    Column("arm", _text()),
    Column("variant", _text()),
    Column("start_ns", BigInteger, nullable=False),
    Column("arrived_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    Column("outcome", _text(), nullable=False),
    Column("settled", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("turnavoid_runs_key", "pair_key"),
    Index("turnavoid_runs_start", "start_ns", "run_id"),
    Index("turnavoid_runs_trace", "trace_id"),
    Index("turnavoid_runs_standing", "settled", "outcome", "arrived_ns", "run_id"),
)
"""Runs as last assembled. ``trace_id`` only where the run was made from one trace, ``arm`` only
where it can stand in a pair: pairing reads no bodies.

``arrived_ns`` and ``ended_ns``: when its last new fact and the end of its Invoke arrived, by
the processor's clock. ``settled``: the outcome is final.
"""

keys = Table(
    "turnavoid_keys",
    metadata,
    Column("pair_key", _text(), primary_key=True),
    Column("due_ns", BigInteger),
    Index("turnavoid_keys_due", "due_ns"),
)
"""When the runs of a key are to be looked at next; NULL: when something arrives."""

decisions = Table(
    "turnavoid_decisions",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("reference", _text(), nullable=False, unique=True),
    Column("kind", _text(4), nullable=False),
    Column("pair_key", _text()),
    Column("first_run", _text(), nullable=False),
    Column("second_run", _text()),
    Column("decided_ns", BigInteger, nullable=False),
    Column("contradicted_ns", BigInteger),
    Column("contradiction", Integer),
    Column("body", LargeBinary, nullable=False),
    Column("share", Integer, nullable=False, server_default="1"),
    Column("contradicted_share", Integer),
    Index("turnavoid_decisions_key", "pair_key"),
    Index("turnavoid_decisions_first", "first_run"),
    Index("turnavoid_decisions_second", "second_run"),
    Index(
        "turnavoid_decisions_contradicted",
        "contradiction",
        unique=True,
        **_where("contradiction IS NOT NULL"),
    ),
    Index("turnavoid_decisions_share", "share", "id"),
    sqlite_autoincrement=True,
)
"""The journal of final decisions. Only where evidence came later that speaks against one, it is
told when and, in ``contradiction``, as which of all such decisions, counted from 1. ``share`` and
``contradicted_share``: to which of ``shares`` either belongs; 1 where no processor decided."""
