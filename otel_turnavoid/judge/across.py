"""What spans of other runs say about a run.

Runs are told apart by their ids, so two things are seen only by looking across them. A run that
began inside of another one, under an id of its own, did work that the outer one's counts leave
out: a sub-agent to which the run id was not passed on. And a span that two runs claim is evidence
of neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SpanKey = tuple[str, str]


class Link(NamedTuple):
    """One span's place: in its trace, and in the run that it belongs to."""

    trace_id: str
    span_id: str
    parent_id: str | None
    run_id: str | None
    """None: of no run, but it may lie between two."""


class Across(NamedTuple):
    """What speaks against one run in the spans of others; run ids, sorted."""

    claimed_by: tuple[str, ...] = ()
    """Runs that claim a span of this one as theirs."""
    inside: tuple[str, ...] = ()
    """Runs with a span below one of this run's."""


def across(links: Iterable[Link]) -> dict[str, Across]:
    """Return what is found across runs, for the runs that it concerns.

    More links only ever add to it. Those of spans between two runs must be there; others may be
    left out.
    """
    spans: dict[SpanKey, set[Link]] = defaultdict(set)
    for link in links:
        spans[link.trace_id, link.span_id].add(link)
    claimed_by: dict[str, set[str]] = defaultdict(set)
    inside: dict[str, set[str]] = defaultdict(set)
    for same_span in spans.values():
        owners = {link.run_id for link in same_span if link.run_id is not None}
        for owner in owners:
            claimed_by[owner] |= owners - {owner}
        for link in same_span:
            if link.run_id is not None:
                for outer in _owners_above(link, spans) - {link.run_id}:
                    inside[outer].add(link.run_id)
    return {
        run_id: Across(tuple(sorted(claimed_by[run_id])), tuple(sorted(inside[run_id])))
        for run_id in sorted({*claimed_by, *inside})
        if claimed_by[run_id] or inside[run_id]
    }


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
