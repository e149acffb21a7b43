"""The journal of final decisions: what was decided, what is decided now, what speaks against it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, or_, select, update

from otel_turnavoid.judge import verdict
from otel_turnavoid.judge.judging import judge
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided, RunDecided
from otel_turnavoid.store import schema
from otel_turnavoid.store.engine import upsert
from otel_turnavoid.store.paging import chunks
from otel_turnavoid.store.shares import Stamp
from otel_turnavoid.store.standing import Standing, stored_runs
from otel_turnavoid.vocabulary import Outcome


class DecidedPairs(NamedTuple):
    """Run ids of the final pairs of one key."""

    pairs: list[tuple[str, str]]
    null: list[tuple[str, str]]


def decided_of_keys(connection: Connection, keys: Iterable[str]) -> dict[str, DecidedPairs]:
    """Return the final pairs of each key."""
    columns = schema.decisions.c
    found: dict[str, DecidedPairs] = {key: DecidedPairs([], []) for key in keys}
    for chunk in chunks(found):
        rows = connection.execute(
            select(columns.pair_key, columns.kind, columns.first_run, columns.second_run).where(
                columns.pair_key.in_(chunk)
            )
        )
        for key, kind, first, second in rows:
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
    columns = schema.decisions.c
    for chunk in chunks(rows):
        known = connection.scalars(select(columns.reference).where(columns.reference.in_(chunk)))
        for reference in known:
            del rows[reference]
    if not rows:
        return []
    share = stamp.share(connection)
    connection.execute(
        upsert(connection, schema.decisions).on_conflict_do_nothing(index_elements=["reference"]),
        [
            {**_decision_row(reference, decision, key), "decided_ns": stamp.at_ns, "share": share}
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
    columns = schema.decisions.c
    decided: dict[int, PairDecided] = {}
    standing = (columns.kind == "pair") & columns.contradicted_ns.is_(None)
    for column, chunk in product((columns.first_run, columns.second_run), chunks(made)):
        about = standing & column.in_(chunk)
        for row in connection.execute(select(columns.id, columns.body).where(about)):
            stored = verdict.decode(row.body)
            if isinstance(stored, PairDecided):
                decided[row.id] = stored
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
