"""Why something is a committed turn, or why not, in words.

Counting is shown by calling the judge's own functions again on the stored facts.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_turnavoid.judge.calls import Call, Tool
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.turns import ModelTurn
from otel_turnavoid.publish.explanation import (
    CallLine,
    Copy,
    Merged,
    TurnLine,
)
from otel_turnavoid.vocabulary import (
    Disposition,
    Entry,
    Purpose,
)


def turn_lines(turns: Sequence[ModelTurn], tree: SpanTree) -> tuple[TurnLine, ...]:
    """Return the turns of a run, the committed ones numbered from 1."""
    lines, number = [], 0
    for turn in turns:
        number += turn.committed
        lines.append(
            TurnLine(
                number=number if turn.committed else None,
                of=name_of(turn.fact),
                because=_because(turn, tree),
                calls=tuple(_call_line(call) for call in turn.calls),
            )
        )
    return tuple(lines)


def _call_line(call: Call) -> CallLine:
    detail = call.fact.call
    said: list[str] = [call.disposition]
    if call.purpose is not Purpose.AGENT:
        said.append(f"purpose {call.purpose}")
    if detail is not None and detail.samplings == 0:
        said.append("continuation")
    return CallLine(
        of=name_of(call.fact),
        model=call.model,
        attempt=detail.attempt if detail is not None else None,
        became=", ".join(said),
    )


def name_of(fact: SpanFact) -> str:
    """Return how people find a span: by its sequence number, else by its id."""
    return f"entry {fact.seq}" if fact.seq is not None else f"span {fact.span_id}"


def _because(turn: ModelTurn, tree: SpanTree) -> str:
    """Return why something is a committed turn, or why not."""
    calls = turn.calls
    failed = sum(call.disposition is Disposition.FAILED for call in calls)
    stated = turn.fact.entry is Entry.AGENT_TURN
    if not turn.committed:
        return _because_not(turn, failed=failed, stated=stated)
    generated = sum(call.generated for call in calls)
    where = "an AgentTurn"
    if not stated:
        changed = tree.nearest(turn.fact, Entry.AGENT_TURN) is not None
        where = "a changed input in the same AgentTurn" if changed else "a call outside AgentTurns"
    if not calls:
        return "an AgentTurn that says so; no call inside it was seen"
    because = f"{where}, with a successful generation"
    if failed:
        retries = "attempt" if failed == 1 else "attempts"
        because += f" after {failed} failed {retries} at the same input (retries add no turn)"
    if generated > 1:
        because += f"; {generated} generations on one input are one turn"
    if any(call.fact.call is not None and call.fact.call.samplings == 0 for call in calls):
        because += "; a continuation samples nothing new"
    return because


def _because_not(turn: ModelTurn, *, failed: int, stated: bool) -> str:
    calls = turn.calls
    if stated and turn.fact.turn is Disposition.DISCARDED:
        return "its result was thrown away; its work is overhead"
    if not calls:
        if turn.fact.turn is Disposition.FAILED:
            return "it failed"
        return "empty, and a call outside AgentTurns may be its own: together they are one"
    if failed == len(calls):
        return "every attempt failed; its work is overhead"
    purposes = sorted({call.purpose.value for call in calls if call.purpose is not Purpose.AGENT})
    if purposes:
        return f"calls for {' and '.join(purposes)} are no turns of the agent"
    if all(call.disposition is Disposition.DISCARDED for call in calls):
        return "its result was thrown away; its work is overhead"
    return "nothing new was sampled"


def merged_spans(each: Call | Tool) -> Merged:
    """Return the spans that show one call or tool, and how each was known to."""
    copies = zip(each.copies, each.rules, strict=True)
    return Merged(
        of=name_of(each.fact),
        scope=each.fact.scope,
        copies=tuple(
            Copy(span_id=copy.span_id, scope=copy.scope, rule=rule) for copy, rule in copies
        ),
    )
