"""Looking things up in a ledger by the names that people have of them: runs, traces, verdicts.

Nothing here writes. What a run consists of is asked of the same attribution that deciding uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection, or_, select

from otel_turnavoid.judge import verdict
from otel_turnavoid.judge.across import Across
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.verdict import Decision
from otel_turnavoid.store import schema
from otel_turnavoid.store.gathering import evidence_of
from otel_turnavoid.store.paging import chunks
from otel_turnavoid.vocabulary import Outcome

_PEERS: Final = 50
"""Runs of one input that are looked at beside a run."""

_NAMES: Final = 20_000
"""Run ids that a misspelled one is compared with."""

_LARGEST_ID: Final = 2**63 - 1


class RunLine(NamedTuple):
    """One run and where it stands."""

    run: Run
    outcome: Outcome


class Record(NamedTuple):
    """One decision of the journal, with its times by the processor's clock."""

    number: int
    decision: Decision
    decided_ns: int
    contradicted_ns: int | None
    """When evidence that speaks against the verdict was first met."""


class Material(NamedTuple):
    """Everything known of one run."""

    facts: list[SpanFact]
    observations: list[Observation]
    """All that name the run, also those that do not count."""
    across: Across = Across()
    """What the spans of other runs say about it."""


def run_line(connection: Connection, run_id: str) -> RunLine | None:
    """Return a run as last assembled."""
    columns = schema.runs.c
    row = connection.execute(
        select(columns.outcome, columns.body).where(columns.run_id == run_id)
    ).one_or_none()
    return None if row is None else RunLine(_run(row.body), Outcome(row.outcome))


def run_ids_of_trace(connection: Connection, trace_id: str) -> list[str]:
    """Return the runs that have spans in a trace, or were made from it, sorted."""
    return sorted(_run_ids_of(connection, [trace_id]))


def outcomes(
    connection: Connection, run_ids: Iterable[str], trace_ids: Iterable[str]
) -> dict[Outcome, int]:
    """Return how many of these runs and of the runs of these traces stand where."""
    columns = schema.runs.c
    counted: Counter[str] = Counter()
    for chunk in chunks({*run_ids, *_run_ids_of(connection, trace_ids)}):
        counted.update(connection.scalars(select(columns.outcome).where(columns.run_id.in_(chunk))))
    return {outcome: counted[outcome] for outcome in Outcome if counted[outcome]}


def runs_with_digest(connection: Connection, digest: str) -> list[RunLine]:
    """Return runs of one input, whatever their experiment, unit and turn index, by start."""
    columns = schema.runs.c
    rows = connection.execute(
        select(columns.outcome, columns.body)
        .where(columns.pair_key.contains(digest, autoescape=True))
        .order_by(columns.start_ns, columns.run_id)
        .limit(_PEERS)
    )
    return [RunLine(_run(row.body), Outcome(row.outcome)) for row in rows]


def record(connection: Connection, number: int) -> Record | None:
    """Return one decision of the journal."""
    found = _records(connection, schema.decisions.c.id == min(number, _LARGEST_ID))
    return found[0] if found else None


def latest_pairs(connection: Connection, before: int | None, most: int) -> list[Record]:
    """Return the last ``most`` verdicts on pairs with an id below ``before``, the last first."""
    columns = schema.decisions.c
    highest = _LARGEST_ID if before is None else min(before, _LARGEST_ID)
    rows = connection.execute(
        select(columns.id, columns.body, columns.decided_ns, columns.contradicted_ns)
        .where(columns.kind == "pair", columns.id < highest)
        .order_by(columns.id.desc())
        .limit(most)
    )
    return [
        Record(row.id, verdict.decode(row.body), row.decided_ns, row.contradicted_ns)
        for row in rows
    ]


def records_about(connection: Connection, run_id: str) -> list[Record]:
    """Return every decision about a run, in the order of the journal."""
    columns = schema.decisions.c
    return _records(connection, or_(columns.first_run == run_id, columns.second_run == run_id))


def material(connection: Connection, run_id: str) -> Material:
    """Return the facts that belong to a run today, and the observations that name it."""
    return Material(*evidence_of(connection, run_id))


def some_run_ids(connection: Connection) -> list[str]:
    """Return the ids of the latest runs, to find one that was meant."""
    columns = schema.runs.c
    return list(
        connection.scalars(select(columns.run_id).order_by(columns.start_ns.desc()).limit(_NAMES))
    )


def _run_ids_of(connection: Connection, trace_ids: Iterable[str]) -> set[str]:
    spans, runs = schema.spans.c, schema.runs.c
    found: set[str] = set()
    for chunk in chunks(trace_ids):
        named = select(spans.run_id).where(spans.trace_id.in_(chunk), spans.run_id.is_not(None))
        made = select(runs.run_id).where(runs.trace_id.in_(chunk))
        found.update(connection.scalars(named.distinct()), connection.scalars(made))
    return found


def _records(connection: Connection, condition: object) -> list[Record]:
    columns = schema.decisions.c
    rows = connection.execute(
        select(columns.id, columns.body, columns.decided_ns, columns.contradicted_ns)
        .where(condition)  # type: ignore[arg-type] # a condition, whose type SQLAlchemy spells long
        .order_by(columns.id)
    )
    return [
        Record(row.id, verdict.decode(row.body), row.decided_ns, row.contradicted_ns)
        for row in rows
    ]


def _run(body: bytes) -> Run:
    return msgspec.json.decode(body, type=Run)
