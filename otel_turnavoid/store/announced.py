"""Which verdicts were handed on as spans and log records, so that a restart misses none.

A place is written after what lies before it is durable elsewhere: killed in between, a process
hands the same verdicts on again, under the same ids.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select

from otel_turnavoid.judge import verdict
from otel_turnavoid.store import schema
from otel_turnavoid.store.reading import Record

PAIR = "pair"
"""Kind of the decisions that are verdicts on a control and a candidate."""


def begin_announcing(connection: Connection, share: int) -> int:
    """Return up to which decision a share was announced; for a new one, all that it has.

    Args:
        connection: In a writing transaction.
        share: Of the journal.
    """
    columns = schema.announced.c
    place = connection.scalar(select(columns.decision).where(columns.share == share))
    if place is None:
        decided = schema.decisions.c
        last = select(func.max(decided.id)).where(decided.share == share)
        place = connection.scalar(last) or 0
        connection.execute(insert(schema.announced).values(share=share, decision=place))
    return place


def announce(connection: Connection, share: int, decision: int) -> None:
    """Remember that everything of a share up to ``decision`` was handed on."""
    connection.execute(delete(schema.announced).where(schema.announced.c.share == share))
    connection.execute(insert(schema.announced).values(share=share, decision=decision))


def verdicts(connection: Connection, share: int, after: int, most: int) -> list[Record]:
    """Return the next ``most`` verdicts of a share with an id above ``after``, in order."""
    columns = schema.decisions.c
    rows = connection.execute(
        select(columns.id, columns.body, columns.decided_ns, columns.contradicted_ns)
        .where(columns.share == share, columns.id > after, columns.kind == PAIR)
        .order_by(columns.id)
        .limit(most)
    )
    return [
        Record(row.id, verdict.decode(row.body), row.decided_ns, row.contradicted_ns)
        for row in rows
    ]
