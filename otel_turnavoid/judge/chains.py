"""Purpose by conversation: a loop call extends the input of the one before, a side call does not.

Only where the configuration asks for it, and only for calls that no one says the purpose of. In
each agent the calls whose inputs extend each other are the loop. A call on another input is side
work if the loop demonstrably went on past it. Whatever may as well be a sub-agent's, or the loop
after its history was cut or compacted, is not decided.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from otel_turnavoid.judge.calls import Call, calls_of
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.vocabulary import Entry, Purpose

Chain = tuple[str, ...]


def with_purposes(facts: Iterable[SpanFact]) -> tuple[list[SpanFact], list[str]]:
    """Return a run's facts with the purposes that the inputs tell, and a line for each doubt."""
    facts = list(facts)
    if all(fact.call is None or fact.call.chain is None for fact in facts):
        return facts, []
    tree = SpanTree(facts)
    calls: dict[tuple[str, str] | None, list[Call]] = defaultdict(list)
    for call in calls_of(tree):
        spans = (call.fact, *call.copies)
        if all(span.call is None or span.call.purpose is None for span in spans):
            calls[_place(call.fact, tree)].append(call)
    tools = [fact for fact in tree.facts if fact.entry is Entry.TOOL_TURN]
    side: set[tuple[str, str]] = set()
    doubts: list[str] = []
    for group in calls.values():
        found, doubt = _side_calls(group, tools)
        side.update((call.fact.trace_id, call.fact.span_id) for call in found)
        doubts += [doubt] if doubt else []
    return [_as_side(fact) if _key(fact) in side else fact for fact in facts], doubts


def _side_calls(
    calls: Sequence[Call], tools: Sequence[SpanFact]
) -> tuple[Sequence[Call], str | None]:
    """Return the side calls of one agent, or why they cannot be told."""
    if len(calls) == 1:
        return (), None
    chains = [_chain(call) for call in calls]
    without = sum(not chain for chain in chains)
    if without:
        return (), f"purpose unknown: {without} of {len(calls)} calls show no whole input messages"
    parents = _parents(chains)
    if any(count > 1 for parent, count in Counter(parents.values()).items() if parent):
        return (), "purpose unknown: several calls extend the same input messages"
    roots = {end: _root(end, parents) for end in parents}
    if len(set(roots.values())) == 1:
        return (), None
    loops = [root for root, count in Counter(roots.values()).items() if count > 1]
    if len(loops) != 1:
        return (), f"purpose unknown: {len(loops)} conversations in one agent extend their input"
    loop: list[Call] = []
    others: list[Call] = []
    for call, chain in zip(calls, chains, strict=True):
        (loop if roots[chain[-1]] == loops[0] else others).append(call)
    last_ns = max(call.fact.start_ns for call in loop)
    for call in others:
        if call.fact.start_ns >= last_ns:
            return (), "purpose unknown: a call on other input messages came after the loop's last"
        if any(_overlap(call.fact, tool) for tool in tools):
            return (), "purpose unknown: a call on other input messages came while a tool ran"
    return others, None


def _parents(chains: Iterable[Chain]) -> dict[str, str | None]:
    """Return for each input the longest other that it extends, each as the last of its chain."""
    by_end = {chain[-1]: chain for chain in chains}
    return {
        end: next((before for before in reversed(chain[:-1]) if before in by_end), None)
        for end, chain in by_end.items()
    }


def _root(end: str, parents: dict[str, str | None]) -> str:
    while (before := parents[end]) is not None:
        end = before
    return end


def _chain(call: Call) -> Chain:
    """Return the chain of its input; each hash in it stands for everything up to there."""
    spans = (call.fact, *call.copies)
    return next((span.call.chain for span in spans if span.call and span.call.chain), ())


def _place(fact: SpanFact, tree: SpanTree) -> tuple[str, str] | None:
    """Return the agent, or the tool, that a call was made by."""
    around = (each for each in tree.ancestors(fact) if each.entry in _MAKERS)
    return next(map(_key, around), None)


_MAKERS = (Entry.INVOKE, Entry.TOOL_TURN)


def _key(fact: SpanFact) -> tuple[str, str]:
    return (fact.trace_id, fact.span_id)


def _overlap(one: SpanFact, other: SpanFact) -> bool:
    return one.start_ns < other.end_ns and other.start_ns < one.end_ns


def _as_side(fact: SpanFact) -> SpanFact:
    if fact.call is None:
        return fact
    return msgspec.structs.replace(
        fact, call=msgspec.structs.replace(fact.call, purpose=Purpose.SIDE)
    )
