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
from otel_turnavoid.store.statements import Insert, Lookup
from otel_turnavoid.vocabulary import Arm, Outcome

_encode_run = msgspec.json.Encoder(order="deterministic").encode
decode_run = msgspec.json.Decoder(Run).decode
"""Read back the body of a run."""

_ARMS: dict[str | None, Arm] = {arm.value: arm for arm in Arm}


def _stored(insert: Any) -> Any:
    """Say what becomes of a run that is written again."""
    new, old = insert.excluded, schema.runs.c
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
    return insert.on_conflict_do_update(index_elements=["run_id"], set_=changed)


_STORE = Insert(schema.runs, _stored)
say_when = Insert(
    schema.keys,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["pair_key"], set_={"due_ns": insert.excluded.due_ns}
    ),
)
"""Write when to look at keys next: rows with ``pair_key`` and ``due_ns``."""


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


_columns = schema.runs.c
_STANDINGS = Lookup(
    lambda among: select(_columns.pair_key, *(_columns[name] for name in Standing._fields)).where(
        among(_columns.pair_key)
    )
)
_BODIES = Lookup(lambda among: select(_columns.run_id, _columns.body).where(among(_columns.run_id)))


def standings(connection: Connection, keys: Iterable[str]) -> dict[str, dict[str, Standing]]:
    """Return the runs of each key by run id."""
    found: dict[str, dict[str, Standing]] = {key: {} for key in keys}
    for key, *fields in _STANDINGS.rows(connection, found):
        stored = Standing(*fields)
        found[key][stored.run_id] = stored._replace(
            arm=_ARMS.get(stored.arm), settled=bool(stored.settled)
        )
    return found


def stored_runs(connection: Connection, run_ids: Iterable[str]) -> dict[str, Run]:
    """Return runs as last assembled."""
    return {run_id: decode_run(body) for run_id, body in _BODIES.rows(connection, run_ids)}


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
    _STORE(connection, rows)
    look_again(connection, (row["pair_key"] for row in rows), now_ns)


def look_again(connection: Connection, keys: Iterable[str | None], now_ns: int) -> None:
    """Have keys looked at in the next round of looks."""
    known = sorted({key for key in keys if key is not None})
    say_when(connection, [{"pair_key": key, "due_ns": now_ns} for key in known])


def _outcome(run: Run) -> Outcome:
    """Return where a run without a pair stands."""
    if run.rejections:
        return Outcome.REJECTED
    if run.run_id == stray_run_id(run.trace_ids[0]):
        return Outcome.UNATTRIBUTED
    return Outcome.UNPAIRED if run.ended else Outcome.INCOMPLETE
