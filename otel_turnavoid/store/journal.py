"""The journal of final decisions: what was decided, what is decided now, what speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, or_, select, update

from otel_turnavoid.judge import verdict
from otel_turnavoid.judge.judging import judge
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided, RunDecided
from otel_turnavoid.store import schema
from otel_turnavoid.store.shares import Stamp
from otel_turnavoid.store.standing import Standing, stored_runs
from otel_turnavoid.store.statements import Insert, Lookup
from otel_turnavoid.vocabulary import Outcome

_columns = schema.decisions.c
_OF_KEYS = Lookup(
    lambda among: select(
        _columns.pair_key, _columns.kind, _columns.first_run, _columns.second_run
    ).where(among(_columns.pair_key))
)
_KNOWN = Lookup(lambda among: select(_columns.reference).where(among(_columns.reference)))
_WRITE = Insert(
    schema.decisions,
    lambda insert: insert.on_conflict_do_nothing(index_elements=["reference"]),
    without=("id", "contradicted_ns", "contradiction", "contradicted_share"),
)
_SETTLE = Lookup(
    lambda among: (
        update(schema.runs)
        .where(among(schema.runs.c.run_id))
        .values(settled=True, outcome=bindparam("outcome"))
    )
)


def _undisputed(run: ColumnElement[str]) -> Lookup:
    """Return what finds the verdicts on runs against which nothing speaks yet."""
    standing = (_columns.kind == "pair") & _columns.contradicted_ns.is_(None)
    return Lookup(lambda among: select(_columns.id, _columns.body).where(standing, among(run)))


_UNDISPUTED: Final = _undisputed(_columns.first_run), _undisputed(_columns.second_run)


class DecidedPairs(NamedTuple):
    """Run ids of the final pairs of one key."""

    pairs: list[tuple[str, str]]
    null: list[tuple[str, str]]


def decided_of_keys(connection: Connection, keys: Iterable[str]) -> dict[str, DecidedPairs]:
    """Return the final pairs of each key."""
    found: dict[str, DecidedPairs] = {key: DecidedPairs([], []) for key in keys}
    for key, kind, first, second in _OF_KEYS.rows(connection, found):
        (found[key].pairs if kind == "pair" else found[key].null).append((first, second))
    return found


def first_pairs(made: Iterable[Decision], standing: Mapping[str, Standing]) -> Iterator[RunDecided]:
    """Yield the final outcome of each run that these decisions pair for the first time."""
    seen: set[str] = set()
    for decision in made:
        if isinstance(decision, PairDecided):
            for run in (decision.control, decision.candidate):
                if run.run_id not in seen and not standing[run.run_id].settled:
                    seen.add(run.run_id)
                    yield RunDecided(run=run, outcome=Outcome.PAIRED)


def write_down(
    connection: Connection, made: Sequence[tuple[Decision, str | None]], stamp: Stamp
) -> list[Decision]:
    """Write down the decisions that were not made before, and return those."""
    rows = {verdict.reference(decision): (decision, key) for decision, key in made}
    for reference in _KNOWN.scalars(connection, rows):
        del rows[reference]
    if not rows:
        return []
    stamped = {"decided_ns": stamp.at_ns, "share": stamp.share(connection)}
    _WRITE(
        connection,
        [
            {**_decision_row(reference, decision, key), **stamped}
            for reference, (decision, key) in rows.items()
        ],
    )
    new = [decision for decision, _ in rows.values()]
    settled: dict[Outcome, list[str]] = defaultdict(list)
    for decision in new:
        if isinstance(decision, RunDecided):
            settled[decision.outcome].append(decision.run.run_id)
    for outcome, run_ids in settled.items():
        _SETTLE.execute(connection, run_ids, outcome=outcome.value)
    return new


def _decision_row(reference: str, decision: Decision, key: str | None) -> dict[str, Any]:
    first, second = _about(decision)
    return {
        "reference": reference,
        "kind": {PairDecided: "pair", NullDecided: "null", RunDecided: "run"}[type(decision)],
        "pair_key": key,
        "first_run": first,
        "second_run": second,
        "body": verdict.encode(decision),
    }


def _about(decision: Decision) -> tuple[str, str | None]:
    if isinstance(decision, PairDecided):
        return decision.control.run_id, decision.candidate.run_id
    if isinstance(decision, NullDecided):
        return decision.first.run_id, decision.second.run_id
    return decision.run.run_id, None


def mark_contradicted(
    connection: Connection, made: dict[str, Run], settings: Settings, stamp: Stamp
) -> None:
    """Mark the verdicts that would be others today; they stay as they are."""
    decided: dict[int, PairDecided] = {}
    for about in _UNDISPUTED:
        for number, body in about.rows(connection, made):
            stored = verdict.decode(body)
            if isinstance(stored, PairDecided):
                decided[number] = stored
    others = {
        run.run_id
        for pair_decided in decided.values()
        for run in (pair_decided.control, pair_decided.candidate)
    } - set(made)
    known = {**stored_runs(connection, others), **made}
    speaking_against: list[int] = []
    for number, stored in decided.items():
        control = known.get(stored.control.run_id, stored.control)
        candidate = known.get(stored.candidate.run_id, stored.candidate)
        today = judge(control, candidate, settings)
        if _finding(today) != _finding(stored) or control.rejections or candidate.rejections:
            speaking_against.append(number)
    _contradict(connection, speaking_against, stamp)


def contradict_about(connection: Connection, run_id: str, stamp: Stamp) -> None:
    """Mark the verdicts on a run that is no run any more."""
    columns = schema.decisions.c
    about = or_(columns.first_run == run_id, columns.second_run == run_id)
    standing = (columns.kind == "pair") & columns.contradicted_ns.is_(None) & about
    found = connection.scalars(select(columns.id).where(standing).order_by(columns.id))
    _contradict(connection, list(found), stamp)


def _contradict(connection: Connection, numbers: Collection[int], stamp: Stamp) -> None:
    """Number these contradictions on from the last, so that who follows them sees each once."""
    if not numbers:
        return
    columns = schema.decisions.c
    last = connection.scalar(select(func.max(columns.contradiction))) or 0
    mark = update(schema.decisions).where(columns.id == bindparam("number"))
    said = {"contradicted_ns": stamp.at_ns, "contradicted_share": stamp.share(connection)}
    connection.execute(
        mark.values(**said, contradiction=bindparam("as_which")),
        [
            {"number": number, "as_which": last + place}
            for place, number in enumerate(sorted(numbers), 1)
        ],
    )


def _finding(pair_decided: PairDecided) -> tuple[object, ...]:
    """Return what must still be found for a verdict to hold, and that its runs can be a pair."""
    sides = [
        (run.key, run.arm, run.variant) for run in (pair_decided.control, pair_decided.candidate)
    ]
    return (
        sides,
        pair_decided.avoided,
        pair_decided.withheld,
        pair_decided.added,
        pair_decided.causes,
        pair_decided.control_effects,
        pair_decided.candidate_effects,
    )
