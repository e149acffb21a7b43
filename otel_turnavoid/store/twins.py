"""Where copies of one call may lie: traces that the same identities stand in at the same time.

Kept for spans of other instrumentations only; ours carry the run's id.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, delete, select, tuple_

from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.twins import identities, sought
from otel_turnavoid.store import schema
from otel_turnavoid.store.paging import PAGE
from otel_turnavoid.store.statements import Insert, Lookup

_LONGEST_NS = 3600 * 10**9
"""A call that takes longer is not found by what lies in it."""

_REMEMBER = Insert(schema.twins, lambda insert: insert.on_conflict_do_nothing())
_twins = schema.twins.c
_ALIKE = Lookup(
    lambda among: select(_twins.trace_id).where(
        among(_twins.identity),
        _twins.start_ns.between(bindparam("after_ns"), bindparam("end_ns")),
        _twins.end_ns >= bindparam("start_ns"),
        _twins.scope != bindparam("scope"),
        _twins.trace_id != bindparam("trace_id"),
    )
)


def remember(connection: Connection, facts: Iterable[SpanFact]) -> None:
    """Note by what copies can find these spans."""
    rows = [
        {
            "identity": identity,
            "trace_id": fact.trace_id,
            "span_id": fact.span_id,
            "scope": fact.scope,
            "start_ns": fact.start_ns,
            "end_ns": fact.end_ns,
        }
        for fact in facts
        if not fact.own
        for identity in identities(fact)
    ]
    _REMEMBER(connection, rows)


def forget(connection: Connection, facts: Iterable[SpanFact]) -> None:
    """Forget by what copies could find these spans."""
    columns = schema.twins.c
    place = tuple_(columns.identity, columns.start_ns, columns.trace_id, columns.span_id)
    rows = [
        (identity, fact.start_ns, fact.trace_id, fact.span_id)
        for fact in facts
        if not fact.own
        for identity in identities(fact)
    ]
    for start in range(0, len(rows), PAGE):
        connection.execute(delete(schema.twins).where(place.in_(rows[start : start + PAGE])))


def traces_of(connection: Connection, facts: Iterable[SpanFact]) -> set[str]:
    """Return the other traces in which copies of these spans may lie."""
    found: set[str] = set()
    for fact in facts:
        if not fact.own:
            found.update(
                _ALIKE.scalars(
                    connection,
                    sought(fact),
                    after_ns=fact.start_ns - _LONGEST_NS,
                    start_ns=fact.start_ns,
                    end_ns=fact.end_ns,
                    scope=fact.scope,
                    trace_id=fact.trace_id,
                )
            )
    return found
