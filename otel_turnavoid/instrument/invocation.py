"""Opening an Invoke: the start of a run, or a sub-agent's entry in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.content import content_mode
from otel_turnavoid.instrument.identity import Identity, about, common_of, optional, resolved
from otel_turnavoid.instrument.invoke_handle import InvokeHandle
from otel_turnavoid.instrument.misuse import Misuse, misused, noticed
from otel_turnavoid.instrument.prices import prices_wanted
from otel_turnavoid.instrument.run import RunState, tracer_of
from otel_turnavoid.instrument.scope import Scope, innermost
from otel_turnavoid.vocabulary import Attr, GenAI, InvokeKind

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


class InvokeScope(Scope[InvokeHandle]):
    """What ``invoke(…)`` returns."""

    __slots__ = ("_identity", "_kind", "input_parameter")

    def __init__(  # noqa: PLR0913 - called from one function
        self,
        agent: str | None,
        kind: str | None,
        conversation: str | None,
        identity: Identity,
        *,
        input_from: str | None,
        tracer_provider: TracerProvider | None,
    ) -> None:
        super().__init__(
            InvokeHandle,
            "invoke_agent",
            agent,
            name_key=GenAI.AGENT_NAME,
            attributes={
                GenAI.OPERATION_NAME: "invoke_agent",
                GenAI.CONVERSATION_ID: optional(GenAI.CONVERSATION_ID, conversation),
            },
            tracer_provider=tracer_provider,
        )
        self._kind = None if kind is None else checks.word(InvokeKind, Attr.INVOKE_KIND, kind)
        self._identity = identity
        self.input_parameter = input_from

    def begin(self, arguments: dict[str, Any] | None = None) -> InvokeHandle:
        """Open an Invoke: in a run that is open here as its sub-agent, else as a new run."""
        context = context_api.get_current()
        parent = innermost(context)
        if context.get(_SUPPRESS_INSTRUMENTATION_KEY):
            return self._suppressed(context, parent)
        if parent is not None and parent.run.run_id is not None and not parent.run.ended:
            run = self._run_of(parent)
            _check_sub_agent(self._identity, run)
            kind = self._kind or InvokeKind.WAKEUP.value
            return self._start_entry(context, run, parent, {Attr.INVOKE_KIND: kind})
        identity, said = resolved(self._identity, self._tracer_provider)
        said[Attr.INVOKE_KIND] = self._kind or InvokeKind.USER_SEND.value
        common = common_of(identity)
        said |= about(identity, common.get(Attr.ARM), arguments)
        run = RunState(
            optional(Attr.RUN_ID, identity.run_id) or str(uuid4()),
            common,
            tracer_of(self._tracer_provider),
            content=content_mode(),
            prices=prices_wanted() if identity.prices is None else identity.prices,
        )
        handle = self._start_entry(context, run, None, said)
        run.outermost = handle
        check_recorded(handle)
        return handle


def check_recorded(handle: InvokeHandle) -> None:
    """Say it where limits of the SDK have cut what identifies the run."""
    recorded = getattr(handle.span, "attributes", None)
    if not recorded:
        return
    for key, value in ((Attr.RUN_ID, handle.run_id), *handle.said.items()):
        if recorded.get(key) != value:
            handle.run.impaired += 1
            noticed(
                Misuse.IMPAIRED, f"span limits or a sampler cut {key}: the run cannot be compared"
            )
            return


def _check_sub_agent(identity: Identity, run: RunState) -> None:
    for key, value in ((Attr.RUN_ID, identity.run_id), (Attr.ARM, identity.arm)):
        if value is not None and value != run.common.get(key):
            misused(
                Misuse.VALUE,
                f"{key} {value!r} inside a run where it is {run.common.get(key)!r}: a sub-agent"
                " belongs to the run that caused it; leave it out",
            )
