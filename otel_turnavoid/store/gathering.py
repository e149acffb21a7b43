"""Which facts must be read to assemble runs: their own, and all that decides what is theirs.

A trace with unclaimed spans is read whole, and each run in it too: attribution must see every
ancestor that is known. A run that has to do with another one, by a span below the other's or by
one that both claim, is read together with it. So is every trace that may hold a copy of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, select

from otel_turnavoid.judge.across import Across, Link, across
from otel_turnavoid.judge.attribution import Attribution, attribute, stray_run_id, trace_of
from otel_turnavoid.judge.facts import Observation, SpanFact, decode_observation, decode_span
from otel_turnavoid.store import schema, twins
from otel_turnavoid.store.paging import chunks


class Gathered(NamedTuple):
    """All facts that bear on some runs and traces, sorted into runs."""

    attribution: Attribution
    across: dict[str, Across]
    """By run, where other runs' spans say anything about it."""
    whole_traces: set[str]
    """Traces of which every span was read."""


def gather(connection: Connection, run_ids: Iterable[str], trace_ids: Iterable[str]) -> Gathered:
    """Read all facts that bear on these runs and traces."""
    facts: dict[tuple[str, str, bytes], SpanFact] = {}
    links: set[Link] = set()
    run_ids, trace_ids = set(run_ids), set(trace_ids)
    read_runs: set[str] = set()
    read_traces: set[str] = set()
    touched_traces: set[str] = set()
    columns = schema.spans.c
    while run_ids - read_runs or trace_ids - read_traces:
        new_runs, new_traces = run_ids - read_runs, trace_ids - read_traces
        found = [
            *_spans_where(connection, columns.run_id, new_runs),
            *_spans_where(connection, columns.trace_id, new_traces),
        ]
        read_runs |= new_runs
        read_traces |= new_traces
        new: list[SpanFact] = []
        for row in found:
            key = (row.trace_id, row.span_id, row.content)
            if key not in facts:
                facts[key] = decode_span(row.body)
                new.append(facts[key])
        trace_ids |= twins.traces_of(connection, new)
        run_ids |= {row.run_id for row in found if row.run_id is not None}
        touched = {row.trace_id for row in found if row.run_id is not None} - touched_traces
        touched_traces |= touched
        trace_ids |= _with_unclaimed(connection, touched - read_traces)
        for link in _links_across(connection, touched):
            links.add(link)
            if link.run_id is not None:
                run_ids.add(link.run_id)
    attribution = attribute(facts.values())
    links.update(_links_within(attribution, facts.values(), read_traces))
    return Gathered(attribution, across(links), read_traces)


def evidence_of(
    connection: Connection, run_id: str
) -> tuple[list[SpanFact], list[Observation], Across]:
    """Return a run's facts, all observations that name it, and what other runs' spans say of it."""
    trace_id = trace_of(run_id)
    gathered = gather(connection, {run_id}, {trace_id} if trace_id else set())
    members = gathered.attribution.runs.get(run_id, [])
    if trace_id is not None and run_id == stray_run_id(trace_id):
        members = gathered.attribution.strays.get(trace_id, [])
    seen = observations_of(connection, [run_id])[run_id]
    return members, seen, gathered.across.get(run_id, Across())


def observations_of(connection: Connection, run_ids: Iterable[str]) -> dict[str, list[Observation]]:
    """Return every observation that names one of these runs, by run."""
    columns = schema.observations.c
    found: dict[str, list[Observation]] = defaultdict(list)
    for chunk in chunks(run_ids):
        bodies = select(columns.run_id, columns.body).where(columns.run_id.in_(chunk))
        for row in connection.execute(bodies):
            found[row.run_id].append(decode_observation(row.body))
    return found


def _spans_where(connection: Connection, column: Any, values: Iterable[str]) -> Iterator[Any]:
    columns = schema.spans.c
    for chunk in chunks(values):
        yield from connection.execute(
            select(
                columns.trace_id, columns.span_id, columns.content, columns.run_id, columns.body
            ).where(column.in_(chunk))
        )


def _with_unclaimed(connection: Connection, trace_ids: Iterable[str]) -> set[str]:
    columns = schema.spans.c
    found: set[str] = set()
    for chunk in chunks(trace_ids):
        unclaimed = columns.trace_id.in_(chunk) & columns.run_id.is_(None)
        found.update(connection.scalars(select(columns.trace_id).where(unclaimed).distinct()))
    return found


def _links_across(connection: Connection, trace_ids: Iterable[str]) -> Iterator[Link]:
    """Yield the spans of these traces that lie directly below another run's, or that two claim."""
    if connection.dialect.name != "sqlite":
        yield from _links_across_here(connection, trace_ids)
        return
    one, other = schema.spans.alias("one"), schema.spans.alias("other")
    # As an expression, so that SQLite looks the other span up and does not start from it: for
    # each of those it would read the whole trace.
    its_trace = one.c.trace_id + ""
    same_trace = and_(other.c.trace_id == its_trace, one.c.run_id != other.c.run_id)
    fields = [one.c.trace_id, one.c.span_id, one.c.parent_id, one.c.run_id]
    fields += [other.c.span_id, other.c.parent_id, other.c.run_id]
    for column in (one.c.parent_id, one.c.span_id):
        meeting = select(*fields).join(other, same_trace & (other.c.span_id == column))
        for chunk in chunks(trace_ids):
            for trace_id, *ends in connection.execute(meeting.where(one.c.trace_id.in_(chunk))):
                yield Link(trace_id, *ends[:3])
                yield Link(trace_id, *ends[3:])


def _links_across_here(connection: Connection, trace_ids: Iterable[str]) -> Iterator[Link]:
    """Do the same without a join: PostgreSQL's planner rarely finds the one that looks up."""
    columns = schema.spans.c
    fields = columns.trace_id, columns.span_id, columns.parent_id, columns.run_id
    for chunk in chunks(trace_ids):
        rows = connection.execute(select(*fields).where(columns.trace_id.in_(chunk)))
        spans = {Link(*row) for row in rows if row.run_id is not None}
        by_id: dict[tuple[str, str], list[Link]] = defaultdict(list)
        for span in spans:
            by_id[span.trace_id, span.span_id].append(span)
        for one in spans:
            for span_id in (one.parent_id, one.span_id):
                for other in by_id.get((one.trace_id, span_id), ()) if span_id else ():
                    if one.run_id != other.run_id:
                        yield one
                        yield other


def _links_within(
    attribution: Attribution, facts: Iterable[SpanFact], whole_traces: set[str]
) -> Iterator[Link]:
    """Yield every span of the traces that were read whole, with the run that it belongs to."""
    owned: set[tuple[str, str]] = set()
    for run_id, members in attribution.runs.items():
        for fact in members:
            if fact.trace_id in whole_traces:
                owned.add((fact.trace_id, fact.span_id))
                yield Link(fact.trace_id, fact.span_id, fact.parent_id, run_id)
    for fact in facts:
        if fact.trace_id in whole_traces and (fact.trace_id, fact.span_id) not in owned:
            yield Link(fact.trace_id, fact.span_id, fact.parent_id, None)
