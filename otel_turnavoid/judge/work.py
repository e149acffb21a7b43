"""What a run's work took: time and stated cost of model calls, tools and overhead.

Gross is work before overhead. Every span is counted once: work inside counted work is taken
out of the outer span, and whatever lies inside a span of overhead is that overhead.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from otel_turnavoid.judge.calls import Call, Tool
from otel_turnavoid.judge.facts import SpanFact, Usage
from otel_turnavoid.judge.run import Batch, Work
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.turns import ModelTurn
from otel_turnavoid.vocabulary import Disposition, OverheadKind, Purpose, ToolDisposition

_MODEL, _TOOL = "model", "tool"


def work_of(tree: SpanTree, turns: Sequence[ModelTurn], tools: Sequence[Tool]) -> Work:
    """Return the work of a run."""
    buckets: dict[int, tuple[SpanFact, str, float | None]] = {}
    for turn in turns:
        for call in turn.calls:
            discarded = turn.fact.turn is Disposition.DISCARDED
            bucket = _bucket(call.disposition, call.purpose, discarded=discarded)
            buckets[id(call.fact)] = (call.fact, bucket, call.cost_usd)
    for tool in tools:
        thrown_away = tool.disposition is ToolDisposition.DISCARDED
        bucket = OverheadKind.SPECULATION.value if thrown_away else _TOOL
        buckets[id(tool.fact)] = (tool.fact, bucket, tool.cost_usd)
    for fact in tree.facts:
        if fact.overhead is not None:
            buckets[id(fact)] = (fact, fact.overhead.value, fact.cost_usd)
    calls = [call for turn in turns for call in turn.calls]
    unpriced = {
        "unpriced_calls": sum(
            _spent_unsaid(call) and not _covered(call.fact, tree) for call in calls
        ),
        "unpriced_tools": sum(
            tool.executed and tool.cost_usd is None and not _covered(tool.fact, tree)
            for tool in tools
        ),
    }
    spent: dict[str, list[float]] = defaultdict(list)
    for fact, bucket, cost in buckets.values():
        outer = [over for over in tree.ancestors(fact) if id(over) in buckets]
        overhead = [over for over in outer if over.overhead is not None]
        if overhead:
            # Its time is in the span around it; so is its cost, where that states one.
            if all(over.cost_usd is None for over in overhead):
                spent[f"{buckets[id(overhead[-1])][1]}_usd"].append(cost or 0.0)
            continue
        milliseconds = max(fact.end_ns - fact.start_ns, 0) / 1e6
        spent[f"{bucket}_ms"].append(milliseconds)
        spent[f"{bucket}_usd"].append(cost or 0.0)
        if outer:
            spent[f"{buckets[id(outer[0])][1]}_ms"].append(-milliseconds)
    # Parallel work inside one span may take longer than the span itself.
    amounts: dict[str, Any] = {n: max(math.fsum(parts), 0.0) for n, parts in spent.items()}
    return Work(**amounts, **unpriced)


def _spent_unsaid(call: Call) -> bool:
    """Whether a call took something and nothing says what that costs.

    A call that failed without any usage, such as a refused connection, is taken as free.
    """
    if call.cost_usd is not None:
        return False
    return call.disposition is not Disposition.FAILED or call.usage != Usage()


def _covered(fact: SpanFact, tree: SpanTree) -> bool:
    """Whether overhead around a span states a cost, which is then the span's too."""
    return any(
        over.overhead is not None and over.cost_usd is not None
        for over in (fact, *tree.ancestors(fact))
    )


def _bucket(disposition: Disposition, purpose: Purpose, *, discarded: bool) -> str:
    if purpose is Purpose.VALIDATION:
        return OverheadKind.VALIDATION.value
    if discarded or disposition is Disposition.DISCARDED:
        return OverheadKind.SPECULATION.value
    if disposition is Disposition.FAILED:
        return OverheadKind.RETRY.value
    return _MODEL


def batches_of(turns: Sequence[ModelTurn], tools: Sequence[Tool]) -> tuple[Batch, ...]:
    """Return the tool executions between one committed turn and the next, as batches."""
    starts = sorted(turn.fact.start_ns for turn in turns if turn.committed)
    grouped: dict[int, list[SpanFact]] = defaultdict(list)
    for tool in tools:
        if tool.executed:
            grouped[bisect_right(starts, tool.fact.start_ns)].append(tool.fact)
    return tuple(
        Batch(size=len(facts), depth=_depth(facts)) for _, facts in sorted(grouped.items())
    )


def _depth(facts: Sequence[SpanFact]) -> int:
    """Return the length of the longest chain of spans that ran one after the other."""
    depth, free_from = 0, None
    for fact in sorted(facts, key=lambda fact: (fact.end_ns, fact.start_ns)):
        if free_from is None or fact.start_ns >= free_from:
            depth, free_from = depth + 1, fact.end_ns
    return depth
