"""Opening the next segment of a run that paused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

from otel_turnavoid.errors import UsageError
from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.content import content_mode
from otel_turnavoid.instrument.handover import Handover
from otel_turnavoid.instrument.invocation import check_recorded
from otel_turnavoid.instrument.invoke_handle import InvokeHandle
from otel_turnavoid.instrument.misuse import Misuse, misused, noticed
from otel_turnavoid.instrument.prices import prices_wanted
from otel_turnavoid.instrument.run import RunState, tracer_of
from otel_turnavoid.instrument.scope import CURRENT, Scope, innermost
from otel_turnavoid.vocabulary import Attr, GenAI, InvokeKind

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_UNKNOWN: Final = 1 << 30
"""A first sequence number far from any that earlier segments may have used."""


class ResumeScope(Scope[InvokeHandle]):
    """What ``resume(…)`` returns."""

    __slots__ = ("_handover", "_kind")

    def __init__(
        self, handover: Handover, *, kind: str | None, tracer_provider: TracerProvider | None
    ) -> None:
        agent = handover.said.get(GenAI.AGENT_NAME)
        super().__init__(
            InvokeHandle,
            "invoke_agent",
            agent,
            name_key=GenAI.AGENT_NAME,
            attributes={GenAI.OPERATION_NAME: "invoke_agent"},
            function_name=False,
            tracer_provider=tracer_provider,
        )
        self._kind = checks.word(InvokeKind, Attr.INVOKE_KIND, kind or InvokeKind.USER_SEND.value)
        self._handover = handover

    def begin(self, arguments: dict[str, Any] | None = None) -> InvokeHandle:  # noqa: ARG002 - none
        """Open the next segment of the run."""
        context = context_api.get_current()
        parent = innermost(context)
        if context.get(_SUPPRESS_INSTRUMENTATION_KEY):
            return self._suppressed(context, parent)
        if not self._handover.run_id:
            nothing = self._suppressed(context, None)
            nothing.context = context_api.set_value(CURRENT, nothing, context)
            return nothing
        if parent is not None and not parent.run.ended and parent.run.run_id is not None:
            misused(Misuse.VALUE, "a run is resumed by itself, not inside another run")
        handed = self._handover
        run = RunState(
            handed.run_id,
            handed.common,
            tracer_of(self._tracer_provider),
            taken=handed.counts,
            content=content_mode(),
            prices=prices_wanted(),
        )
        run.proven = handed.proven
        said = {**handed.said, Attr.INVOKE_KIND: self._kind}
        handle = self._start_entry(context, run, None, said, handed.links)
        run.outermost = handle
        check_recorded(handle)
        return handle


def resume(
    handover: Handover | str,
    *,
    kind: str | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Scope[InvokeHandle]:
    """Go on with a paused run, in whatever process: a decorator and a context manager.

    Sequence numbers and counts go on where the handover left them, and the last segment declares
    the totals of all. A handover is good for one resumption: two of them number two different
    things alike, and the run is then taken for contradictory.

    Args:
        handover: What ``pause()`` returned, or its text (``str(handover)``). A bare run id will
            do where nobody kept the handover; the run then stays incomplete and earns nothing.
        kind: Why it goes on, ``turnavoid.invoke.kind``; default ``user_send``, an approval.
        tracer_provider: Default: the global one.
    """
    if isinstance(handover, str):
        if handover.lstrip().startswith("{"):
            try:
                handover = Handover.read(handover)
            except UsageError as error:
                misused(Misuse.VALUE, str(error))
                handover = Handover(run_id="", common={})
        else:
            noticed(
                Misuse.VALUE,
                "a run was resumed without its handover: it cannot be proven complete",
            )
            handover = Handover(run_id=handover, common={}, proven=False, entries=_UNKNOWN)
    return ResumeScope(handover, kind=kind, tracer_provider=tracer_provider)
