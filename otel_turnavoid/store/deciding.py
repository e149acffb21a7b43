"""Deciding: what is pending is assembled, what is due is judged, what is final is journalled.

The rules are the judge's; this file only finds the facts, keeps the times, and writes the
outcome down. All times are the processor's clock, never the senders'. Every step is a
transaction of its own, so a process killed in between goes on where it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)

from otel_turnavoid.judge.across import Across
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import stray_run_id, trace_of
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.judging import comparable_null, judge, judge_null
from otel_turnavoid.judge.pairing import pair
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import Decision, RunDecided
from otel_turnavoid.store import schema
from otel_turnavoid.store.engine import Database
from otel_turnavoid.store.gathering import gather, observations_of
from otel_turnavoid.store.journal import (
    DecidedPairs,
    contradict_about,
    decided_of_keys,
    first_pairs,
    mark_contradicted,
    write_down,
)
from otel_turnavoid.store.shares import Stamp
from otel_turnavoid.store.standing import (
    Standing,
    decode_run,
    look_again,
    row_of,
    say_when,
    standings,
    store_runs,
    stored_runs,
)
from otel_turnavoid.store.statements import Lookup
from otel_turnavoid.vocabulary import Evidence, Outcome

_logger = logging.getLogger(__name__)

_UNITS = 200
"""Runs and traces assembled in one transaction: adding waits no longer than that takes."""
_KEYS = 200

_FIXED = Outcome.REJECTED, Outcome.UNATTRIBUTED
"""Outcomes that no partner can change."""


_COUNTING_NS = 10 * SECOND
"""Time between two counts of all open runs."""


_pending = schema.pending.c
_NEXT = (
    select(_pending.kind, _pending.id, _pending.arrived_ns)
    .order_by(_pending.kind, _pending.id)  # as they lie: there may be a million
    .limit(_UNITS)
)
_ALSO = Lookup(
    lambda among: select(_pending.id, _pending.arrived_ns).where(
        _pending.kind == bindparam("kind"), among(_pending.id)
    )
)
_LOOKED_AT = Lookup(
    lambda among: delete(schema.pending).where(
        _pending.kind == bindparam("kind"), among(_pending.id)
    )
)
_runs = schema.runs.c
_STORED = Lookup(lambda among: select(_runs.run_id).where(among(_runs.run_id)))
_MADE_OF = Lookup(lambda among: select(_runs.run_id).where(among(_runs.trace_id)))


class Step(NamedTuple):
    """What one transaction of a round decided."""

    decisions: Sequence[Decision] = ()
    expired: int = 0
    """How many of these are runs that got their final outcome by age."""
    displaced: int = 0
    """How many got it because too many were open."""


class Deciding:
    """The rounds of deciding over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._count_again_ns = 0

    def round(
        self,
        settings: Settings,
        stamp: Stamp,
        *,
        final: bool,
        max_open_runs: int | None = None,
    ) -> Iterator[Step]:
        """Do everything that can be done now, yielding what each transaction decided.

        See ``Ledger.decide``. Whoever stops in between loses nothing: the next round goes on.
        """
        while True:
            with self._database.write() as connection:
                units = self._pending(connection)
                if units:
                    self._assemble(connection, units, settings, stamp)
            yield Step()
            if len(units) < _UNITS:
                break
        looked_at: set[str] = set()
        while True:
            with self._database.write() as connection:
                due = self._due(connection, stamp.at_ns, final=final)
                keys = [key for key in due if key not in looked_at]
                decided = _look_at(connection, keys, settings, stamp, final=final)
            yield Step(decided)
            looked_at.update(keys)
            if not keys or len(due) < _KEYS:
                break
        if not final:
            for outcome in self._with_expired(settings, stamp):
                yield from self._settle_expired(outcome, settings, stamp)
        if max_open_runs is not None:
            yield from self._settle_excess(max_open_runs, stamp)

    def _pending(self, connection: Connection) -> dict[tuple[str, str], int]:
        return {(kind, name): arrived_ns for kind, name, arrived_ns in connection.execute(_NEXT)}

    def _assemble(
        self,
        connection: Connection,
        units: dict[tuple[str, str], int],
        settings: Settings,
        stamp: Stamp,
    ) -> None:
        """Make the pending runs anew from all their facts."""
        run_ids = {name for kind, name in units if kind == "run"}
        trace_ids = {name for kind, name in units if kind == "trace"}
        # An observation may name a run that was made from a trace.
        trace_ids |= {trace_id for run_id in run_ids if (trace_id := trace_of(run_id))}
        attribution, across, whole_traces = gather(connection, run_ids, trace_ids)
        groups: dict[str, tuple[list[SpanFact], str | None]] = {}
        for run_id, members in attribution.runs.items():
            inferred = all(fact.run_id is None for fact in members)
            groups[run_id] = (members, members[0].trace_id if inferred else None)
        for trace_id, strays in attribution.strays.items():
            groups[stray_run_id(trace_id)] = (strays, trace_id)
        observed = observations_of(connection, groups)
        units = units | _also_pending(connection, groups, whole_traces)
        made: dict[str, Run] = {}
        rows: list[dict[str, Any]] = []
        for run_id, (members, made_of) in sorted(groups.items()):
            try:
                found = across.get(run_id, Across())
                run = assemble(run_id, members, observed.get(run_id, ()), settings, found)
            except Exception:
                # A bug of ours; it must not keep all other runs from being decided.
                _logger.exception("run %r cannot be assembled and is left out", run_id)
                continue
            made[run_id] = run
            arrived_ns = max(units.get(unit, 0) for unit in _units_of(run_id, members))
            rows.append(row_of(run, trace_id=made_of, arrived_ns=arrived_ns))
        _forget_unmade(connection, run_ids, whole_traces, groups, stamp)
        store_runs(connection, rows, stamp.at_ns)
        mark_contradicted(connection, made, settings, stamp)
        for kind in ("run", "trace"):
            _LOOKED_AT.execute(connection, (name for of, name in units if of == kind), kind=kind)

    def _due(self, connection: Connection, now_ns: int, *, final: bool) -> list[str]:
        columns = schema.keys.c
        waiting = columns.due_ns.is_not(None) if final else columns.due_ns <= now_ns
        found = select(columns.pair_key).where(waiting)
        return list(
            connection.scalars(found.order_by(columns.due_ns, columns.pair_key).limit(_KEYS))
        )

    def _with_expired(self, settings: Settings, stamp: Stamp) -> list[Outcome]:
        """Return the outcomes for which runs expired: nearly always none.

        Looking does not wait for the turn to write, which exports need more.
        """
        moments = _moments(settings, stamp.at_ns)
        with self._database.read() as connection:
            return [Outcome(found) for found in connection.scalars(_WITH_EXPIRED, moments)]

    def _settle_expired(self, outcome: Outcome, settings: Settings, stamp: Stamp) -> Iterator[Step]:
        """Give runs that nothing more will happen to their final outcome, oldest first."""
        moments = _moments(settings, stamp.at_ns)
        while True:
            with self._database.write() as connection:
                found = _oldest_open(connection, outcome, _UNITS, moments)
                made = _settle(connection, found, stamp)
            yield Step(made, expired=len(made))
            if len(found) < _UNITS:
                return

    def _settle_excess(self, most: int, stamp: Stamp) -> Iterator[Step]:
        """Give the oldest runs their final outcome where more than ``most`` have none yet."""
        if stamp.at_ns < self._count_again_ns:
            return
        self._count_again_ns = stamp.at_ns + _COUNTING_NS
        columns = schema.runs.c
        with self._database.read() as connection:
            still_open = select(func.count()).where(columns.settled.is_(False))
            excess = (connection.scalar(still_open) or 0) - most
        while excess > 0:
            with self._database.write() as connection:
                oldest = [
                    row
                    for outcome in Outcome
                    for row in _oldest_open(connection, outcome, min(_UNITS, excess))
                ]
                oldest.sort(key=lambda row: (row.arrived_ns, row.run_id))
                found = oldest[: min(_UNITS, excess)]
                made = _settle(connection, found, stamp)
            yield Step(made, displaced=len(made))
            if not found:
                return
            excess -= len(found)


def _oldest_open(
    connection: Connection, outcome: Outcome, most: int, moments: Mapping[str, int] | None = None
) -> Sequence[Any]:
    """Return runs that stand here without a final outcome, by what arrived last for each.

    With ``moments`` only those that are to get it.
    """
    wanted = select(_runs.arrived_ns, _runs.run_id, _runs.pair_key, _runs.outcome, _runs.body)
    wanted = wanted.where(_stands_open(outcome))
    if moments is not None:
        wanted = wanted.where(_expired(outcome))
    oldest = wanted.order_by(_runs.arrived_ns, _runs.run_id).limit(most)
    return connection.execute(oldest, moments or {}).all()


def _stands_open(outcome: Outcome) -> ColumnElement[bool]:
    """Return which runs stand here without a final outcome."""
    return _runs.settled.is_(False) & (_runs.outcome == outcome.value)


def _expired(outcome: Outcome) -> ColumnElement[bool]:
    """Return which of the runs that stand here without a pair are to get their final outcome."""
    if outcome in _FIXED:
        return _runs.arrived_ns <= bindparam("waited_ns", type_=BigInteger)
    # A run may stand in a pair that waits for evidence; that is decided in one wait more.
    key = schema.keys.c
    waiting = select(key.pair_key).where(key.pair_key == _runs.pair_key, key.due_ns.is_not(None))
    return (_runs.arrived_ns <= bindparam("last_ns", type_=BigInteger)) & or_(
        _runs.pair_key.is_(None),
        ~waiting.exists(),
        _runs.arrived_ns <= bindparam("waited_last_ns", type_=BigInteger),
    )


def _moments(settings: Settings, now_ns: int) -> dict[str, int]:
    """Return the times that ``_expired`` compares with."""
    last_ns = now_ns - settings.run_expiry_ns
    return {
        "waited_ns": now_ns - settings.decision_wait_ns,
        "last_ns": last_ns,
        "waited_last_ns": last_ns - settings.decision_wait_ns,
    }


_WITH_EXPIRED = union_all(
    *(
        select(literal(outcome.value)).where(
            select(_runs.run_id).where(_stands_open(outcome), _expired(outcome)).exists()
        )
        for outcome in Outcome
    )
)
"""The outcomes for which runs expired, asked for all at once."""


def _settle(connection: Connection, found: Sequence[Any], stamp: Stamp) -> list[Decision]:
    expiring = [RunDecided(run=decode_run(row.body), outcome=Outcome(row.outcome)) for row in found]
    made = write_down(connection, [(one, None) for one in expiring], stamp)
    # Also those whose outcome was journalled before they were forgotten and remade.
    these = schema.runs.c.run_id.in_([row.run_id for row in found])
    connection.execute(update(schema.runs).where(these).values(settled=True))
    # Without these runs, others of their keys may find a partner.
    look_again(connection, (row.pair_key for row in found), stamp.at_ns)
    return made


def _look_at(
    connection: Connection, keys: Sequence[str], settings: Settings, stamp: Stamp, *, final: bool
) -> list[Decision]:
    """Decide the pairs of these keys that can be decided, and say when to look again."""
    runs = standings(connection, keys)
    before = decided_of_keys(connection, keys)
    looks = {key: _Look(runs[key], before[key], settings, stamp.at_ns, final=final) for key in keys}
    bodies = stored_runs(connection, (name for look in looks.values() for name in look.wanted))
    made: list[tuple[Decision, str | None]] = []
    again: list[dict[str, Any]] = []
    for key, look in looks.items():
        made += [(decision, key) for decision in look.decided(bodies)]
        again.append({"pair_key": key, "due_ns": look.next_ns})
    say_when(connection, again)
    return write_down(connection, made, stamp)


class _Look:
    """One look at the runs of one key: first at how they stand, then at those that may be due."""

    def __init__(
        self,
        runs: dict[str, Standing],
        before: DecidedPairs,
        settings: Settings,
        now_ns: int,
        *,
        final: bool,
    ) -> None:
        self.next_ns: int | None = None
        """When to look again; None: when something arrives."""
        self._runs = runs
        self._settings = settings
        self._now_ns = now_ns
        self._final = final
        last_ns = max((run.arrived_ns for run in runs.values()), default=0)
        self._quiet_ns = last_ns + settings.settle_ns
        # Where nothing more will come, a run that has not ended never will.
        open_runs = [
            run
            for run in runs.values()
            if not run.closed and (run.ended_ns is not None or not final)
        ]
        found = pair(open_runs, before.pairs, before.null)
        self._pairs = [both for both in found.candidates if self._may_be_due(both)]
        self._nulls = [both for both in found.null if self._may_be_due(both)]

    @property
    def wanted(self) -> set[str]:
        """The runs whose bodies are needed, by run id."""
        return {run.run_id for both in (*self._pairs, *self._nulls) for run in both}

    def decided(self, bodies: Mapping[str, Run]) -> list[Decision]:
        """Return the decisions that can be made."""
        made: list[Decision] = []
        for both in self._pairs:
            control, candidate = (bodies[run.run_id] for run in both)
            seen = bool(control.observations and candidate.observations)
            if self._is_due(both, (control, candidate), observed=seen):
                made.append(judge(control, candidate, self._settings))
        for both in self._nulls:
            first, second = (bodies[run.run_id] for run in both)
            comparable = comparable_null(first, second, self._settings)
            if comparable and self._is_due(both, (first, second), observed=True):
                made.append(judge_null(first, second, self._settings))
        return [*made, *first_pairs(made, self._runs)]

    def _may_be_due(self, both: tuple[Standing, Standing]) -> bool:
        """Whether the runs have ended and the earliest moment for them has come."""
        ends = [run.ended_ns for run in both if run.ended_ns is not None]
        if len(ends) < len(both):
            return False
        waited_ns = max(ends) + self._settings.decision_wait_ns
        return self._has_come(min(self._quiet_ns, waited_ns))

    def _is_due(
        self, both: tuple[Standing, Standing], runs: tuple[Run, Run], *, observed: bool
    ) -> bool:
        """Whether two runs are decided now: with all evidence, once their key is quiet.

        Else when the wait is over.
        """
        ends = [_end_seen_ns(stood, run) for stood, run in zip(both, runs, strict=True)]
        waited_ns = max(ends) + self._settings.decision_wait_ns
        evidence = observed and all(run.whole for run in runs)
        return self._has_come(min(self._quiet_ns, waited_ns) if evidence else waited_ns)

    def _has_come(self, when_ns: int) -> bool:
        if self._final or when_ns <= self._now_ns:
            return True
        self.next_ns = when_ns if self.next_ns is None else min(self.next_ns, when_ns)
        return False


def _end_seen_ns(stood: Standing, run: Run) -> int:
    """Return when a run's end was seen, from which its pair waits for what is missing."""
    # Only silence shows that a run which declares nothing is over.
    declared = run.evidence is Evidence.DECLARED and stood.ended_ns is not None
    return stood.ended_ns if declared and stood.ended_ns is not None else stood.arrived_ns


def _forget_unmade(
    connection: Connection,
    run_ids: Iterable[str],
    trace_ids: Iterable[str],
    groups: Iterable[str],
    stamp: Stamp,
) -> None:
    """Forget runs that have no facts any more.

    They were made from part of a trace that is now whole, or under a configuration that gave
    their spans another run. A verdict on such a run was on part of one: it is contradicted.
    """
    stored = {*_STORED.scalars(connection, run_ids), *_MADE_OF.scalars(connection, trace_ids)}
    for run_id in sorted(stored - set(groups)):
        connection.execute(delete(schema.runs).where(schema.runs.c.run_id == run_id))
        contradict_about(connection, run_id, stamp)


def _also_pending(
    connection: Connection, run_ids: Iterable[str], trace_ids: Iterable[str]
) -> dict[tuple[str, str], int]:
    """Return what else is pending among runs and traces of which all facts were read."""
    found: dict[tuple[str, str], int] = {}
    for kind, names in (("run", run_ids), ("trace", trace_ids)):
        for name, arrived_ns in _ALSO.rows(connection, names, kind=kind):
            found[kind, name] = arrived_ns
    return found


def _units_of(run_id: str, members: Iterable[SpanFact]) -> set[tuple[str, str]]:
    """Return the units under which new facts of a run are pending."""
    unclaimed = {("trace", fact.trace_id) for fact in members if fact.run_id is None}
    return {("run", run_id), *unclaimed}
