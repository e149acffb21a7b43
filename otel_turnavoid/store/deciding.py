"""Deciding: what is pending is assembled, what is due is judged, what is final is journalled.

The rules are the judge's; this file only finds the facts, keeps the times, and writes the
outcome down. All times are the processor's clock, never the senders'. Every step is a
transaction of its own, so a process killed in between goes on where it stopped.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, case, delete, func, or_, select, tuple_, update

from otel_turnavoid.judge import verdict
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute, stray_run_id, trace_of
from otel_turnavoid.judge.facts import Observation, SpanFact, decode_observation, decode_span
from otel_turnavoid.judge.judging import comparable_null, judge, judge_null
from otel_turnavoid.judge.pairing import pair
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided, RunDecided
from otel_turnavoid.store import schema
from otel_turnavoid.store.engine import Database, upsert
from otel_turnavoid.vocabulary import Evidence, Outcome

_logger = logging.getLogger(__name__)

_UNITS = 200
"""Runs and traces assembled in one transaction: adding waits no longer than that takes."""
_KEYS = 200
_PAGE = 400
"""Values in one IN list."""

_encode_run = msgspec.json.Encoder(order="deterministic").encode
_decode_run = msgspec.json.Decoder(Run).decode


class _Row(NamedTuple):
    """One run as stored, with the times that deciding goes by."""

    run: Run
    arrived_ns: int
    ended_ns: int | None
    outcome: Outcome
    settled: bool


class _Decided(NamedTuple):
    """Run ids of the final pairs of one key."""

    pairs: list[tuple[str, str]]
    null: list[tuple[str, str]]


class Deciding:
    """The rounds of deciding over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def round(self, settings: Settings, *, now_ns: int, final: bool) -> list[Decision]:
        """Do everything that can be done now; see ``Ledger.decide``."""
        decided: list[Decision] = []
        while True:
            with self._database.write() as connection:
                units = self._pending(connection)
                if units:
                    self._assemble(connection, units, settings, now_ns)
            if len(units) < _UNITS:
                break
        looked_at: set[str] = set()
        while True:
            with self._database.write() as connection:
                due = self._due(connection, now_ns, final=final)
                keys = [key for key in due if key not in looked_at]
                decided += _look_at(connection, keys, settings, now_ns, final=final)
            looked_at.update(keys)
            if not keys:
                break
        if not final:
            decided += self._settle_expired(settings, now_ns)
        return decided

    def _pending(self, connection: Connection) -> dict[tuple[str, str], int]:
        columns = schema.pending.c
        rows = connection.execute(
            select(columns.kind, columns.id, columns.arrived_ns)
            .order_by(columns.arrived_ns, columns.kind, columns.id)
            .limit(_UNITS)
        )
        return {(row.kind, row.id): row.arrived_ns for row in rows}

    def _assemble(
        self,
        connection: Connection,
        units: dict[tuple[str, str], int],
        settings: Settings,
        now_ns: int,
    ) -> None:
        """Make the pending runs anew from all their facts."""
        run_ids = {name for kind, name in units if kind == "run"}
        trace_ids = {name for kind, name in units if kind == "trace"}
        # An observation may name a run that was made from a trace.
        trace_ids |= {trace_id for run_id in run_ids if (trace_id := trace_of(run_id))}
        facts, whole_traces = _closure(connection, run_ids, trace_ids)
        attribution = attribute(facts)
        groups: dict[str, tuple[list[SpanFact], str | None]] = {}
        for run_id, members in attribution.runs.items():
            inferred = all(fact.run_id is None for fact in members)
            groups[run_id] = (members, members[0].trace_id if inferred else None)
        for trace_id, strays in attribution.strays.items():
            groups[stray_run_id(trace_id)] = (strays, trace_id)
        observed = _observations(connection, groups)
        units = units | _also_pending(connection, groups, whole_traces)
        made: dict[str, Run] = {}
        rows: list[dict[str, Any]] = []
        for run_id, (members, made_of) in sorted(groups.items()):
            try:
                run = assemble(run_id, members, observed.get(run_id, ()), settings)
            except Exception:
                # A bug of ours; it must not keep all other runs from being decided.
                _logger.exception("run %r cannot be assembled and is left out", run_id)
                continue
            made[run_id] = run
            arrived_ns = max(units.get(unit, 0) for unit in _units_of(run_id, members))
            rows.append(_row(run, trace_id=made_of, arrived_ns=arrived_ns))
        _forget_unmade(connection, run_ids, whole_traces, groups, now_ns)
        _store_runs(connection, rows, now_ns)
        _mark_contradicted(connection, made, settings, now_ns)
        columns = schema.pending.c
        ordered = sorted(units)
        for start in range(0, len(ordered), _PAGE):
            looked_at = tuple_(columns.kind, columns.id).in_(ordered[start : start + _PAGE])
            connection.execute(delete(schema.pending).where(looked_at))

    def _due(self, connection: Connection, now_ns: int, *, final: bool) -> list[str]:
        columns = schema.keys.c
        waiting = columns.due_ns.is_not(None) if final else columns.due_ns <= now_ns
        found = select(columns.pair_key).where(waiting)
        return list(
            connection.scalars(found.order_by(columns.due_ns, columns.pair_key).limit(_KEYS))
        )

    def _settle_expired(self, settings: Settings, now_ns: int) -> list[Decision]:
        """Give runs that nothing more will happen to their final outcome."""
        columns = schema.runs.c
        fixed = [Outcome.REJECTED.value, Outcome.UNATTRIBUTED.value]
        # A run may stand in a pair that waits for evidence; that is decided in one wait more.
        waiting = select(schema.keys.c.pair_key).where(schema.keys.c.due_ns.is_not(None))
        last_ns = now_ns - settings.run_expiry_ns
        expired = (columns.arrived_ns <= last_ns) & or_(
            columns.pair_key.is_(None),
            columns.pair_key.not_in(waiting),
            columns.arrived_ns <= last_ns - settings.decision_wait_ns,
        )
        refused = columns.outcome.in_(fixed) & (
            columns.arrived_ns <= now_ns - settings.decision_wait_ns
        )
        made: list[Decision] = []
        while True:
            with self._database.write() as connection:
                found = connection.execute(
                    select(columns.run_id, columns.pair_key, columns.outcome, columns.body)
                    .where(columns.settled.is_(False), or_(expired, refused))
                    .order_by(columns.arrived_ns, columns.run_id)
                    .limit(_UNITS)
                ).all()
                expiring = [
                    RunDecided(run=_decode_run(row.body), outcome=Outcome(row.outcome))
                    for row in found
                ]
                made += _journal(connection, [(one, None) for one in expiring], now_ns)
                # Also those whose outcome was journalled before they were forgotten and remade.
                these = columns.run_id.in_([row.run_id for row in found])
                connection.execute(update(schema.runs).where(these).values(settled=True))
                # Without these runs, others of their keys may find a partner.
                _look_again(connection, (row.pair_key for row in found), now_ns)
            if len(found) < _UNITS:
                return made


def _look_at(
    connection: Connection, keys: Sequence[str], settings: Settings, now_ns: int, *, final: bool
) -> list[Decision]:
    """Decide the pairs of these keys that can be decided, and say when to look again."""
    rows = _rows_of_keys(connection, keys)
    before = _decided_of_keys(connection, keys)
    made: list[tuple[Decision, str | None]] = []
    again: list[dict[str, Any]] = []
    for key in keys:
        found, later = _decide_key(rows[key], before[key], settings, now_ns, final=final)
        made += [(decision, key) for decision in found]
        again.append({"looked_at": key, "next_ns": later})
    if again:
        columns = schema.keys.c
        look = update(schema.keys).where(columns.pair_key == bindparam("looked_at"))
        connection.execute(look.values(due_ns=bindparam("next_ns")), again)
    return _journal(connection, made, now_ns)


def _decide_key(
    rows: dict[str, _Row], before: _Decided, settings: Settings, now_ns: int, *, final: bool
) -> tuple[list[Decision], int | None]:
    """Return the decisions that can be made among the runs of one key, and when to look again."""
    # Where nothing more will come, a run that has not ended never will.
    open_runs = [
        row.run
        for row in rows.values()
        if (not row.settled or row.outcome is Outcome.PAIRED) and (row.run.ended or not final)
    ]
    pairs = pair(open_runs, before.pairs, before.null)
    quiet_ns = max((row.arrived_ns for row in rows.values()), default=0) + settings.settle_ns
    made: list[Decision] = []
    later: list[int] = []
    for control, candidate in pairs.candidates:
        both = (rows[control.run_id], rows[candidate.run_id])
        when = _when(both, quiet_ns, settings, observed=True)
        if when is not None and (final or when <= now_ns):
            made.append(judge(control, candidate, settings))
        elif when is not None:
            later.append(when)
    for first, second in pairs.null:
        both = (rows[first.run_id], rows[second.run_id])
        when = _when(both, quiet_ns, settings, observed=False)
        if when is None or not comparable_null(first, second):
            continue
        if final or when <= now_ns:
            made.append(judge_null(first, second))
        else:
            later.append(when)
    return [*made, *_first_pairs(made, rows)], min(later, default=None)


def _when(rows: Sequence[_Row], quiet_ns: int, settings: Settings, *, observed: bool) -> int | None:
    """Return when two runs can be decided: None while one of them has not ended.

    With all evidence there, as soon as their key is quiet; else when the wait is over.
    """
    ends = [_end_seen_ns(row) for row in rows]
    since = [seen_ns for seen_ns in ends if seen_ns is not None]
    if len(since) < len(ends):
        return None
    waited_ns = max(since) + settings.decision_wait_ns
    evidence = all(row.run.whole and (row.run.observations or not observed) for row in rows)
    return min(quiet_ns, waited_ns) if evidence else waited_ns


def _end_seen_ns(row: _Row) -> int | None:
    """Return when a run's end was seen, from which its pair waits for what is missing."""
    if not row.run.ended:
        return None
    # Only silence shows that a run which declares nothing is over.
    return row.ended_ns if row.run.evidence is Evidence.DECLARED else row.arrived_ns


def _closure(
    connection: Connection, run_ids: set[str], trace_ids: set[str]
) -> tuple[list[SpanFact], set[str]]:
    """Return all facts that bear on these runs and traces, and the traces that are whole.

    A trace with unclaimed spans is read whole, and each run in it too: attribution must see
    every ancestor that is known.
    """
    facts: dict[tuple[str, str, bytes], SpanFact] = {}
    run_ids, trace_ids = set(run_ids), set(trace_ids)
    read_runs: set[str] = set()
    read_traces: set[str] = set()
    columns = schema.spans.c
    while run_ids - read_runs or trace_ids - read_traces:
        new_runs, new_traces = run_ids - read_runs, trace_ids - read_traces
        found = [
            *_spans_where(connection, columns.run_id, new_runs),
            *_spans_where(connection, columns.trace_id, new_traces),
        ]
        read_runs |= new_runs
        read_traces |= new_traces
        for row in found:
            facts.setdefault((row.trace_id, row.span_id, row.content), decode_span(row.body))
        touched = {row.trace_id for row in found if row.run_id is not None} - read_traces
        trace_ids |= _with_unclaimed(connection, touched)
        run_ids |= {row.run_id for row in found if row.run_id is not None}
    return list(facts.values()), read_traces


def _spans_where(connection: Connection, column: Any, values: Iterable[str]) -> Iterator[Any]:
    columns = schema.spans.c
    for chunk in _chunks(values):
        yield from connection.execute(
            select(
                columns.trace_id, columns.span_id, columns.content, columns.run_id, columns.body
            ).where(column.in_(chunk))
        )


def _with_unclaimed(connection: Connection, trace_ids: Iterable[str]) -> set[str]:
    columns = schema.spans.c
    found: set[str] = set()
    for chunk in _chunks(trace_ids):
        unclaimed = columns.trace_id.in_(chunk) & columns.run_id.is_(None)
        found.update(connection.scalars(select(columns.trace_id).where(unclaimed).distinct()))
    return found


def _observations(connection: Connection, run_ids: Iterable[str]) -> dict[str, list[Observation]]:
    columns = schema.observations.c
    found: dict[str, list[Observation]] = defaultdict(list)
    for chunk in _chunks(run_ids):
        bodies = select(columns.run_id, columns.body).where(columns.run_id.in_(chunk))
        for row in connection.execute(bodies):
            found[row.run_id].append(decode_observation(row.body))
    return found


def _forget_unmade(
    connection: Connection,
    run_ids: Iterable[str],
    trace_ids: Iterable[str],
    groups: Iterable[str],
    now_ns: int,
) -> None:
    """Forget runs that have no facts any more.

    They were made from part of a trace that is now whole, or under a configuration that gave
    their spans another run. A verdict on such a run was on part of one: it is contradicted.
    """
    columns, decided = schema.runs.c, schema.decisions.c
    stored: set[str] = set()
    for column, names in ((columns.run_id, run_ids), (columns.trace_id, trace_ids)):
        for chunk in _chunks(names):
            stored.update(connection.scalars(select(columns.run_id).where(column.in_(chunk))))
    for run_id in sorted(stored - set(groups)):
        connection.execute(delete(schema.runs).where(columns.run_id == run_id))
        connection.execute(
            update(schema.decisions)
            .where(
                decided.kind == "pair",
                decided.contradicted_ns.is_(None),
                or_(decided.first_run == run_id, decided.second_run == run_id),
            )
            .values(contradicted_ns=now_ns)
        )


def _also_pending(
    connection: Connection, run_ids: Iterable[str], trace_ids: Iterable[str]
) -> dict[tuple[str, str], int]:
    """Return what else is pending among runs and traces of which all facts were read."""
    columns = schema.pending.c
    found: dict[tuple[str, str], int] = {}
    for kind, names in (("run", run_ids), ("trace", trace_ids)):
        for chunk in _chunks(names):
            rows = connection.execute(
                select(columns.id, columns.arrived_ns).where(
                    columns.kind == kind, columns.id.in_(chunk)
                )
            )
            found |= {(kind, row.id): row.arrived_ns for row in rows}
    return found


def _units_of(run_id: str, members: Iterable[SpanFact]) -> set[tuple[str, str]]:
    """Return the units under which new facts of a run are pending."""
    unclaimed = {("trace", fact.trace_id) for fact in members if fact.run_id is None}
    return {("run", run_id), *unclaimed}


def _row(run: Run, *, trace_id: str | None, arrived_ns: int) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "trace_id": trace_id,
        "pair_key": msgspec.json.encode(run.key).decode() if run.key is not None else None,
        "start_ns": run.start_ns,
        "arrived_ns": arrived_ns,
        "ended_ns": arrived_ns if run.ended else None,
        "outcome": _outcome(run).value,
        "settled": False,
        "body": _encode_run(run),
    }


def _store_runs(connection: Connection, rows: list[dict[str, Any]], now_ns: int) -> None:
    """Write runs as now assembled, and have their keys looked at at once."""
    if not rows:
        return
    statement = upsert(connection, schema.runs)
    new, old = statement.excluded, schema.runs.c
    changed = {
        "trace_id": new.trace_id,
        # Evidence that comes too late does not make a second pair under another key.
        "pair_key": case((old.settled, old.pair_key), else_=new.pair_key),
        "start_ns": new.start_ns,
        "arrived_ns": case((old.arrived_ns > new.arrived_ns, old.arrived_ns), else_=new.arrived_ns),
        # The wait counts from when the end was first seen.
        "ended_ns": func.coalesce(old.ended_ns, new.ended_ns),
        "outcome": case((old.settled, old.outcome), else_=new.outcome),
        "body": new.body,
    }
    connection.execute(
        statement.on_conflict_do_update(index_elements=["run_id"], set_=changed), rows
    )
    _look_again(connection, (row["pair_key"] for row in rows), now_ns)


def _look_again(connection: Connection, keys: Iterable[str | None], now_ns: int) -> None:
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


def _rows_of_keys(connection: Connection, keys: Iterable[str]) -> dict[str, dict[str, _Row]]:
    columns = schema.runs.c
    found: dict[str, dict[str, _Row]] = {key: {} for key in keys}
    for chunk in _chunks(found):
        for row in connection.execute(select(schema.runs).where(columns.pair_key.in_(chunk))):
            found[row.pair_key][row.run_id] = _Row(
                run=_decode_run(row.body),
                arrived_ns=row.arrived_ns,
                ended_ns=row.ended_ns,
                outcome=Outcome(row.outcome),
                settled=row.settled,
            )
    return found


def _decided_of_keys(connection: Connection, keys: Iterable[str]) -> dict[str, _Decided]:
    columns = schema.decisions.c
    found: dict[str, _Decided] = {key: _Decided([], []) for key in keys}
    for chunk in _chunks(found):
        for row in connection.execute(
            select(columns.pair_key, columns.kind, columns.first_run, columns.second_run).where(
                columns.pair_key.in_(chunk)
            )
        ):
            of_key = found[row.pair_key]
            (of_key.pairs if row.kind == "pair" else of_key.null).append(
                (row.first_run, row.second_run)
            )
    return found


def _first_pairs(made: Iterable[Decision], rows: dict[str, _Row]) -> Iterator[RunDecided]:
    """Yield the final outcome of each run that these decisions pair for the first time."""
    seen: set[str] = set()
    for decision in made:
        if isinstance(decision, PairDecided):
            for run in (decision.control, decision.candidate):
                if run.run_id not in seen and not rows[run.run_id].settled:
                    seen.add(run.run_id)
                    yield RunDecided(run=run, outcome=Outcome.PAIRED)


def _journal(
    connection: Connection, made: Sequence[tuple[Decision, str | None]], now_ns: int
) -> list[Decision]:
    """Write down the decisions that were not made before, and return those."""
    rows = {verdict.reference(decision): (decision, key) for decision, key in made}
    columns = schema.decisions.c
    for chunk in _chunks(rows):
        known = connection.scalars(select(columns.reference).where(columns.reference.in_(chunk)))
        for reference in known:
            del rows[reference]
    if not rows:
        return []
    connection.execute(
        upsert(connection, schema.decisions).on_conflict_do_nothing(index_elements=["reference"]),
        [
            _decision_row(reference, decision, key, now_ns)
            for reference, (decision, key) in rows.items()
        ],
    )
    new = [decision for decision, _ in rows.values()]
    settled = [
        {"decided_run": decision.run.run_id, "final_outcome": decision.outcome.value}
        for decision in new
        if isinstance(decision, RunDecided)
    ]
    if settled:
        settle = update(schema.runs).where(schema.runs.c.run_id == bindparam("decided_run"))
        connection.execute(settle.values(settled=True, outcome=bindparam("final_outcome")), settled)
    return new


def _decision_row(
    reference: str, decision: Decision, key: str | None, now_ns: int
) -> dict[str, Any]:
    first, second = _about(decision)
    return {
        "reference": reference,
        "kind": {PairDecided: "pair", NullDecided: "null", RunDecided: "run"}[type(decision)],
        "pair_key": key,
        "first_run": first,
        "second_run": second,
        "decided_ns": now_ns,
        "body": verdict.encode(decision),
    }


def _about(decision: Decision) -> tuple[str, str | None]:
    if isinstance(decision, PairDecided):
        return decision.control.run_id, decision.candidate.run_id
    if isinstance(decision, NullDecided):
        return decision.first.run_id, decision.second.run_id
    return decision.run.run_id, None


def _mark_contradicted(
    connection: Connection, made: dict[str, Run], settings: Settings, now_ns: int
) -> None:
    """Mark the verdicts that would be others today; they stay as they are."""
    columns = schema.decisions.c
    decided: dict[int, PairDecided] = {}
    for chunk in _chunks(made):
        about = or_(columns.first_run.in_(chunk), columns.second_run.in_(chunk))
        found = connection.execute(
            select(columns.id, columns.body).where(
                columns.kind == "pair", columns.contradicted_ns.is_(None), about
            )
        )
        for row in found:
            stored = verdict.decode(row.body)
            if isinstance(stored, PairDecided):
                decided[row.id] = stored
    others = {
        run.run_id
        for pair_decided in decided.values()
        for run in (pair_decided.control, pair_decided.candidate)
    } - set(made)
    known = {**_stored_runs(connection, others), **made}
    for number, stored in decided.items():
        control = known.get(stored.control.run_id, stored.control)
        candidate = known.get(stored.candidate.run_id, stored.candidate)
        today = judge(control, candidate, settings)
        if _finding(today) != _finding(stored) or control.rejections or candidate.rejections:
            connection.execute(
                update(schema.decisions).where(columns.id == number).values(contradicted_ns=now_ns)
            )


def _finding(pair_decided: PairDecided) -> tuple[object, ...]:
    return (
        pair_decided.avoided,
        pair_decided.withheld,
        pair_decided.added,
        pair_decided.causes,
        pair_decided.control_effects,
        pair_decided.candidate_effects,
    )


def _stored_runs(connection: Connection, run_ids: Iterable[str]) -> dict[str, Run]:
    columns = schema.runs.c
    found: dict[str, Run] = {}
    for chunk in _chunks(run_ids):
        stored = select(columns.run_id, columns.body).where(columns.run_id.in_(chunk))
        for row in connection.execute(stored):
            found[row.run_id] = _decode_run(row.body)
    return found


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(values)
    for start in range(0, len(ordered), _PAGE):
        yield ordered[start : start + _PAGE]
