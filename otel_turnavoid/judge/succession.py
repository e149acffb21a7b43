"""What the order of an agent's calls and tools speaks against.

A model that asked for a tool and reads its result answers another input than before. A call after
that is no other attempt in the same turn nor a mere going on with the answer, whatever it says.
Where nothing was read in between, and nobody said anything, the same input is no other turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from otel_turnavoid.judge.calls import Call, Tool
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.findings import Findings
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.turns import ModelTurn
from otel_turnavoid.vocabulary import Entry, ToolCaller, ToolDisposition, WithheldCause

_Place = tuple[str, str] | None
"""The agent, or the tool with a model in it, that calls a model."""


class _Step(NamedTuple):
    seq: int
    call: Call | None
    """None: a tool that the model asked for, whose result it is to read, or what it was told."""
    turn: ModelTurn | None = None
    """The committed turn that the call stands in."""
    told: bool = False
    """Whether it is a UserTurn or SystemTurn."""


def check_succession(
    tree: SpanTree, turns: Sequence[ModelTurn], tools: Sequence[Tool], findings: Findings
) -> None:
    """Hold it against a whole run if its calls cannot be, in their order, what they say."""
    if WithheldCause.INCOMPLETE_RUN in findings.causes:
        return
    agents = list(_steps(tree, turns, tools).values())
    again = [found for steps in agents for found in _answered_again(steps)]
    continued, repeated = sum(map(_continued, agents)), again.count(False)
    parted = len(again) - repeated
    if continued:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"{continued} calls say that they only went on with an answer (samplings 0), and came"
            " after a tool that the model itself had asked for: its result is another input",
        )
    if parted:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE,
            f"{parted} calls say that they answer the input of the call before, and came after a"
            " tool that the model had asked for: its result is another input",
        )
    if repeated:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE,
            f"{repeated} AgentTurns state the input of the one before: the same input again is no"
            " other turn",
        )


def _continued(steps: Iterable[_Step]) -> int:
    """Return how many calls go on with an answer after a tool that it asked for had run."""
    number, begun, read = 0, False, False
    for step in steps:
        if step.call is None:
            read = begun and (read or not step.told)
        elif step.call.continues:
            number += read
        elif step.call.began:
            begun, read = True, False
    return number


def _answered_again(steps: Iterable[_Step]) -> Iterator[bool]:
    """Yield for each input answered twice, past a tool or in two turns, whether a tool ran."""
    before: _Step | None = None
    read = told = False
    for step in steps:
        if step.told:
            told = True
        elif step.call is None:
            read = True
        elif step.turn is not None and step.call.generated:
            if before is not None and _one_input(before, step):
                # In a turn of its own, the newest message may be all that the agent states.
                same_turn = step.turn is before.turn
                if same_turn and read:
                    yield True
                elif not (same_turn or read or told):
                    yield False
            before, read, told = step, False, False


def _steps(
    tree: SpanTree, turns: Sequence[ModelTurn], tools: Sequence[Tool]
) -> dict[_Place, list[_Step]]:
    """Return the numbered calls of each agent and what came between, in their order."""
    steps: dict[_Place, list[_Step]] = defaultdict(list)
    for turn in turns:
        for call in turn.calls:
            if call.fact.seq is not None:
                step = _Step(call.fact.seq, call, turn if turn.committed else None)
                steps[_place(call.fact, tree)].append(step)
    for tool in tools:
        by_code = tool.fact.tool is not None and tool.fact.tool.caller is ToolCaller.CODE
        # That a tool was denied is read too, and so is a stored result.
        thrown_away = tool.disposition is ToolDisposition.DISCARDED
        if tool.fact.seq is not None and not by_code and not thrown_away:
            steps[_place(tool.fact, tree)].append(_Step(tool.fact.seq, None))
    for fact in tree.facts:
        if fact.entry in _TOLD and fact.seq is not None:
            steps[_place(fact, tree)].append(_Step(fact.seq, None, told=True))
    return {place: sorted(found, key=lambda step: step.seq) for place, found in steps.items()}


def _place(fact: SpanFact, tree: SpanTree) -> _Place:
    around = (each for each in tree.ancestors(fact) if each.entry in _MAKERS)
    return next(((each.trace_id, each.span_id) for each in around), None)


_MAKERS = (Entry.INVOKE, Entry.TOOL_TURN)
_TOLD = (Entry.USER_TURN, Entry.SYSTEM_TURN)


def _one_input(before: _Step, step: _Step) -> bool:
    """Whether two calls count as answers to one input, because they say so or in one turn."""
    if before.call is None or step.call is None:
        return False
    stated = step.call.input_digest
    return (stated is not None and stated == before.call.input_digest) or step.turn is before.turn
