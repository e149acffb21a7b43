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
from sqlalchemy import Connection, Table, bindparam, func, inspect, select, tuple_

from otel_turnavoid.judge import verdict
from otel_turnavoid.judge.facts import Observation, SpanFact, encode, encode_evidence
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, PairDecided
from otel_turnavoid.store import announced, pruning, reading, schema, shares, twins
from otel_turnavoid.store.deciding import Deciding, Step
from otel_turnavoid.store.engine import Database
from otel_turnavoid.store.migrations import migrate
from otel_turnavoid.store.pruning import Pruned
from otel_turnavoid.store.reading import Material, Record, RunLine
from otel_turnavoid.store.shares import FIRST, Author, Holding, Stamp
from otel_turnavoid.store.statements import Insert
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
    late: int = 0
    """What was not taken, as it is from before what retention removed."""


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
            database.remove_if(_holds_no_ledger)
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

    def discard(self) -> None:
        """Close, and remove the file again if this made it and nothing was kept in it yet."""
        self._database.remove_if(_holds_nothing)

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
        if not facts and not observations:
            return Added(0, 0, 0)
        # Before the transaction, for which others wait.
        fact_rows = [_span_row(fact) for fact in facts]
        observation_rows = [_observation_row(observation) for observation in observations]
        given = len(facts) + len(observations)
        with self._database.write() as connection:
            since_ns = pruning.too_late(connection, facts, observations, arrived_ns)
            if since_ns:
                facts = [fact for fact in facts if fact.end_ns >= since_ns]
                fact_rows = [_span_row(fact) for fact in facts]
                in_time = [seen for seen in observations if seen.observed_ns >= since_ns]
                observation_rows = [_observation_row(observation) for observation in in_time]
            spans = _SPANS.take(connection, fact_rows)
            twins.remember(connection, facts)
            seen = _OBSERVATIONS.take(connection, observation_rows)
            units = {_unit(row) for row in spans.new}
            units |= {_unit(row) for readings in spans.changed for row in readings}
            units |= {("run", row["run_id"]) for row in seen.new}
            pending = ({"kind": kind, "id": name} for kind, name in sorted(units))
            _PEND(connection, [{**unit, "arrived_ns": arrived_ns} for unit in pending])
        new = len(spans.new) + len(seen.new)
        taken = len(fact_rows) + len(observation_rows)
        return Added(len(spans.new), len(seen.new), taken - new, given - taken)

    def decide(
        self,
        settings: Settings,
        *,
        now_ns: int,
        final: bool = False,
        author: Author | None = None,
    ) -> list[Decision]:
        """Assemble the runs that got new facts, judge the pairs that are due, journal both.

        Returns the decisions that this call made, in the order of the journal. ``final``
        means that nothing more will come, as at the end of recorded input: every pair of
        ended runs is decided. ``author``: for which share; the first where nobody says.
        """
        steps = self._deciding.round(settings, Stamp(now_ns, author), final=final)
        return [decision for step in steps for decision in step.decisions]

    def deciding(
        self, settings: Settings, *, now_ns: int, author: Author, max_open_runs: int
    ) -> Iterator[Step]:
        """Do the same step by step, each a transaction: yield what each decided.

        Nothing is lost where the steps are not gone to their end. Of more than
        ``max_open_runs`` without a final outcome the oldest get theirs before their time.
        """
        stamp = Stamp(now_ns, author)
        return self._deciding.round(settings, stamp, final=False, max_open_runs=max_open_runs)

    def hold(self, holder: str, *, lease_ns: int) -> list[Holding]:
        """Extend what a process holds of the journal to publish; see ``shares.hold``."""
        with self._database.write() as connection:
            return shares.hold(connection, holder, lease_ns)

    def release(self, holder: str) -> None:
        """Let go of everything that a process holds of the journal to publish."""
        with self._database.write() as connection:
            shares.release(connection, holder)

    def save_totals(self, author: Author, totals: shares.Totals) -> None:
        """Keep what a share of the journal folds to; see ``shares.save_totals``."""
        with self._database.write() as connection:
            shares.save_totals(connection, author, totals)

    def saved_totals(self, share: int, form: str) -> shares.Totals | None:
        """Return what a share folds to by these rules, as far as that was kept."""
        with self._database.read() as connection:
            return shares.saved_totals(connection, share, form)

    def begin_announcing(self, share: int) -> int:
        """Return up to which decision a share was announced; see ``announced``."""
        with self._database.write() as connection:
            return announced.begin_announcing(connection, share)

    def announce(self, share: int, decision: int) -> None:
        """Remember that everything of a share up to ``decision`` was announced."""
        with self._database.write() as connection:
            announced.announce(connection, share, decision)

    def verdicts(self, share: int, after: int, *, most: int) -> list[Record]:
        """Return the next ``most`` verdicts of a share with an id above ``after``, in order."""
        with self._database.read() as connection:
            return announced.verdicts(connection, share, after, most)

    def prune(self, before_ns: int) -> Iterator[Pruned]:
        """Remove the evidence of runs from before a moment, step by step; see ``pruning``."""
        return pruning.prune(self._database, before_ns)

    def decisions(
        self, after: int = 0, *, share: int | None = None
    ) -> Iterator[tuple[int, Decision]]:
        """Yield the journal in order, from the first decision with an id above ``after``.

        All of it, or what belongs to one ``share``.
        """
        columns = schema.decisions.c
        wanted = select(columns.id, columns.body).order_by(columns.id).limit(_PAGE)
        if share is not None:
            wanted = wanted.where(columns.share == share)
        while True:
            with self._database.read() as connection:
                page = connection.execute(wanted.where(columns.id > after)).all()
            for number, body in page:
                yield number, verdict.decode(body)
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def last_decision(self) -> int:
        """Return the id of the last decision in the journal; 0 where there is none."""
        with self._database.read() as connection:
            return connection.scalar(select(func.max(schema.decisions.c.id))) or 0

    def contradictions(
        self, after: int = 0, *, share: int | None = None
    ) -> Iterator[Contradiction]:
        """Yield the verdicts that later evidence speaks against, in the order it was met.

        From the first one with an ``order`` above ``after``; all, or those that were met by
        who decides for one ``share``, whoever made the verdict.
        """
        columns = schema.decisions.c
        wanted = select(columns.contradiction, columns.id, columns.body)
        wanted = wanted.order_by(columns.contradiction).limit(_PAGE)
        if share is not None:
            wanted = wanted.where(func.coalesce(columns.contradicted_share, FIRST) == share)
        while True:
            with self._database.read() as connection:
                page = connection.execute(wanted.where(columns.contradiction > after)).all()
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

    def latest_pairs(self, before: int | None = None, *, most: int) -> list[Record]:
        """Return the last ``most`` verdicts on pairs with an id below ``before``, last first."""
        with self._database.read() as connection:
            return reading.latest_pairs(connection, before, most)

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


def _holds_no_ledger(connection: Connection) -> bool:
    """Whether a database has no tables at all."""
    return not inspect(connection).get_table_names()


def _holds_nothing(connection: Connection) -> bool:
    """Whether a ledger has neither evidence nor decisions, and no other process works with it."""
    kept = [select(table) for table in (schema.spans, schema.observations, schema.decisions)]
    used = select(schema.shares).where(schema.shares.c.holder.is_not(None))
    return not any(connection.scalar(select(each.exists())) for each in (*kept, used))


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


class _Kind:
    """Facts or observations: what is kept once each under its identity and content."""

    def __init__(self, table: Table) -> None:
        names = [column.name for column in table.primary_key]
        self._key_of = itemgetter(*names)
        self._known = select(table).where(
            tuple_(*(table.c[name] for name in names)).in_(bindparam("keys", expanding=True))
        )
        self._add = Insert(table, lambda insert: insert.on_conflict_do_nothing())
        readings = [name for name in ("run_id", "body") if name not in names]
        self._replace = Insert(
            table,
            lambda insert: insert.on_conflict_do_update(
                index_elements=names, set_={name: insert.excluded[name] for name in readings}
            ),
        )

    def take(self, connection: Connection, rows: Iterable[dict[str, Any]]) -> _Taken:
        """Insert the rows that are not there yet, and give known ones their present reading."""
        distinct = {self._key_of(row): row for row in rows}
        if not distinct:
            return _Taken([], [])
        savepoint = connection.begin_nested()
        if self._add(connection, distinct.values()) == len(distinct):
            savepoint.commit()
            return _Taken(list(distinct.values()), [])
        # Some were known: find out which, since only what is new is worth looking at again.
        savepoint.rollback()
        known: dict[Any, dict[str, Any]] = {}
        keys = list(distinct)
        for start in range(0, len(keys), _PAGE):
            page = {"keys": keys[start : start + _PAGE]}
            for row in connection.execute(self._known, page).mappings():
                known[self._key_of(row)] = dict(row)
        new = [row for key, row in distinct.items() if key not in known]
        changed = [
            (row, known[key])
            for key, row in distinct.items()
            if key in known and row["body"] != known[key]["body"]
        ]
        self._replace(connection, [*new, *(row for row, _ in changed)])
        return _Taken(new, changed)


_SPANS = _Kind(schema.spans)
_OBSERVATIONS = _Kind(schema.observations)
_PEND = Insert(
    schema.pending,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["kind", "id"], set_={"arrived_ns": insert.excluded.arrived_ns}
    ),
)
