"""What spans of other runs say about a run.

Runs are told apart by their ids, so some things are seen only by looking across them. A run that
began inside of another one, under an id of its own, did work that the outer one's counts leave
out: a sub-agent to which the run id was not passed on. So may one whose spans in the same trace
hang below a span that was never stored, such as of a web server: if the other run is the root of
the trace, or went on when this one began and did not begin below the same span, nobody knows
that it was not called from there. And a span that two runs claim is evidence of neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

SpanKey = tuple[str, str]


class Link(NamedTuple):
    """One span's place: in its trace, and in the run that it belongs to."""

    trace_id: str
    span_id: str
    parent_id: str | None
    run_id: str | None
    """None: of no run, but it may lie between two."""


class Top(NamedTuple):
    """A span of a run, with its times in nanoseconds, below which the run goes on in a trace."""

    trace_id: str
    span_id: str
    parent_id: str | None
    run_id: str
    start_ns: int
    end_ns: int


class Across(NamedTuple):
    """What speaks against one run in the spans of others; run ids, sorted."""

    claimed_by: tuple[str, ...] = ()
    """Runs that claim a span of this one as theirs."""
    inside: tuple[str, ...] = ()
    """Runs with a span below one of this run's."""
    perhaps_inside: tuple[str, ...] = ()
    """Runs that may have begun inside, below spans that were never stored."""


def across(links: Iterable[Link], tops: Iterable[Top] = ()) -> dict[str, Across]:
    """Return what is found across runs, for the runs that it concerns.

    Args:
        links: Those of spans between two runs must be there; others may be left out.
        tops: Spans that have no parent in their own run, of traces that hold several runs;
            others may be among them.
    """
    spans: dict[SpanKey, set[Link]] = defaultdict(set)
    for link in links:
        spans[link.trace_id, link.span_id].add(link)
    claimed_by: dict[str, set[str]] = defaultdict(set)
    inside: dict[str, set[str]] = defaultdict(set)
    perhaps: dict[str, set[str]] = defaultdict(set)
    for same_span in spans.values():
        owners = {link.run_id for link in same_span if link.run_id is not None}
        for owner in owners:
            claimed_by[owner] |= owners - {owner}
        for link in same_span:
            if link.run_id is not None:
                for outer in _owners_above(link, spans) - {link.run_id}:
                    inside[outer].add(link.run_id)
    for outer, inner in perhaps_inside(tops, spans):
        if inner not in inside[outer]:
            perhaps[outer].add(inner)
    found = {
        run_id: Across(
            tuple(sorted(claimed_by[run_id])),
            tuple(sorted(inside[run_id])),
            tuple(sorted(perhaps[run_id])),
        )
        for run_id in sorted({*claimed_by, *inside, *perhaps})
    }
    return {run_id: each for run_id, each in found.items() if any(each)}


def perhaps_inside(
    tops: Iterable[Top], spans: Mapping[SpanKey, set[Link]]
) -> Iterator[tuple[str, str]]:
    """Yield runs with those that may have begun inside of them: outer, inner.

    With fewer ``spans`` more may be yielded, never less.
    """
    by_trace: dict[str, set[Top]] = defaultdict(set)
    for top in tops:
        by_trace[top.trace_id].add(top)
    no_run = {
        link.trace_id
        for links in spans.values()
        for link in links
        if link.run_id is None and link.parent_id is None
    }
    for trace_id, begun in by_trace.items():
        if len({top.run_id for top in begun}) == 1:
            continue  # as nearly everywhere
        here = [
            _Hanging(top, _unknown_above(top, spans))
            for top in begun
            if not _below_its_own(top, spans)
        ]
        pairs = set(_going_on(here))
        roots = {each.top.run_id for each in here if each.top.parent_id is None}
        if len(roots) == 1 and trace_id not in no_run:
            pairs |= {(outer, each.top.run_id) for outer in roots for each in here if each.below}
        yield from (pair for pair in pairs if pair[0] != pair[1])


class _Hanging(NamedTuple):
    top: Top
    below: set[str]
    """Ids at which the spans above end; none where they end at a root."""


def _going_on(tops: Iterable[_Hanging]) -> Iterator[tuple[str, str]]:
    """Yield which went on when another began that hangs below something else."""
    going_on: list[_Hanging] = []
    in_order = sorted(tops, key=_start_ns)
    for start_ns, begun in groupby(in_order, key=_start_ns):
        beginning = list(begun)
        going_on = [each for each in going_on if each.top.end_ns >= start_ns] + beginning
        for inner in beginning:
            for outer in going_on if inner.below else ():
                if inner.below - outer.below:
                    yield outer.top.run_id, inner.top.run_id


def _start_ns(each: _Hanging) -> int:
    return each.top.start_ns


def _owners_above(link: Link, spans: Mapping[SpanKey, set[Link]]) -> set[str]:
    """Return the runs of the nearest spans above that belong to any."""
    owners: set[str] = set()
    above, seen = [link.parent_id], {link.span_id}
    while above:
        parent_id = above.pop()
        if parent_id is None or parent_id in seen:
            continue
        seen.add(parent_id)
        for parent in spans.get((link.trace_id, parent_id), ()):
            if parent.run_id is None:
                above.append(parent.parent_id)
            else:
                owners.add(parent.run_id)
    return owners


def _below_its_own(top: Top, spans: Mapping[SpanKey, set[Link]]) -> bool:
    parents = spans.get((top.trace_id, top.parent_id or ""), ())
    return any(parent.run_id == top.run_id for parent in parents)


def _unknown_above(top: Top, spans: Mapping[SpanKey, set[Link]]) -> set[str]:
    """Return the ids at which the spans above end that are known; none where they end at a root."""
    unknown: set[str] = set()
    seen: set[str] = set()
    above = [top.parent_id]
    while above:
        span_id = above.pop()
        if span_id is None or span_id in seen:
            continue
        seen.add(span_id)
        known = spans.get((top.trace_id, span_id))
        if known is None:
            unknown.add(span_id)
        else:
            above += [link.parent_id for link in known]
    return unknown
