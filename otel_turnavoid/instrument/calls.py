"""Opening an LlmCall: in the AgentTurn around it, or in one that opens by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as context_api
from opentelemetry.trace.propagation import set_span_in_context

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.automatic import AutomaticTurns
from otel_turnavoid.instrument.call_handle import GENERATING, CallHandle
from otel_turnavoid.instrument.content import as_text
from otel_turnavoid.instrument.scope import CURRENT, NOTHING_KNOWN, Scope
from otel_turnavoid.instrument.turn_handle import TurnHandle
from otel_turnavoid.vocabulary import Attr, GenAI, Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Link

    from otel_turnavoid.instrument.run import RunState
    from otel_turnavoid.instrument.scope import Handle

_TURN: Final = Scope(TurnHandle, "agent_turn")


class CallScope(Scope[CallHandle]):
    """What ``llm_call(…)`` returns.

    Args:
        model: The model asked.
        said: What the span starts with beside.
        input_from: The decorated function's parameter that is the input.
    """

    __slots__ = ("input_parameter",)

    def __init__(
        self, model: str | None, said: dict[str, Any], *, input_from: str | None = None
    ) -> None:
        super().__init__(
            CallHandle,
            "chat",
            model,
            name_key=GenAI.REQUEST_MODEL,
            attributes=said,
            function_name=False,
        )
        self.input_parameter = input_from

    def _given(self, arguments: dict[str, Any]) -> GivenCallScope:
        """Return the scope of the one call whose input is among ``arguments``."""
        scope = GivenCallScope.__new__(GivenCallScope)
        for cls in (Scope, CallScope):
            for name in cls.__slots__:
                setattr(scope, name, getattr(self, name))
        key = Attr.CALL_INPUT_DIGEST
        scope.input = arguments["input"]
        digest = checks.digest_of(key, scope.input)
        scope._known = NOTHING_KNOWN  # noqa: SLF001 - of the same class
        scope._start = self._start if digest is None else {**self._start, key: digest}  # noqa: SLF001
        return scope

    def _start_outside_turn(self, context: Context, run: RunState, parent: Handle) -> CallHandle:
        """Open a call in the turn that it continues or, by itself, begins."""
        purpose = self._start.get(Attr.CALL_PURPOSE) or parent.purpose or Purpose.AGENT.value
        if purpose not in GENERATING:
            return self._start_entry(context, run, parent)
        turns = _automatic_turns(parent)
        turn = turns.enter(
            purpose,
            self._start.get(Attr.CALL_INPUT_DIGEST),
            continuation=self._start.get(Attr.CALL_SAMPLINGS) == 0,
            start=lambda: _TURN._start_entry(context, run, parent),  # noqa: SLF001 - a scope
        )
        inner = context_api.set_value(CURRENT, turn, set_span_in_context(turn.span, context))
        handle = self._start_entry(inner, run, turn)
        handle._ended_with = turns.leave  # noqa: SLF001 - of the same room
        return handle


class GivenCallScope(CallScope):
    """A call whose input is at hand, and recorded where content capture is on.

    Args:
        input: The input messages.
        model: As of ``CallScope``.
        said: Likewise.
        input_from: Likewise; a decorated function's parameter wins over ``input``.
    """

    __slots__ = ("input",)

    def __init__(
        self,
        input: Any,  # noqa: A002 - as in llm_call
        model: str | None,
        said: dict[str, Any],
        *,
        input_from: str | None = None,
    ) -> None:
        super().__init__(model, said, input_from=input_from)
        self.input = input

    def _start_entry(
        self,
        context: Context,
        run: RunState,
        parent: Handle | None,
        more: dict[str, Any] | None = None,
        links: Sequence[Link] | None = None,
    ) -> CallHandle:
        if run.content.on_spans:
            more = {**(more or {}), GenAI.INPUT_MESSAGES: as_text(self.input)}
        handle = super()._start_entry(context, run, parent, more, links)
        if run.content.in_events:
            handle.messages(input=self.input)
        return handle


def _automatic_turns(around: Handle) -> AutomaticTurns:
    """Return the turns directly below an entry; of threads that are here at once, one sets them."""
    turns = around.automatic
    if turns is None:
        turns = around.__dict__.setdefault("automatic", AutomaticTurns())
        if around._ended:  # noqa: SLF001 - of the same room
            turns.close()
    return turns
