"""Where copies of one call may lie: traces that the same identities stand in at the same time.

Kept for spans of other instrumentations only; ours carry the run's id.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select, tuple_

from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.twins import identities, sought
from otel_turnavoid.store import schema
from otel_turnavoid.store.engine import upsert
from otel_turnavoid.store.paging import PAGE

_LONGEST_NS = 3600 * 10**9
"""A call that takes longer is not found by what lies in it."""


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
    if rows:
        connection.execute(upsert(connection, schema.twins).on_conflict_do_nothing(), rows)


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
    columns = schema.twins.c
    found: set[str] = set()
    for fact in facts:
        wanted = list(sought(fact)) if not fact.own else []
        if not wanted:
            continue
        found.update(
            connection.scalars(
                select(columns.trace_id).where(
                    columns.identity.in_(wanted),
                    columns.start_ns.between(fact.start_ns - _LONGEST_NS, fact.end_ns),
                    columns.end_ns >= fact.start_ns,
                    columns.scope != fact.scope,
                    columns.trace_id != fact.trace_id,
                )
            )
        )
    return found
