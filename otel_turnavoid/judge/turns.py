"""Model turns: AgentTurns with at least one successful, not discarded generation.

Calls belong to the AgentTurn they lie in; one span around generations on changing inputs stands
for as many turns. Calls outside of any AgentTurn make turns by the retry rule: consecutive calls
with the completely identical input are attempts at one turn, and failed attempts belong to the
turn that follows. A continuation adds no turn, unless what it goes on with was cut: then the
turn has its answer from there.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

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
    made = _made_of(outside)
    stated = [turn for fact in spans for turn in _stated(fact, members[id(fact)])]
    return sorted(
        [*_without_doubles(stated, made), *made],
        key=lambda turn: (turn.fact.start_ns, turn.fact.span_id),
    )


def _stated(fact: SpanFact, calls: Sequence[Call]) -> list[ModelTurn]:
    """Return the turns that one AgentTurn's span stands for: one, if its calls bear it out.

    What its calls show outweighs what it says, except that it alone can say that its result
    was thrown away. A generation on a changed input began another turn, whatever span it is in.
    """
    says = fact.turn or Disposition.COMMITTED
    if says is Disposition.DISCARDED:
        return [ModelTurn(fact=fact, calls=tuple(calls), committed=False)]
    if not calls:
        return [ModelTurn(fact=fact, calls=(), committed=says is Disposition.COMMITTED)]
    parts: list[list[Call]] = [[]]
    answered: Call | None = None
    answering = _answering(calls)
    for call in calls:
        if id(call) in answering:
            if answered is not None and _answers_another_input(answered, call):
                parts.append([])
            answered = call
        parts[-1].append(call)
    first, *others = parts
    return [_made(first, answering, fact), *(_made(part, answering) for part in others)]


def _answering(calls: Sequence[Call]) -> set[int]:
    """Return the ids of the calls that brought an answer.

    A continuation brings one where it goes on with a call that was cut: the model was sampled
    there, and its answer came here.
    """
    found: set[int] = set()
    cut = False
    for call in calls:
        if call.generated or (cut and call.continues):
            found.add(id(call))
            cut = False
        elif call.disposition is Disposition.FAILED:
            cut = cut or call.began
    return found


def _answers_another_input(before: Call, call: Call) -> bool:
    """Whether a second generation in one AgentTurn is not the same input sampled again.

    Where an input is not stated, only generations at the same time can be alternatives, and only
    if their model counted as many tokens of input.
    """
    inputs = [before.input_digest, call.input_digest]
    if None not in inputs:
        return inputs[0] != inputs[1]
    counted = [before.plain_input, call.plain_input]
    differ = before.model == call.model and None not in counted and counted[0] != counted[1]
    return differ or call.fact.start_ns >= before.fact.end_ns


def _without_doubles(stated: Sequence[ModelTurn], made: Sequence[ModelTurn]) -> list[ModelTurn]:
    """Take as many empty turns for not committed as there are generations outside of turns.

    Those may be theirs: together they are counted once.
    """
    doubles = sum(turn.committed for turn in made)
    turns = []
    for turn in stated:
        if doubles and turn.committed and not turn.calls:
            doubles -= 1
            turns.append(ModelTurn(fact=turn.fact, calls=(), committed=False))
        else:
            turns.append(turn)
    return turns


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
            turns.append(_made(attempts, _answering(attempts)))
            attempts = []
        attempts.append(call)
    if attempts:
        turns.append(_made(attempts, _answering(attempts)))
    return turns


def _made(
    attempts: Sequence[Call], answering: Container[int], fact: SpanFact | None = None
) -> ModelTurn:
    committed = any(id(call) in answering for call in attempts)
    return ModelTurn(fact=fact or attempts[0].fact, calls=tuple(attempts), committed=committed)


def _continues(attempts: Sequence[Call], call: Call) -> bool:
    """Whether a call is another attempt at the turn that the attempts so far are at."""
    last = attempts[-1]
    if last.purpose is not call.purpose:
        return False
    before, now = last.input_digest, call.input_digest
    if before is not None and now is not None:
        return before == now
    samplings = call.fact.call.samplings if call.fact.call else None
    return last.disposition is Disposition.FAILED or samplings == 0
