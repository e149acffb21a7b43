"""Model calls and tool executions, each once, however many spans show it.

Two instrumentations of one call (framework and provider) are one call. Copies are known by
the same response or tool call id in two scopes at the same time, by nesting without another
entry between them, or by lying inside a call of ours in the same trace. Their complementary
attributes are joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.judge.spans import SpanTree, by_time
from otel_turnavoid.vocabulary import Disposition, Entry, Purpose, ToolDisposition

_T = TypeVar("_T")
_USAGE_FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One LlmCall: the span that stands for it, and what all its spans together say."""

    fact: SpanFact
    copies: tuple[SpanFact, ...]
    model: str | None
    usage: Usage
    cost_usd: float | None

    @property
    def purpose(self) -> Purpose:
        """What it was for; undeclared means ``agent``."""
        return _detail(self.fact).purpose or Purpose.AGENT

    @property
    def disposition(self) -> Disposition:
        """What became of it; undeclared, its status says."""
        stated = _detail(self.fact).disposition
        if stated is not None:
            return stated
        return Disposition.FAILED if self.fact.failed else Disposition.COMMITTED

    @property
    def generated(self) -> bool:
        """Whether this is a successful generation that a turn can be committed with."""
        return (
            self.disposition is Disposition.COMMITTED
            and self.purpose in (Purpose.AGENT, Purpose.SPECULATION)
            and _detail(self.fact).samplings != 0
        )


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One ToolTurn."""

    fact: SpanFact
    copies: tuple[SpanFact, ...]
    cost_usd: float | None

    @property
    def disposition(self) -> ToolDisposition:
        """What became of it; undeclared means ``executed``."""
        detail = self.fact.tool or ToolDetail()
        return detail.disposition or ToolDisposition.EXECUTED

    @property
    def executed(self) -> bool:
        """Whether the tool ran and its result was used."""
        return self.disposition in (ToolDisposition.EXECUTED, ToolDisposition.SPECULATED)


def calls_of(tree: SpanTree) -> list[Call]:
    """Return every call once, by time."""
    return [
        Call(
            fact=first,
            copies=tuple(copies),
            model=_first(_detail(fact).model for fact in (first, *copies)),
            usage=_joined_usage([_detail(fact).usage for fact in (first, *copies)]),
            cost_usd=_first(fact.cost_usd for fact in (first, *copies)),
        )
        for first, *copies in _once(tree, Entry.LLM_CALL, lambda fact: _detail(fact).response_id)
    ]


def tools_of(tree: SpanTree) -> list[Tool]:
    """Return every tool execution once, by time."""
    return [
        Tool(
            fact=first,
            copies=tuple(copies),
            cost_usd=_first(fact.cost_usd for fact in (first, *copies)),
        )
        for first, *copies in _once(
            tree, Entry.TOOL_TURN, lambda fact: fact.tool.call_id if fact.tool else None
        )
    ]


def _once(
    tree: SpanTree, entry: Entry, identity: Callable[[SpanFact], str | None]
) -> list[list[SpanFact]]:
    """Return groups of spans that show the same thing, each led by the span that stands for it."""
    spans = [fact for fact in tree.facts if fact.entry is entry]
    if all(fact.own for fact in spans):
        return [[fact] for fact in spans]
    # Ours carry a sequence number, so two of ours are never the same call.
    groups = [[fact] for fact in spans if fact.own]
    group_of = {id(ours[0]): ours for ours in groups}
    wrapped = {id(outer): ours for ours in groups if (outer := _wrapper(ours[0], tree))}
    by_id: dict[str | None, list[list[SpanFact]]] = defaultdict(list)
    for ours in groups:
        by_id[identity(ours[0])].append(ours)
    others = [fact for fact in spans if not fact.own]
    for fact in sorted(others, key=lambda fact: _outermost_first(fact, tree)):
        known = identity(fact)
        group: list[SpanFact] | None = wrapped.get(id(fact))
        group = group or _around(fact, tree, spans, group_of)
        if group is None and known is not None:
            group = next((each for each in by_id[known] if _same_call(fact, each)), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(fact)
        group_of[id(fact)] = group
        by_id[known].append(group)
    return sorted(groups, key=lambda group: by_time(group[0]))


def _outermost_first(fact: SpanFact, tree: SpanTree) -> tuple[int, int, int, str, str]:
    # By nesting before time: the clocks of two processes may differ.
    depth = sum(each.entry is fact.entry for each in tree.ancestors(fact))
    return (depth, fact.start_ns, -fact.end_ns, fact.trace_id, fact.span_id)


def _wrapper(fact: SpanFact, tree: SpanTree) -> SpanFact | None:
    """Return the other instrumentation's span of the same kind directly around one of ours."""
    around = next((each for each in tree.ancestors(fact) if each.entry is not None), None)
    same = around is not None and around.entry is fact.entry and not around.own
    return around if same else None


def _same_call(fact: SpanFact, group: Sequence[SpanFact]) -> bool:
    """Whether a span with the id of a group is one more span of its call.

    That is so for another instrumentation's span at the same time. A gateway may give a stored
    answer again, id and all: a later call with the same id, or a second one beside it that the
    same instrumentation shows, is another call.
    """
    first = group[0]
    within = first.start_ns <= fact.start_ns and fact.end_ns <= first.end_ns
    overlapping = first.start_ns < fact.end_ns and fact.start_ns < first.end_ns
    elsewhere = all(fact.scope != copy.scope for copy in group)
    return elsewhere and (overlapping or within)


def _around(
    fact: SpanFact, tree: SpanTree, spans: Sequence[SpanFact], group_of: dict[int, list[SpanFact]]
) -> list[SpanFact] | None:
    """Return the group of the call that this span lies in, if it shows the same call."""
    for ancestor in tree.ancestors(fact):
        if ancestor.entry is fact.entry:
            return group_of.get(id(ancestor))
        if ancestor.entry is not None:
            return None
    if tree.parent(fact) is not None or fact.run_id is not None:
        return None
    containing = [
        other
        for other in spans
        if other.own
        and other.trace_id == fact.trace_id
        and other.start_ns <= fact.start_ns
        and fact.end_ns <= other.end_ns
    ]
    return group_of.get(id(containing[0])) if len(containing) == 1 else None


def _detail(fact: SpanFact) -> CallDetail:
    return fact.call or CallDetail()


def _joined_usage(usages: Sequence[Usage]) -> Usage:
    joined = {field: _first(getattr(usage, field) for usage in usages) for field in _USAGE_FIELDS}
    return Usage(**joined)


def _first(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in values if value is not None), None)
