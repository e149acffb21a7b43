"""Which facts must be read to assemble runs: their own, and all that decides what is theirs.

A trace with unclaimed spans is read whole, and each run in it too: attribution must see every
ancestor that is known. A run that has to do with another one, by a span below the other's or by
one that both claim, or below a span of its trace that is not stored, is read together with it.
So is every trace that may hold a copy of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from otel_turnavoid.judge.across import Across, Link, Top, across, perhaps_inside
from otel_turnavoid.judge.attribution import Attribution, attribute, stray_run_id, trace_of
from otel_turnavoid.judge.facts import Observation, SpanFact, decode_observation, decode_span
from otel_turnavoid.store import schema, twins
from otel_turnavoid.store.paging import chunks
from otel_turnavoid.store.statements import Lookup

_spans = schema.spans.c
_FACTS = select(_spans.run_id, _spans.trace_id, _spans.span_id, _spans.content, _spans.body)
_OF_RUNS = Lookup(lambda among: _FACTS.where(among(_spans.run_id)))
_OF_TRACES = Lookup(lambda among: _FACTS.where(among(_spans.trace_id)))
_WITH_UNCLAIMED = Lookup(
    lambda among: (
        select(_spans.trace_id).where(among(_spans.trace_id), _spans.run_id.is_(None)).distinct()
    )
)
_WITH_SEVERAL = Lookup(
    lambda among: (
        select(_spans.trace_id)
        .where(among(_spans.trace_id))
        .group_by(_spans.trace_id)
        .having(func.min(_spans.run_id) != func.max(_spans.run_id))
    )
)
_observations = schema.observations.c
_OBSERVATIONS = Lookup(
    lambda among: select(_observations.run_id, _observations.body).where(
        among(_observations.run_id)
    )
)

_one, _other = schema.spans.alias("one"), schema.spans.alias("other")
_ENDS = [_one.c.trace_id, _one.c.span_id, _one.c.parent_id, _one.c.run_id]
_ENDS += [_other.c.span_id, _other.c.parent_id, _other.c.run_id]


def _meeting(column: ColumnElement[str]) -> Lookup:
    """Return what finds spans with those of other runs whose id they have in a column."""
    # As an expression, so that SQLite looks the other span up and does not start from it: for
    # each of those it would read the whole trace.
    same_trace = and_(_other.c.trace_id == _one.c.trace_id + "", _one.c.run_id != _other.c.run_id)
    joined = select(*_ENDS).join(_other, same_trace & (_other.c.span_id == column))
    return Lookup(lambda among: joined.where(among(_one.c.trace_id)))


_MEETING = _meeting(_one.c.parent_id), _meeting(_one.c.span_id)

_CLAIMED = _one.c.run_id.is_not(None)
_PARENT = select(_other.c.span_id).where(
    _other.c.trace_id == _one.c.trace_id, _other.c.span_id == _one.c.parent_id
)
_OWN_PARENT = _PARENT.where(_other.c.run_id == _one.c.run_id)
_WITH_HANGING = Lookup(
    lambda among: (
        select(_one.c.trace_id)
        .where(among(_one.c.trace_id), _CLAIMED, _one.c.parent_id.is_not(None), ~_PARENT.exists())
        .distinct()
    )
)
_TOPS = Lookup(
    lambda among: select(_one.c.run_id, _one.c.body).where(
        among(_one.c.trace_id),
        _CLAIMED,
        or_(_one.c.parent_id.is_(None), ~_OWN_PARENT.exists()),
    )
)


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
    tops: set[Top] = set()
    run_ids, trace_ids = set(run_ids), set(trace_ids)
    read_runs: set[str] = set()
    read_traces: set[str] = set()
    touched_traces: set[str] = set()
    while run_ids - read_runs or trace_ids - read_traces:
        new_runs, new_traces = run_ids - read_runs, trace_ids - read_traces
        found = [
            *_OF_RUNS.rows(connection, new_runs),
            *_OF_TRACES.rows(connection, new_traces),
        ]
        read_runs |= new_runs
        read_traces |= new_traces
        new: list[SpanFact] = []
        touched: set[str] = set()
        for run_id, trace_id, span_id, content, body in found:
            key = (trace_id, span_id, content)
            if key not in facts:
                facts[key] = decode_span(body)
                new.append(facts[key])
            if run_id is not None:
                run_ids.add(run_id)
                touched.add(trace_id)
        trace_ids |= twins.traces_of(connection, new)
        touched -= touched_traces
        touched_traces |= touched
        trace_ids.update(_WITH_UNCLAIMED.scalars(connection, touched - read_traces))
        # What lies across runs is only where there are several; nearly every trace has one.
        touched = set(_WITH_SEVERAL.scalars(connection, touched))
        for link in _links_across(connection, touched):
            links.add(link)
            if link.run_id is not None:
                run_ids.add(link.run_id)
        new_tops = set(_tops_beyond(connection, touched))
        tops |= new_tops
        for pair in perhaps_inside(new_tops, {}):
            run_ids.update(pair)
    attribution = attribute(facts.values())
    links.update(_links_within(attribution, facts.values(), read_traces))
    tops.update(_tops_within(attribution, read_traces))
    return Gathered(attribution, across(links, tops), read_traces)


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
    found: dict[str, list[Observation]] = defaultdict(list)
    for run_id, body in _OBSERVATIONS.rows(connection, run_ids):
        found[run_id].append(decode_observation(body))
    return found


def _links_across(connection: Connection, trace_ids: Iterable[str]) -> Iterator[Link]:
    """Yield the spans of these traces that lie directly below another run's, or that two claim."""
    if connection.dialect.name != "sqlite":
        yield from _links_across_here(connection, trace_ids)
        return
    for meeting in _MEETING:
        for trace_id, *ends in meeting.rows(connection, trace_ids):
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


def _tops_beyond(connection: Connection, trace_ids: Iterable[str]) -> Iterator[Top]:
    """Yield the tops of all runs of those traces where one lies below a span that is not stored."""
    broken = _WITH_HANGING.scalars(connection, trace_ids)
    for run_id, body in _TOPS.rows(connection, broken):
        yield _top(decode_span(body), run_id)


def _tops_within(attribution: Attribution, whole_traces: set[str]) -> Iterator[Top]:
    """Yield every span of the traces that were read whole and belongs to a run."""
    for run_id, members in attribution.runs.items():
        for fact in members:
            if fact.trace_id in whole_traces:
                yield _top(fact, run_id)


def _top(fact: SpanFact, run_id: str) -> Top:
    return Top(fact.trace_id, fact.span_id, fact.parent_id, run_id, fact.start_ns, fact.end_ns)


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
