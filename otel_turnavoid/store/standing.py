"""Runs as stored: written as they are assembled, and read as little as deciding needs.

A key may have thousands of runs. Pairing goes by a few columns of theirs; only the bodies of
runs that stand in a pair which may be due are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, case, func, null, select

from otel_turnavoid.judge.attribution import stray_run_id
from otel_turnavoid.judge.run import Run
from otel_turnavoid.store import schema
from otel_turnavoid.store.engine import upsert
from otel_turnavoid.store.paging import chunks
from otel_turnavoid.vocabulary import Arm, Outcome

_encode_run = msgspec.json.Encoder(order="deterministic").encode
decode_run = msgspec.json.Decoder(Run).decode
"""Read back the body of a run."""

_ARMS: dict[str | None, Arm] = {arm.value: arm for arm in Arm}


class Standing(NamedTuple):
    """One run of a key: what pairing looks at, and the times that deciding goes by."""

    run_id: str
    start_ns: int
    arm: Arm | None
    """None also where it can stand in no pair."""
    variant: str | None
    arrived_ns: int
    ended_ns: int | None
    """When its end was first seen; None while it has not ended."""
    outcome: str
    """An ``Outcome``."""
    settled: bool

    @property
    def pairable(self) -> bool:
        """Whether it can stand in a pair."""
        return self.arm is not None

    @property
    def closed(self) -> bool:
        """Whether it has its final outcome and that is in no pair."""
        return self.settled and self.outcome != Outcome.PAIRED


def standings(connection: Connection, keys: Iterable[str]) -> dict[str, dict[str, Standing]]:
    """Return the runs of each key by run id."""
    columns = schema.runs.c
    fields = [columns[name] for name in Standing._fields]
    found: dict[str, dict[str, Standing]] = {key: {} for key in keys}
    for chunk in chunks(found):
        rows = select(columns.pair_key, *fields).where(columns.pair_key.in_(chunk))
        for key, run_id, start_ns, arm, *rest in connection.execute(rows).all():
            found[key][run_id] = Standing(run_id, start_ns, _ARMS.get(arm), *rest)
    return found


def stored_runs(connection: Connection, run_ids: Iterable[str]) -> dict[str, Run]:
    """Return runs as last assembled."""
    columns = schema.runs.c
    found: dict[str, Run] = {}
    for chunk in chunks(run_ids):
        stored = select(columns.run_id, columns.body).where(columns.run_id.in_(chunk))
        for row in connection.execute(stored):
            found[row.run_id] = decode_run(row.body)
    return found


def row_of(run: Run, *, trace_id: str | None, arrived_ns: int) -> dict[str, Any]:
    """Return a run as ``store_runs`` writes it; ``trace_id`` where it was made from one trace."""
    return {
        "run_id": run.run_id,
        "trace_id": trace_id,
        "pair_key": msgspec.json.encode(run.key).decode() if run.key is not None else None,
        "arm": run.arm if run.pairable else None,
        "variant": run.variant,
        "start_ns": run.start_ns,
        "arrived_ns": arrived_ns,
        "ended_ns": arrived_ns if run.ended else None,
        "outcome": _outcome(run).value,
        "settled": False,
        "body": _encode_run(run),
    }


def store_runs(connection: Connection, rows: list[dict[str, Any]], now_ns: int) -> None:
    """Write runs as now assembled, and have their keys looked at at once."""
    if not rows:
        return
    statement = upsert(connection, schema.runs)
    new, old = statement.excluded, schema.runs.c
    changed = {
        "trace_id": new.trace_id,
        # Evidence that comes too late does not make a second pair under another key.
        "pair_key": case((old.settled, old.pair_key), else_=new.pair_key),
        "arm": new.arm,
        "variant": new.variant,
        "start_ns": new.start_ns,
        "arrived_ns": case((old.arrived_ns > new.arrived_ns, old.arrived_ns), else_=new.arrived_ns),
        # The wait counts from when the end was first seen.
        "ended_ns": case(
            (new.ended_ns.is_(None), null()), else_=func.coalesce(old.ended_ns, new.ended_ns)
        ),
        "outcome": case((old.settled, old.outcome), else_=new.outcome),
        "body": new.body,
    }
    connection.execute(
        statement.on_conflict_do_update(index_elements=["run_id"], set_=changed), rows
    )
    look_again(connection, (row["pair_key"] for row in rows), now_ns)


def look_again(connection: Connection, keys: Iterable[str | None], now_ns: int) -> None:
    """Have keys looked at in the next round of looks."""
    due = upsert(connection, schema.keys)
    again = due.on_conflict_do_update(
        index_elements=["pair_key"], set_={"due_ns": due.excluded.due_ns}
    )
    known = sorted({key for key in keys if key is not None})
    if known:
        connection.execute(again, [{"pair_key": key, "due_ns": now_ns} for key in known])


def _outcome(run: Run) -> Outcome:
    """Return where a run without a pair stands."""
    if run.rejections:
        return Outcome.REJECTED
    if run.run_id == stray_run_id(run.trace_ids[0]):
        return Outcome.UNATTRIBUTED
    return Outcome.UNPAIRED if run.ended else Outcome.INCOMPLETE
