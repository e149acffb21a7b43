"""The durable ledger: facts and observations in, runs and final decisions out.

What ``add`` returned for is committed: a process killed at any moment loses nothing of it.
The same fact added again changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final, NamedTuple
from typing import final as final_class

import msgspec
from sqlalchemy import Connection, Table, func, select, tuple_

from otel_turnavoid.judge import verdict
from otel_turnavoid.judge.facts import Observation, SpanFact, encode, encode_evidence
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, PairDecided
from otel_turnavoid.store import reading, schema, twins
from otel_turnavoid.store.deciding import Deciding
from otel_turnavoid.store.engine import Database, upsert
from otel_turnavoid.store.migrations import migrate
from otel_turnavoid.store.reading import Material, Record, RunLine
from otel_turnavoid.vocabulary import Outcome

DEFAULT_URL: Final = "sqlite:///turnavoid.db"
"""A file in the working directory."""

_PAGE = 500
"""Rows read or compared at once."""


class Added(NamedTuple):
    """What one ``add`` brought that was not known before."""

    facts: int
    observations: int
    duplicates: int


class Contradiction(NamedTuple):
    """One verdict that evidence which came later speaks against; it stays as it is."""

    order: int
    """The first of the ledger is 1, and so on."""
    number: int
    """Id of the decision."""
    pair: PairDecided


@final_class
class Ledger:
    """An open ledger; safe to use from any thread and beside other processes."""

    def __init__(self, database: Database, birth_ns: int) -> None:
        self._database = database
        self._deciding = Deciding(database)
        self.birth_ns: Final = birth_ns
        """When the ledger was made: the start time of every published series."""

    @classmethod
    def open(cls, url: str = DEFAULT_URL, *, create: bool = True) -> Ledger:
        """Open a ledger, bring its schema up to date, and make it if ``create``.

        Raises LedgerError, in one line, where that cannot be done.
        """
        database = Database(url, create=create)
        try:
            with database.write() as connection:
                migrate(connection, database.name, create=create)
                birth_ns = connection.scalar(select(schema.ledger.c.birth_ns))
                if birth_ns is None:
                    birth_ns = time.time_ns()
                    connection.execute(schema.ledger.insert().values(id=1, birth_ns=birth_ns))
        except BaseException:
            database.close()
            raise
        return cls(database, birth_ns)

    @property
    def name(self) -> str:
        """The URL, without a password."""
        return self._database.name

    def close(self) -> None:
        """Close the ledger; safe twice."""
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self,
        facts: Sequence[SpanFact],
        observations: Sequence[Observation] = (),
        *,
        arrived_ns: int,
    ) -> Added:
        """Commit facts and observations in one transaction.

        ``arrived_ns`` is the processor's time (ns since the epoch); deciding waits by it.
        """
        fact_rows = [_span_row(fact) for fact in facts]
        observation_rows = [_observation_row(observation) for observation in observations]
        if not fact_rows and not observation_rows:
            return Added(0, 0, 0)
        with self._database.write() as connection:
            spans = _take(connection, schema.spans, fact_rows)
            twins.remember(connection, facts)
            seen = _take(connection, schema.observations, observation_rows)
            units = {_unit(row) for row in spans.new}
            units |= {_unit(row) for readings in spans.changed for row in readings}
            units |= {("run", row["run_id"]) for row in seen.new}
            _mark_pending(connection, units, arrived_ns)
        new = len(spans.new) + len(seen.new)
        duplicates = len(fact_rows) + len(observation_rows) - new
        return Added(len(spans.new), len(seen.new), duplicates)

    def decide(self, settings: Settings, *, now_ns: int, final: bool = False) -> list[Decision]:
        """Assemble the runs that got new facts, judge the pairs that are due, journal both.

        Returns the decisions that this call made, in the order of the journal. ``final``
        means that nothing more will come, as at the end of recorded input: every pair of
        ended runs is decided.
        """
        return self._deciding.round(settings, now_ns=now_ns, final=final)

    def decisions(self, after: int = 0) -> Iterator[tuple[int, Decision]]:
        """Yield the journal in order, from the first decision with an id above ``after``."""
        columns = schema.decisions.c
        while True:
            with self._database.read() as connection:
                page = connection.execute(
                    select(columns.id, columns.body)
                    .where(columns.id > after)
                    .order_by(columns.id)
                    .limit(_PAGE)
                ).all()
            for number, body in page:
                yield number, verdict.decode(body)
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def contradictions(self, after: int = 0) -> Iterator[Contradiction]:
        """Yield the verdicts that later evidence speaks against, in the order it was met.

        From the first one with an ``order`` above ``after``.
        """
        columns = schema.decisions.c
        while True:
            with self._database.read() as connection:
                page = connection.execute(
                    select(columns.contradiction, columns.id, columns.body)
                    .where(columns.contradiction > after)
                    .order_by(columns.contradiction)
                    .limit(_PAGE)
                ).all()
            for order, number, body in page:
                decided = verdict.decode(body)
                if isinstance(decided, PairDecided):
                    yield Contradiction(order, number, decided)
            if len(page) < _PAGE:
                return
            after = page[-1].contradiction

    def contradicted(self) -> dict[int, PairDecided]:
        """Return all of those, by id of the decision."""
        found = {each.number: each.pair for each in self.contradictions()}
        return dict(sorted(found.items()))

    def runs(self, after: tuple[int, str] | None = None) -> Iterator[RunLine]:
        """Yield every run, paired or not, by start; unattributed calls as a line per trace.

        ``after``: start and id of the last run that is not wanted any more.
        """
        columns = schema.runs.c
        last = (-(2**63), "") if after is None else after
        while True:
            with self._database.read() as connection:
                page = connection.execute(
                    select(columns.start_ns, columns.run_id, columns.outcome, columns.body)
                    .where(tuple_(columns.start_ns, columns.run_id) > last)
                    .order_by(columns.start_ns, columns.run_id)
                    .limit(_PAGE)
                ).all()
            for row in page:
                yield RunLine(msgspec.json.decode(row.body, type=Run), Outcome(row.outcome))
            if len(page) < _PAGE:
                return
            last = (page[-1].start_ns, page[-1].run_id)

    def run(self, run_id: str) -> RunLine | None:
        """Return one run as last assembled; None where it was not, or not yet."""
        with self._database.read() as connection:
            return reading.run_line(connection, run_id)

    def material(self, run_id: str) -> Material:
        """Return everything known of one run: its facts today, and what names it."""
        with self._database.read() as connection:
            return reading.material(connection, run_id)

    def record(self, number: int) -> Record | None:
        """Return one decision of the journal by its id."""
        with self._database.read() as connection:
            return reading.record(connection, number)

    def records_about(self, run_id: str) -> list[Record]:
        """Return every decision about one run, in the order of the journal."""
        with self._database.read() as connection:
            return reading.records_about(connection, run_id)

    def run_ids_of_trace(self, trace_id: str) -> list[str]:
        """Return the ids of the runs that have spans in a trace, sorted."""
        with self._database.read() as connection:
            return reading.run_ids_of_trace(connection, trace_id)

    def runs_with_digest(self, digest: str) -> list[RunLine]:
        """Return some tens of runs of one input, whatever else their keys hold, by start."""
        with self._database.read() as connection:
            return reading.runs_with_digest(connection, digest)

    def some_run_ids(self) -> list[str]:
        """Return ids of the latest runs, some thousands at most: to find one that was meant."""
        with self._database.read() as connection:
            return reading.some_run_ids(connection)

    def outcomes(self, run_ids: Iterable[str], trace_ids: Iterable[str]) -> dict[Outcome, int]:
        """Return how many runs now stand where: those named, and those with spans in the traces.

        In the order of the vocabulary, without those where none stands.
        """
        with self._database.read() as connection:
            return reading.outcomes(connection, run_ids, trace_ids)

    def sizes(self) -> dict[str, int]:
        """Return how many rows each table holds, for self-telemetry."""
        with self._database.read() as connection:
            return {
                name: connection.scalar(select(func.count()).select_from(table)) or 0
                for name, table in (
                    ("spans", schema.spans),
                    ("observations", schema.observations),
                    ("runs", schema.runs),
                    ("decisions", schema.decisions),
                )
            }


def _span_row(fact: SpanFact) -> dict[str, Any]:
    body = encode(fact)
    evidence = body if fact.configured is None else encode_evidence(fact)
    run_id = fact.run_id
    if run_id is None and fact.configured is not None:
        run_id = fact.configured.run_id
    return {
        "trace_id": fact.trace_id,
        "span_id": fact.span_id,
        "content": blake2b(evidence, digest_size=16).digest(),
        "parent_id": fact.parent_id,
        "run_id": run_id,
        "body": body,
    }


def _observation_row(observation: Observation) -> dict[str, Any]:
    body = encode(observation)
    return {
        "run_id": observation.run_id,
        "observer": observation.observer,
        "content": blake2b(body, digest_size=16).digest(),
        "body": body,
    }


def _unit(row: dict[str, Any]) -> tuple[str, str]:
    """Return what must be looked at again because of a new span: its run, or its trace."""
    run_id = row["run_id"]
    return ("run", run_id) if run_id is not None else ("trace", row["trace_id"])


class _Taken(NamedTuple):
    """What an insert changed."""

    new: list[dict[str, Any]]
    changed: list[tuple[dict[str, Any], dict[str, Any]]]
    """Known evidence read under another configuration: as it is now, and as it was."""


def _take(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> _Taken:
    """Insert the rows that are not there yet, and give known ones their present reading."""
    if not rows:
        return _Taken([], [])
    names = [column.name for column in table.primary_key]
    key_of = itemgetter(*names)
    distinct = {key_of(row): row for row in rows}
    fresh = list(distinct.values())
    statement = upsert(connection, table)
    savepoint = connection.begin_nested()
    inserted = connection.execute(statement.on_conflict_do_nothing(), fresh)
    if inserted.rowcount == len(fresh):
        savepoint.commit()
        return _Taken(fresh, [])
    # Some were known: find out which, since only what is new is worth looking at again.
    savepoint.rollback()
    known: dict[Any, dict[str, Any]] = {}
    identity = tuple_(*(table.c[name] for name in names))
    keys = list(distinct)
    for start in range(0, len(keys), _PAGE):
        wanted = identity.in_(keys[start : start + _PAGE])
        for row in connection.execute(select(table).where(wanted)).mappings():
            known[key_of(row)] = dict(row)
    new = [row for key, row in distinct.items() if key not in known]
    changed = [
        (row, known[key])
        for key, row in distinct.items()
        if key in known and row["body"] != known[key]["body"]
    ]
    if new or changed:
        present = {"run_id": statement.excluded.run_id, "body": statement.excluded.body}
        connection.execute(
            statement.on_conflict_do_update(index_elements=names, set_=present),
            [*new, *(row for row, _ in changed)],
        )
    return _Taken(new, changed)


def _mark_pending(
    connection: Connection, units: Iterable[tuple[str, str]], arrived_ns: int
) -> None:
    rows = [{"kind": kind, "id": name, "arrived_ns": arrived_ns} for kind, name in sorted(units)]
    if not rows:
        return
    statement = upsert(connection, schema.pending)
    later = {"arrived_ns": statement.excluded.arrived_ns}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["kind", "id"], set_=later), rows
    )
