"""Whether a run proves that nothing of it is missing.

A missing span looks exactly like an avoided turn. A declared run is whole only if the
outermost Invoke states how many entries there were and every one of them arrived, numbered
without a gap (design sections 2 and 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from otel_turnavoid.judge.calls import Call, Tool
from otel_turnavoid.judge.facts import Counts, InvokeDetail, SpanFact
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.vocabulary import Entry, InvokeState

_SHOWN = 8


def outermost_invokes(tree: SpanTree) -> list[SpanFact]:
    """Return the Invokes that are not sub-agents, in order: one for each segment of a run."""
    invokes = [fact for fact in tree.facts if fact.own and fact.entry is Entry.INVOKE]
    outermost = [fact for fact in invokes if _is_outermost(fact, tree)]
    return sorted(outermost, key=lambda fact: (fact.seq or 0, fact.start_ns, fact.span_id))


def _is_outermost(fact: SpanFact, tree: SpanTree) -> bool:
    """Tell the Invoke of a run or of its next segment from a sub-agent's.

    Having no parent is not enough: a sub-agent may run in a trace of its own, and it ends, and
    is exported, before its caller. It has neither counts nor a digest, and is not the first
    entry.
    """
    said = fact.invoke or InvokeDetail()
    if fact.seq == 0 or said.counts is not None:
        return True
    segment = fact.seq is None or said.digest is not None or said.state is InvokeState.PAUSED
    return segment and not any(ancestor.own for ancestor in tree.ancestors(fact))


def last_invoke(outermost: Sequence[SpanFact]) -> SpanFact | None:
    """Return the Invoke that a run ends with: the last to declare counts, else the last."""
    declaring = [fact for fact in outermost if fact.invoke and fact.invoke.counts]
    return next(reversed(declaring or list(outermost)), None)


def missing(
    tree: SpanTree, counts: Counts, calls: Sequence[Call], tools: Sequence[Tool]
) -> Iterator[str]:
    """Yield what a run lacks, or has too much of, against its declared counts, a line each.

    Other instrumentations' spans stand in the counts as raw spans if they carry the run id;
    those that do not, and are no copies of a counted one, were not declared.
    """
    entries = [fact for fact in tree.facts if fact.own and fact.entry is not None]
    turns = [fact for fact in entries if fact.entry is Entry.AGENT_TURN]
    call_spans = [fact for call in calls for fact in (call.fact, *call.copies)]
    tool_spans = [fact for tool in tools for fact in (tool.fact, *tool.copies)]
    yield from _differs("AgentTurns", counts.agent_turns, len(turns))
    yield from _differs("LlmCalls", counts.llm_calls, _declared(call_spans))
    yield from _differs("ToolTurns", counts.tool_turns, _declared(tool_spans))
    yield from _differs("entries", counts.entries, len(entries))
    numbers = _numbers(tree)
    yield from _lost(numbers, counts.entries)
    beyond = sorted(number for number in numbers if number >= counts.entries)
    if beyond:
        yield f"sequence number {beyond[-1]} is beyond the {counts.entries} declared entries"
    shown_by = [(call.fact, *call.copies) for call in calls]
    shown_by += [(tool.fact, *tool.copies) for tool in tools]
    undeclared = sum(1 for spans in shown_by if not _declared(spans))
    if undeclared:
        yield f"{undeclared} calls or tools inside the run were not declared by its Invoke"


def gaps(tree: SpanTree) -> Iterator[str]:
    """Yield what a run without declared counts lacks for certain: numbers below the last seen."""
    numbers = _numbers(tree)
    yield from _lost(numbers, max(numbers, default=0))


def _numbers(tree: SpanTree) -> set[int]:
    """Return the sequence numbers of the entries that arrived."""
    entries = (fact for fact in tree.facts if fact.own and fact.entry is not None)
    return {fact.seq for fact in entries if fact.seq is not None}


def _lost(numbers: set[int], entries: int) -> Iterator[str]:
    lost = entries - sum(number < entries for number in numbers)
    if lost:
        never = (number for number in range(entries) if number not in numbers)
        shown = ", ".join(map(str, islice(never, _SHOWN))) + (", …" if lost > _SHOWN else "")
        noun = "sequence number" if lost == 1 else "sequence numbers"
        yield f"{lost} {noun} never arrived: {shown}"


def _differs(what: str, declared: int, seen: int) -> Iterator[str]:
    if declared != seen:
        yield f"{declared} {what} declared, {seen} seen"


def _declared(spans: Sequence[SpanFact]) -> int:
    return sum(1 for fact in spans if fact.own or fact.run_id is not None)
