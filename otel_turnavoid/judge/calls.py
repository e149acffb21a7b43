"""Model calls and tool executions, each once, however many spans show it.

Two instrumentations of one call (framework and provider) are one call. How a span was known as
a copy is kept as a ``Rule``: it lies in the other without another entry between them; it has
the same response id, or asks for or executes the same tool call, at the same time in another
scope; it lies in the other's time in another scope and says the same; it lies inside a call of
ours in the same trace. What contradicts, such as two different response ids, is never one call.
Complementary attributes are joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.judge.spans import SpanTree, by_time, within
from otel_turnavoid.vocabulary import Disposition, Entry, Purpose, ToolDisposition, Word

_T = TypeVar("_T")
_GENERATING: Final = (Purpose.AGENT, Purpose.SPECULATION)
_USAGE_FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning")


class Rule(Word):
    """How a span was known to show a call or tool execution that another span shows too."""

    NESTED = "nested"
    INSIDE_OURS = "inside a call of ours"
    RESPONSE_ID = "same response id"
    TOOL_CALL_ID = "same tool call id"
    TIME_AND_USAGE = "contained in time, same usage"
    TIME_AND_NAME = "contained in time, same tool"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One LlmCall: the span that stands for it, and what all its spans together say."""

    fact: SpanFact
    copies: tuple[SpanFact, ...]
    rules: tuple[Rule, ...]
    """How each of the copies was known as one."""
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
            and self.purpose in _GENERATING
            and _detail(self.fact).samplings != 0
        )

    @property
    def continues(self) -> bool:
        """Whether it says that it only went on with an answer which the model had begun."""
        return (
            self.disposition is Disposition.COMMITTED
            and self.purpose in _GENERATING
            and _detail(self.fact).samplings == 0
        )

    @property
    def began(self) -> bool:
        """Whether the model began an answer here, also one that was cut or thrown away."""
        samplings = _detail(self.fact).samplings
        if self.purpose not in _GENERATING or samplings == 0:
            return False
        refused = samplings is None and self.disposition is Disposition.FAILED
        return not refused or bool(self.usage.output)

    @property
    def input_digest(self) -> str | None:
        """What it states of its whole input."""
        return _detail(self.fact).input_digest

    @property
    def plain_input(self) -> int | None:
        """The tokens of its input, where its model counts every such input alike.

        Cached tokens and inner samplings are counted in many ways.
        """
        once = _detail(self.fact).samplings in (None, 1)
        cached = self.usage.cache_read or self.usage.cache_write
        return self.usage.input if once and not cached else None

    @property
    def attempts(self) -> int:
        """How many calls it took, as far as seen: with those that its client sent again."""
        return 1 + (self.resends or 0)

    @property
    def resends(self) -> int | None:
        """How often its client sent the request again within the span; None: no span says."""
        if self.fact.own:
            return 0
        said = [_detail(fact).resends for fact in (self.fact, *self.copies)]
        return max((resends for resends in said if resends is not None), default=None)

    @property
    def overwritten(self) -> bool:
        """Whether the span shows only the last of an unknown number of calls."""
        return _detail(self.fact).overwritten


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One ToolTurn."""

    fact: SpanFact
    copies: tuple[SpanFact, ...]
    rules: tuple[Rule, ...]
    """How each of the copies was known as one."""
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
    made = []
    for group in _once(tree, Entry.LLM_CALL):
        first, *copies = group.spans
        # What is nearest to the wire saw the answer itself; ours knows what was meant.
        ordered = [first, *reversed(copies)] if first.own else group.spans[::-1]
        details = [_detail(fact) for fact in ordered]
        made.append(
            Call(
                fact=first,
                copies=tuple(copies),
                rules=tuple(group.rules),
                model=_first(detail.model for detail in details),
                usage=_joined_usage([detail.usage for detail in details]),
                cost_usd=_first(fact.cost_usd for fact in group.spans),
            )
        )
    return made


def tools_of(tree: SpanTree) -> list[Tool]:
    """Return every tool execution once, by time."""
    return [
        Tool(
            fact=group.spans[0],
            copies=tuple(group.spans[1:]),
            rules=tuple(group.rules),
            cost_usd=_first(fact.cost_usd for fact in group.spans),
        )
        for group in _once(tree, Entry.TOOL_TURN)
    ]


def loop_inside(tree: SpanTree, calls: Sequence[Call], tools: Sequence[Tool]) -> SpanFact | None:
    """Return another instrumentation's span of a call that must have sampled again inside it.

    A tool ran in its time and below it, and no call came after: who read the tool's result did
    so within the same span. How often the model was sampled, nothing tells. A call that came
    after may have read it: some instrumentations leave a call's span open over its tools.
    """
    latest_ns = max((call.fact.start_ns for call in calls), default=0)
    for tool in tools:
        if tool.fact.own or tool.fact.end_ns <= latest_ns:
            continue
        around = tree.nearest(tool.fact, Entry.LLM_CALL)
        if around is not None and not around.own and not around.failed:
            return around
    return None


def shared_rule(fact: SpanFact, other: SpanFact) -> Rule | None:
    """Return by which rule two spans that do not lie in each other show one thing, or None.

    They must come from two instrumentations and overlap in time. A gateway may give a stored
    answer again, id and all: a later call with the same id, or a second one beside it that the
    same instrumentation shows, is another call.
    """
    if fact.entry is not other.entry or fact.scope == other.scope or not _overlap(fact, other):
        return None
    if fact.entry is Entry.TOOL_TURN:
        return _shared_tool(fact, other)
    mine, theirs = _detail(fact), _detail(other)
    if mine.response_id and theirs.response_id:
        return Rule.RESPONSE_ID if mine.response_id == theirs.response_id else None
    if mine.asks and theirs.asks:
        return Rule.TOOL_CALL_ID if mine.asks == theirs.asks else None
    alike = _same_usage(mine.usage, theirs.usage) or (
        fact.failed and other.failed and mine.usage == theirs.usage == Usage()
    )
    same = alike and fact.failed == other.failed
    return Rule.TIME_AND_USAGE if same and _beside(fact, other) else None


class _Group:
    """Spans that show the same thing, the one that stands for it first."""

    __slots__ = ("rules", "spans")

    def __init__(self, first: SpanFact) -> None:
        self.spans = [first]
        self.rules: list[Rule] = []

    def add(self, fact: SpanFact, rule: Rule) -> None:
        self.spans.append(fact)
        self.rules.append(rule)


class _Groups:
    """All groups of one kind of entry in one run."""

    def __init__(self, tree: SpanTree, spans: Sequence[SpanFact]) -> None:
        self._tree = tree
        self._spans = spans
        self._of = {id(fact): _Group(fact) for fact in spans if fact.own}
        self._wrapped = {
            id(outer): self._of[id(fact)]
            for fact in spans
            if fact.own and (outer := _wrapper(fact, tree))
        }
        self.all = list(self._of.values())
        self._marked: dict[str, list[_Group]] = defaultdict(list)
        for group in self.all:
            self._mark(group.spans[0], group)

    def take(self, fact: SpanFact) -> None:
        """Put another instrumentation's span to the call that it shows, or begin a new one."""
        found = self._containing(fact) or self._alike(fact)
        if found is None:
            group = _Group(fact)
            self.all.append(group)
        else:
            group, rule = found
            group.add(fact, rule)
        self._of[id(fact)] = group
        self._mark(fact, group)

    def _mark(self, fact: SpanFact, group: _Group) -> None:
        for mark in _marks(fact):
            self._marked[mark].append(group)

    def _containing(self, fact: SpanFact) -> tuple[_Group, Rule] | None:
        """Return the group of the call that this span wraps or lies in, if it shows the same."""
        if id(fact) in self._wrapped:
            return self._wrapped[id(fact)], Rule.NESTED
        for ancestor in self._tree.ancestors(fact):
            if ancestor.entry is fact.entry:
                group = self._of.get(id(ancestor))
                return (group, Rule.NESTED) if group and self._shows(fact, group) else None
            if ancestor.entry is not None:
                return None
        if self._tree.parent(fact) is not None or fact.run_id is not None:
            return None
        ours = [
            other
            for other in self._spans
            if other.own and other.trace_id == fact.trace_id and within(fact, other)
        ]
        group = self._of[id(ours[0])] if len(ours) == 1 else None
        return (group, Rule.INSIDE_OURS) if group and self._shows(fact, group) else None

    def _shows(self, fact: SpanFact, group: _Group) -> bool:
        """Whether a span inside of a call may be a copy of it, as nothing speaks against that."""
        return _may_be_one(fact, group) and not self._another(fact, group)

    def _another(self, fact: SpanFact, group: _Group) -> bool:
        """Whether the call has a span of this scope that this one does not lie in.

        A span around several calls, such as one of a fallback, shows one of them.
        """
        around = {id(ancestor) for ancestor in self._tree.ancestors(fact)}
        return any(
            copy.scope == fact.scope and not copy.own and id(copy) not in around
            for copy in group.spans
        )

    def _alike(self, fact: SpanFact) -> tuple[_Group, Rule] | None:
        """Return the group that says the same at the same time; an id before anything else."""
        found: dict[Rule, _Group] = {}
        candidates = {id(each): each for mark in _marks(fact) for each in self._marked[mark]}
        for group in candidates.values():
            if any(fact.scope == copy.scope for copy in group.spans):
                continue
            rules = {rule for copy in group.spans if (rule := shared_rule(fact, copy))}
            if rules and _may_be_one(fact, group):
                for rule in rules:
                    found.setdefault(rule, group)
        return next(((found[rule], rule) for rule in Rule if rule in found), None)


def _once(tree: SpanTree, entry: Entry) -> list[_Group]:
    """Return groups of spans that show the same thing, by time."""
    spans = [fact for fact in tree.facts if fact.entry is entry]
    if all(fact.own for fact in spans):
        return [_Group(fact) for fact in spans]
    # Ours carry a sequence number, so two of ours are never the same call.
    groups = _Groups(tree, spans)
    others = [fact for fact in spans if not fact.own]
    for fact in sorted(others, key=lambda fact: _outermost_first(fact, tree)):
        groups.take(fact)
    return sorted(groups.all, key=lambda group: by_time(group.spans[0]))


def _outermost_first(fact: SpanFact, tree: SpanTree) -> tuple[int, bool, int, int, str, str]:
    # By nesting before time: the clocks of two processes may differ. Of several calls in one
    # span, the span shows the one that succeeded.
    depth = sum(each.entry is fact.entry for each in tree.ancestors(fact))
    return (depth, fact.failed, fact.start_ns, -fact.end_ns, fact.trace_id, fact.span_id)


def _wrapper(fact: SpanFact, tree: SpanTree) -> SpanFact | None:
    """Return the other instrumentation's span of the same kind directly around one of ours."""
    around = next((each for each in tree.ancestors(fact) if each.entry is not None), None)
    same = around is not None and around.entry is fact.entry and not around.own
    return around if same else None


def _marks(fact: SpanFact) -> Iterator[str]:
    """Yield what a span must have in common with another for ``shared_rule`` to find anything."""
    if fact.tool is not None:
        yield f"id {fact.tool.call_id}"
        yield f"name {fact.tool.name}"
    if fact.call is not None:
        yield f"id {fact.call.response_id}"
        yield f"asks {fact.call.asks}"
        yield f"input {fact.call.usage.input}"


def _may_be_one(fact: SpanFact, group: _Group) -> bool:
    """Whether nothing that the spans say about themselves speaks against their being one."""
    if fact.entry is Entry.TOOL_TURN:
        mine = fact.tool or ToolDetail()
        said = [copy.tool for copy in group.spans if copy.tool is not None]
        return all(
            _agree(mine.name, theirs.name) and _agree(mine.call_id, theirs.call_id)
            for theirs in said
        )
    return all(_agree(_detail(fact).response_id, _detail(copy).response_id) for copy in group.spans)


def _shared_tool(fact: SpanFact, other: SpanFact) -> Rule | None:
    mine, theirs = fact.tool or ToolDetail(), other.tool or ToolDetail()
    if mine.call_id and theirs.call_id:
        return Rule.TOOL_CALL_ID if mine.call_id == theirs.call_id else None
    named = mine.name is not None and mine.name == theirs.name
    return Rule.TIME_AND_NAME if named and _beside(fact, other) else None


def _agree(mine: str | None, theirs: str | None) -> bool:
    return mine is None or theirs is None or mine == theirs


def _contained(fact: SpanFact, other: SpanFact) -> bool:
    return within(fact, other) or within(other, fact)


def _beside(fact: SpanFact, other: SpanFact) -> bool:
    """Whether two spans of other instrumentations lie in each other's time.

    Beside one of ours, time alone does not speak for a copy: an undeclared call would hide there.
    """
    return not fact.own and not other.own and _contained(fact, other)


def _overlap(fact: SpanFact, other: SpanFact) -> bool:
    overlapping = other.start_ns < fact.end_ns and fact.start_ns < other.end_ns
    return overlapping or _contained(fact, other)


def _same_usage(mine: Usage, theirs: Usage) -> bool:
    """Whether two spans say the same tokens, as far as both say them; the input must be said."""
    said = [
        (getattr(mine, field), getattr(theirs, field))
        for field in ("input", "output")
        if None not in (getattr(mine, field), getattr(theirs, field))
    ]
    known = mine.input is not None and theirs.input is not None
    return known and all(one == other for one, other in said)


def _detail(fact: SpanFact) -> CallDetail:
    return fact.call or _NOTHING


_NOTHING: Final = CallDetail()


def _joined_usage(usages: Sequence[Usage]) -> Usage:
    joined = {field: _first(getattr(usage, field) for usage in usages) for field in _USAGE_FIELDS}
    return Usage(**joined)


def _first(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in values if value is not None), None)
