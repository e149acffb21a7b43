"""Retention: the evidence of old runs is removed, what was decided on it stays.

Removed are runs that have their final outcome, with their facts and observations, when nothing
about them arrived any more since some moment and all their evidence is, by its senders' clocks,
older than that moment. The journal keeps every decision, each with its runs as they were judged,
so no figure changes.

What is removed must not come back as news: from then on, evidence from before that moment is not
taken any more (``too_late``), and counted instead. So nobody needs to remember what there was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, delete, select, tuple_, update

from otel_turnavoid.judge.facts import (
    Observation,
    SpanFact,
    decode_observation,
    decode_span,
)
from otel_turnavoid.judge.run import Run
from otel_turnavoid.store import schema, twins
from otel_turnavoid.store.engine import Database
from otel_turnavoid.store.paging import chunks
from otel_turnavoid.store.standing import decode_run
from otel_turnavoid.vocabulary import Outcome

_RUNS: Final = 100
"""Runs removed in one transaction."""

_OBSERVATIONS: Final = 1000
"""Observations looked at in one transaction, for such as name no run."""

MARGIN_NS: Final = 1800 * 10**9
"""Evidence younger than this is never too late: retention is longer, and clocks differ less."""


_PRUNED: Final = select(schema.ledger.c.pruned_ns)


class Pruned(NamedTuple):
    """What one transaction removed."""

    runs: int = 0
    facts: int = 0
    observations: int = 0


def too_late(
    connection: Connection,
    facts: Sequence[SpanFact],
    observations: Sequence[Observation],
    arrived_ns: int,
) -> int:
    """Return before which time (sender's clock, ns) evidence is not taken; 0 for no limit.

    The ledger is asked only where any of it is old.
    """
    times = [fact.end_ns for fact in facts] + [seen.observed_ns for seen in observations]
    oldest = min(times, default=arrived_ns)
    if oldest > arrived_ns - MARGIN_NS:
        return 0
    return connection.scalar(_PRUNED) or 0


def prune(database: Database, before_ns: int) -> Iterator[Pruned]:
    """Remove what is older, in transactions of some hundred runs; may be stopped in between.

    Args:
        database: The ledger's.
        before_ns: The moment, by the processor's clock and by the senders'.
    """
    with database.write() as connection:
        limit = schema.ledger.c.pruned_ns
        connection.execute(
            update(schema.ledger).where(limit < before_ns).values(pruned_ns=before_ns)
        )
    for outcome in Outcome:
        after: tuple[int, str] | None = (-(2**63), "")
        while after is not None:
            with database.write() as connection:
                runs, after = _old_runs(connection, outcome, before_ns, after)
                pruned = _remove(connection, runs, before_ns)
            yield pruned
    last: tuple[str, str, bytes] | None = ("", "", b"")
    while last is not None:
        with database.write() as connection:
            count, last = _remove_orphans(connection, before_ns, last)
        yield Pruned(observations=count)


def _old_runs(
    connection: Connection, outcome: Outcome, before_ns: int, after: tuple[int, str]
) -> tuple[list[Run], tuple[int, str] | None]:
    """Return the next runs of which nothing is too young to remove, and where to go on."""
    columns = schema.runs.c
    place = tuple_(columns.arrived_ns, columns.run_id)
    found = connection.execute(
        select(columns.arrived_ns, columns.run_id, columns.body)
        .where(columns.settled.is_(True), columns.outcome == outcome.value)
        .where(columns.arrived_ns < before_ns, place > after)
        .order_by(columns.arrived_ns, columns.run_id)
        .limit(_RUNS)
    ).all()
    runs = [decode_run(row.body) for row in found]
    going_on = (found[-1].arrived_ns, found[-1].run_id) if len(found) == _RUNS else None
    return [run for run in runs if run.end_ns < before_ns], going_on


def _remove(connection: Connection, runs: Sequence[Run], before_ns: int) -> Pruned:
    going = {run.run_id: run for run in runs}
    for run_id in _awaited(connection, runs):
        going.pop(run_id, None)
    facts = _facts_of(connection, going, before_ns)
    seen = _observations_of(connection, going, before_ns)
    for run_id in {*facts.kept, *seen.kept}:
        going.pop(run_id, None)
    if not going:
        return Pruned()
    spans, observations, columns = schema.spans, schema.observations, schema.runs.c
    # A run that keeps one of its facts keeps all; a trace is let go of with its last run.
    keys = [key for run_id in going for key in facts.keys[run_id]]
    keys += _unclaimed_of(connection, going, before_ns)
    for start in range(0, len(keys), _RUNS):
        page = keys[start : start + _RUNS]
        identity = tuple_(spans.c.trace_id, spans.c.span_id, spans.c.content)
        connection.execute(delete(spans).where(identity.in_([key.row for key in page])))
    twins.forget(connection, (key.fact for key in keys))
    removed = 0
    for chunk in chunks(going):
        removed += connection.execute(
            delete(observations).where(observations.c.run_id.in_(chunk))
        ).rowcount
        touched = select(columns.pair_key).where(columns.run_id.in_(chunk)).distinct()
        pair_keys = {key for key in connection.scalars(touched) if key is not None}
        connection.execute(delete(schema.runs).where(columns.run_id.in_(chunk)))
        left = select(columns.run_id).where(columns.pair_key == schema.keys.c.pair_key)
        for some in chunks(pair_keys):
            unused = schema.keys.c.pair_key.in_(some) & ~left.exists()
            connection.execute(delete(schema.keys).where(unused))
    return Pruned(len(going), len(keys), removed)


def _awaited(connection: Connection, runs: Iterable[Run]) -> set[str]:
    """Return the runs about which something has come that was not looked at yet."""
    columns = schema.pending.c
    of_trace: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for trace_id in run.trace_ids:
            of_trace[trace_id].add(run.run_id)
    found: set[str] = set()
    for kind, names in (("run", {run.run_id for run in runs}), ("trace", set(of_trace))):
        for chunk in chunks(names):
            wanted = select(columns.id).where(columns.kind == kind, columns.id.in_(chunk))
            for name in connection.scalars(wanted):
                found |= {name} if kind == "run" else of_trace[name]
    return found


class _Key(NamedTuple):
    """One stored fact."""

    row: tuple[str, str, bytes]
    fact: SpanFact


class _Found(NamedTuple):
    """What runs have, and those that keep theirs, because some of it is too young."""

    keys: dict[str, list[_Key]]
    kept: set[str]


def _facts_of(connection: Connection, run_ids: Iterable[str], before_ns: int) -> _Found:
    columns = schema.spans.c
    found = _Found(defaultdict(list), set())
    for chunk in chunks(run_ids):
        for row in connection.execute(select(schema.spans).where(columns.run_id.in_(chunk))):
            key = _key(row)
            found.keys[row.run_id].append(key)
            if key.fact.end_ns >= before_ns:
                found.kept.add(row.run_id)
    return found


def _observations_of(connection: Connection, run_ids: Iterable[str], before_ns: int) -> _Found:
    columns = schema.observations.c
    found = _Found({}, set())
    for chunk in chunks(run_ids):
        wanted = select(columns.run_id, columns.body).where(columns.run_id.in_(chunk))
        for row in connection.execute(wanted):
            if decode_observation(row.body).observed_ns >= before_ns:
                found.kept.add(row.run_id)
    return found


def _unclaimed_of(connection: Connection, going: dict[str, Run], before_ns: int) -> list[_Key]:
    """Return the facts without a run id in the traces that no other run has to do with."""
    spans, runs = schema.spans.c, schema.runs.c
    traces = {trace_id for run in going.values() for trace_id in run.trace_ids}
    found: list[_Key] = []
    for chunk in chunks(traces):
        named = select(spans.trace_id, spans.run_id).where(
            spans.trace_id.in_(chunk), spans.run_id.is_not(None)
        )
        made = select(runs.trace_id, runs.run_id).where(runs.trace_id.in_(chunk))
        others = [*connection.execute(named.distinct()), *connection.execute(made)]
        kept = {trace_id for trace_id, run_id in others if run_id not in going}
        unclaimed = and_(spans.trace_id.in_(chunk), spans.run_id.is_(None))
        keys = [_key(row) for row in connection.execute(select(schema.spans).where(unclaimed))]
        kept |= {key.row[0] for key in keys if key.fact.end_ns >= before_ns}
        found += [key for key in keys if key.row[0] not in kept]
    return found


def _key(row: Any) -> _Key:
    return _Key((row.trace_id, row.span_id, row.content), decode_span(row.body))


def _remove_orphans(
    connection: Connection, before_ns: int, after: tuple[str, str, bytes]
) -> tuple[int, tuple[str, str, bytes] | None]:
    """Remove observations of runs that never came; return how many, and where to go on."""
    columns, runs = schema.observations.c, schema.runs.c
    place = tuple_(columns.run_id, columns.observer, columns.content)
    page = connection.execute(
        select(schema.observations, runs.run_id.label("known"))
        .outerjoin(schema.runs, runs.run_id == columns.run_id)
        .where(place > after)
        .order_by(columns.run_id, columns.observer, columns.content)
        .limit(_OBSERVATIONS)
    ).all()
    old = [
        (row.run_id, row.observer, row.content)
        for row in page
        if row.known is None and decode_observation(row.body).observed_ns < before_ns
    ]
    for start in range(0, len(old), _RUNS):
        these = place.in_(old[start : start + _RUNS])
        connection.execute(delete(schema.observations).where(these))
    if len(page) < _OBSERVATIONS:
        return len(old), None
    return len(old), (page[-1].run_id, page[-1].observer, page[-1].content)
