"""Which run a span belongs to.

A span that carries a run id belongs to that run, whatever its trace. One that carries none
belongs to the run of its nearest ancestor; an agent invocation without such an ancestor is the
root of a run of its own (``trace:<trace id>/<span id>``). Where the chain of parents is broken
by spans that were never stored, it belongs to the one agent span of its trace that contains it
in time, if there is exactly one; so does an agent span that states no input of its own, as of a
sub-agent behind a server. Where another instrumentation shows the same call in another
trace, it belongs where that one does. A feature flag evaluated outside of every run, as in the
web server's span around an agent, is for the run of its trace, if there is exactly one.
Everything else is unattributed and never enters a pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from otel_turnavoid.judge.facts import SpanFact, resolved
from otel_turnavoid.judge.spans import SpanTree, within
from otel_turnavoid.judge.twins import bring_together
from otel_turnavoid.vocabulary import Entry

MADE_RUN_PREFIX = "trace:"
"""Starts the ids of runs that are made from traces; no sender may use it."""

_COUNTED = (Entry.LLM_CALL, Entry.TOOL_TURN)


class Attribution(NamedTuple):
    """Facts by run, and those of no run by trace."""

    runs: dict[str, list[SpanFact]]
    strays: dict[str, list[SpanFact]]


def inferred_run_id(root: SpanFact) -> str:
    """Return the id of the run that a foreign agent span starts."""
    return f"{MADE_RUN_PREFIX}{root.trace_id}/{root.span_id}"


def stray_run_id(trace_id: str) -> str:
    """Return the id under which the unattributed calls of a trace are listed."""
    return f"{MADE_RUN_PREFIX}{trace_id}"


def trace_of(run_id: str) -> str | None:
    """Return the trace that a run was made from, if its id has the form of such a run's."""
    if not run_id.startswith(MADE_RUN_PREFIX):
        return None
    return run_id[len(MADE_RUN_PREFIX) :].partition("/")[0]


def attribute(facts: Iterable[SpanFact]) -> Attribution:
    """Sort facts into runs.

    The facts of a trace in which any fact lacks a run id must all be there: attribution looks
    at the whole trace. So must be the traces that hold what one of its calls may be a copy of
    (``twins.sought``) at the same time.
    """
    runs: dict[str, list[SpanFact]] = defaultdict(list)
    strays: dict[str, list[SpanFact]] = defaultdict(list)
    traces: dict[str, list[SpanFact]] = defaultdict(list)
    unclaimed: set[str] = set()
    for fact in map(resolved, facts):
        traces[fact.trace_id].append(fact)
        if fact.run_id is not None:
            runs[fact.run_id].append(fact)
        else:
            unclaimed.add(fact.trace_id)
    for trace_id in sorted(unclaimed):
        tree = SpanTree(traces[trace_id])
        owners = _owners(tree)
        for fact in traces[trace_id]:
            if fact.run_id is not None:
                continue
            owner = owners.get(fact.span_id)
            if owner is not None:
                runs[owner].append(fact)
            elif fact.entry in _COUNTED:
                strays[trace_id].append(fact)
    bring_together(runs, strays)
    return Attribution(dict(runs), dict(strays))


def _owners(tree: SpanTree) -> dict[str, str]:
    """Return the run of each span of one trace that has one, by span id."""
    owners: dict[str, str] = {}
    agents: list[tuple[SpanFact, str]] = []
    for fact in tree.facts:
        owner = _owner(fact, tree)
        if owner is not None:
            owners[fact.span_id] = owner
            if fact.entry is Entry.INVOKE:
                agents.append((fact, owner))
    agents = _with_sub_agents(tree, agents, owners)
    runs = set(owners.values())
    for fact in tree.facts:
        if fact.span_id not in owners and (fact.entry in _COUNTED or fact.flags):
            containing = {owner for agent, owner in agents if within(fact, agent)}
            if fact.flags and not containing:
                containing = runs
            if len(containing) == 1:
                owners[fact.span_id] = min(containing)
    return owners


def _with_sub_agents(
    tree: SpanTree, agents: list[tuple[SpanFact, str]], owners: dict[str, str]
) -> list[tuple[SpanFact, str]]:
    """Give agents whose callers' spans were never stored to the runs that they ran in."""
    caller = {fact.span_id: _beyond(fact, tree) for fact, _ in agents}
    for fact, made in agents:
        apart = made == inferred_run_id(fact) and caller[fact.span_id] is not None
        if not apart or fact.digest_parts or (fact.invoke and fact.invoke.digest):
            continue
        around = {
            owners[other.span_id]
            for other, _ in agents
            if within(fact, other) and caller[other.span_id] != caller[fact.span_id]
        } - {made}
        if len(around) == 1:
            home = around.pop()
            owners.update({span_id: home for span_id, own in owners.items() if own == made})
    return [(fact, owners[fact.span_id]) for fact, _ in agents]


def _beyond(fact: SpanFact, tree: SpanTree) -> str | None:
    """Return the parent that is not known here of the outermost span around; None at a root."""
    return [fact, *tree.ancestors(fact)][-1].parent_id


def _owner(fact: SpanFact, tree: SpanTree) -> str | None:
    """Return the run by run id or ancestry, or None."""
    if fact.run_id is not None:
        return fact.run_id
    root = fact if fact.entry is Entry.INVOKE else None
    for ancestor in tree.ancestors(fact):
        if ancestor.run_id is not None:
            return ancestor.run_id
        if ancestor.entry is Entry.INVOKE:
            root = ancestor
    return inferred_run_id(root) if root is not None else None
