"""Model turns: AgentTurns with at least one successful, not discarded generation.

Calls belong to the AgentTurn they lie in. Calls outside of any AgentTurn make turns by the
retry rule: consecutive calls with the completely identical input are attempts at one turn, and
failed attempts belong to the turn that follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from otel_turnavoid.judge.calls import Call
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.vocabulary import Disposition, Entry


class ModelTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One AgentTurn, stated by a span or made from its calls."""

    fact: SpanFact
    """The AgentTurn's span, or the first call of a turn without one."""
    calls: tuple[Call, ...]
    committed: bool


def turns_of(tree: SpanTree, calls: Sequence[Call]) -> list[ModelTurn]:
    """Return the turns of a run, committed or not, by time."""
    spans = [fact for fact in tree.facts if fact.own and fact.entry is Entry.AGENT_TURN]
    members: dict[int, list[Call]] = {id(fact): [] for fact in spans}
    outside: list[Call] = []
    for call in calls:
        turn = _turn_around(call.fact, tree, spans)
        (outside if turn is None else members[id(turn)]).append(call)
    # With generations outside of every turn, an empty turn may be one of theirs: one is counted.
    believed = not any(call.generated for call in outside)
    turns = [_stated(fact, members[id(fact)], believed=believed) for fact in spans]
    turns += _made_of(outside)
    return sorted(turns, key=lambda turn: (turn.fact.start_ns, turn.fact.span_id))


def _stated(fact: SpanFact, calls: Sequence[Call], *, believed: bool) -> ModelTurn:
    """Return a turn with a span of its own.

    What its calls show outweighs what it says, except that it alone can say that its result
    was thrown away.
    """
    says = fact.turn or Disposition.COMMITTED
    if says is Disposition.DISCARDED:
        committed = False
    elif calls:
        committed = any(call.generated for call in calls)
    else:
        committed = believed and says is Disposition.COMMITTED
    return ModelTurn(fact=fact, calls=tuple(calls), committed=committed)


def _turn_around(call: SpanFact, tree: SpanTree, turns: Sequence[SpanFact]) -> SpanFact | None:
    """Return the AgentTurn that a call lies in.

    By ancestry; where the parents are flat, lost or exported under other ids, the last turn
    by sequence number of those that contain the call in time.
    """
    for ancestor in tree.ancestors(call):
        if ancestor.own and ancestor.entry is Entry.AGENT_TURN:
            return ancestor
        if ancestor.entry is Entry.TOOL_TURN:
            return None
        if ancestor.entry is Entry.INVOKE:
            break
    invoke = tree.nearest(call, Entry.INVOKE)
    containing = [
        turn
        for turn in turns
        if turn.start_ns <= call.start_ns
        and call.end_ns <= turn.end_ns
        and (call.seq is None or turn.seq is None or turn.seq < call.seq)
        # A sub-agent's call is not its caller's, although that turn is still open.
        and (invoke is None or tree.nearest(turn, Entry.INVOKE) in (invoke, None))
    ]
    return max(containing, key=lambda turn: (turn.seq or 0, turn.start_ns), default=None)


def _made_of(calls: Sequence[Call]) -> list[ModelTurn]:
    """Return the turns that calls outside of any AgentTurn make; side work makes none."""
    turns: list[ModelTurn] = []
    attempts: list[Call] = []
    for call in calls:
        if attempts and not _continues(attempts, call):
            turns.append(_made(attempts))
            attempts = []
        attempts.append(call)
    if attempts:
        turns.append(_made(attempts))
    return turns


def _made(attempts: Sequence[Call]) -> ModelTurn:
    committed = any(call.generated for call in attempts)
    return ModelTurn(fact=attempts[0].fact, calls=tuple(attempts), committed=committed)


def _continues(attempts: Sequence[Call], call: Call) -> bool:
    """Whether a call is another attempt at the turn that the attempts so far are at."""
    last = attempts[-1]
    if last.purpose is not call.purpose:
        return False
    before = last.fact.call.input_digest if last.fact.call else None
    now = call.fact.call.input_digest if call.fact.call else None
    if before is not None and now is not None:
        return before == now
    samplings = call.fact.call.samplings if call.fact.call else None
    return last.disposition is Disposition.FAILED or samplings == 0
