"""Opening an LlmCall: in the AgentTurn around it, or in one that opens by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as context_api
from opentelemetry.trace.propagation import set_span_in_context

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.automatic import AutomaticTurns
from otel_turnavoid.instrument.call_handle import GENERATING, CallHandle
from otel_turnavoid.instrument.checks import MISSING
from otel_turnavoid.instrument.content import as_text
from otel_turnavoid.instrument.scope import CURRENT, Scope
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
    """What ``llm_call(…)`` returns."""

    __slots__ = ("_input", "input_parameter")

    def __init__(
        self,
        model: str | None,
        said: dict[str, Any],
        *,
        input: Any,  # noqa: A002 - as in llm_call
        input_from: str | None,
    ) -> None:
        super().__init__(
            CallHandle,
            "chat",
            model,
            name_key=GenAI.REQUEST_MODEL,
            attributes=said,
            function_name=False,
        )
        self._input = input
        self.input_parameter = input_from

    def begin(self, arguments: dict[str, Any] | None = None) -> CallHandle:
        """Open a call; ``arguments`` holds its input where a parameter of the function is it."""
        if arguments is None:
            return super().begin()
        scope = CallScope.__new__(CallScope)
        for cls in (Scope, CallScope):
            for name in cls.__slots__:
                setattr(scope, name, getattr(self, name))
        key = Attr.CALL_INPUT_DIGEST
        scope._input = arguments["input"]  # noqa: SLF001
        digest = checks.digest_of(key, scope._input)  # noqa: SLF001
        scope._known = (None, {})  # noqa: SLF001
        scope._start = self._start if digest is None else {**self._start, key: digest}  # noqa: SLF001
        return Scope.begin(scope)

    def _start_entry(
        self,
        context: Context,
        run: RunState,
        parent: Handle | None,
        more: dict[str, Any],
        links: Sequence[Link] | None = None,
    ) -> CallHandle:
        if parent is not None and parent.turn is None and run.run_id is not None:
            purpose = self._start.get(Attr.CALL_PURPOSE) or parent.purpose or Purpose.AGENT.value
            if purpose in GENERATING:
                parent, context = self._turn(context, run, parent, purpose)
        if run.content.on_spans and self._input is not MISSING:
            more = {**more, GenAI.INPUT_MESSAGES: as_text(self._input)}
        handle = super()._start_entry(context, run, parent, more, links)
        if run.content.in_events and self._input is not MISSING:
            handle.messages(input=self._input)
        return handle

    def _turn(
        self, context: Context, run: RunState, parent: Handle, purpose: str
    ) -> tuple[TurnHandle, Context]:
        """Return the automatic turn of a call, and the context in which the call starts."""
        turns = parent.automatic
        if turns is None:  # of threads that are here at once, one sets it
            turns = parent.__dict__.setdefault("automatic", AutomaticTurns())
            if parent._ended:  # noqa: SLF001 - of the same room
                turns.close()
        turn = turns.enter(
            purpose,
            self._start.get(Attr.CALL_INPUT_DIGEST),
            continuation=self._start.get(Attr.CALL_SAMPLINGS) == 0,
            start=lambda: _TURN._start_entry(context, run, parent, {}),  # noqa: SLF001
        )
        inner = set_span_in_context(turn.span, context)
        return turn, context_api.set_value(CURRENT, turn, inner)
