"""Opening an Invoke: the start of a run, or a sub-agent's entry in one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from opentelemetry import context as context_api

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.checks import MISSING
from otel_turnavoid.instrument.handles import InvokeHandle
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.run import RunState, tracer_of
from otel_turnavoid.instrument.scope import Scope, innermost
from otel_turnavoid.vocabulary import (
    Arm,
    Attr,
    GenAI,
    InvokeKind,
    Lifecycle,
    Mechanism,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.trace import TracerProvider

ARM_VARIABLE: Final = "TURNAVOID_ARM"
VARIANT_VARIABLE: Final = "TURNAVOID_VARIANT"
EXPERIMENT_VARIABLE: Final = "TURNAVOID_EXPERIMENT"

_CONTROL: Final = {
    Attr.MECHANISM: Mechanism.CONTROL.value,
    Attr.LIFECYCLE: Lifecycle.REALIZED.value,
    Attr.REASON: Reason.BASELINE.value,
}
"""What every control run says by being one."""


@dataclass(frozen=True)
class Identity:
    """What an Invoke is told about the run that it may start; see ``invoke``."""

    run_id: str | None = None
    arm: str | None = None
    variant: str | None = None
    experiment: str | None = None
    unit: str | None = None
    turn_index: int | None = None
    decision_basis: int | None = None
    mechanism: str | None = None
    lifecycle: str | None = None
    reason: str | None = None
    input: Any = MISSING
    state: Any = None
    volatile: Iterable[str] = ()
    digest: str | None = None


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
                GenAI.CONVERSATION_ID: _optional(GenAI.CONVERSATION_ID, conversation),
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
        if parent is not None and parent.run.run_id is not None and not parent.run.ended:
            _check_sub_agent(self._identity, parent.run)
            kind = self._kind or InvokeKind.WAKEUP.value
            return self._start_entry(context, parent.run, parent, {Attr.INVOKE_KIND: kind})
        said = {Attr.INVOKE_KIND: self._kind or InvokeKind.USER_SEND.value}
        common = _common(self._identity)
        said |= _about(self._identity, common.get(Attr.ARM), arguments)
        run_id = _optional(Attr.RUN_ID, self._identity.run_id) or str(uuid4())
        run = RunState(run_id, common, tracer_of(self._tracer_provider))
        handle = self._start_entry(context, run, None, said)
        run.outermost = handle
        return handle


def _optional(key: str, value: str | None) -> str | None:
    return None if value is None else checks.text(key, value)


def _check_sub_agent(identity: Identity, run: RunState) -> None:
    for key, value in ((Attr.RUN_ID, identity.run_id), (Attr.ARM, identity.arm)):
        if value is not None and value != run.common.get(key):
            misused(
                Misuse.VALUE,
                f"{key} {value!r} inside a run where it is {run.common.get(key)!r}: a sub-agent"
                " belongs to the run that caused it; leave it out",
            )


def _common(identity: Identity) -> dict[str, Any]:
    """Return what every entry of a new run carries beside the run id."""
    common = {}
    arm = identity.arm or os.environ.get(ARM_VARIABLE)
    if arm:
        common[Attr.ARM] = checks.word(Arm, Attr.ARM, arm)
    variant = identity.variant or os.environ.get(VARIANT_VARIABLE)
    if variant:
        common[Attr.VARIANT] = checks.text(Attr.VARIANT, variant)
    return {key: value for key, value in common.items() if value is not None}


def _about(identity: Identity, arm: str | None, arguments: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the outermost Invoke of a new run starts with."""
    said: dict[str, Any] = dict(_CONTROL) if arm == Arm.CONTROL else {}
    for key, words, value in (
        (Attr.MECHANISM, Mechanism, identity.mechanism),
        (Attr.LIFECYCLE, Lifecycle, identity.lifecycle),
        (Attr.REASON, Reason, identity.reason),
    ):
        if value is not None:
            said[key] = checks.word(words, key, value)
    experiment = identity.experiment or os.environ.get(EXPERIMENT_VARIABLE)
    if experiment:
        said[Attr.EXPERIMENT_ID] = checks.text(Attr.EXPERIMENT_ID, experiment)
    said[Attr.UNIT_ID] = _optional(Attr.UNIT_ID, identity.unit)
    said[Attr.INPUT_DIGEST] = _digest(identity, arguments)
    said |= _decision(identity.turn_index, identity.decision_basis)
    return {key: value for key, value in said.items() if value is not None}


def _digest(identity: Identity, arguments: dict[str, Any] | None) -> str | None:
    key = Attr.INPUT_DIGEST
    given = identity.input if arguments is None else arguments["input"]
    if identity.digest is not None:
        if given is not MISSING:
            misused(Misuse.VALUE, "an invoke takes its input or its digest, not both")
        return checks.digest(key, identity.digest)
    if given is MISSING:
        return None
    return checks.digest_of(key, given, identity.state, identity.volatile)


def _decision(index: int | None, basis: int | None) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if index is not None:
        said[Attr.TURN_INDEX] = checks.whole(Attr.TURN_INDEX, index)
    if basis is not None:
        said[Attr.DECISION_BASIS] = checks.whole(Attr.DECISION_BASIS, basis, least=-1)
        if index is None:
            misused(Misuse.VALUE, f"{Attr.DECISION_BASIS} says nothing without a turn index")
        elif basis >= index:
            # Recorded all the same: the processor refuses the run for leakage.
            misused(
                Misuse.LEAKAGE,
                f"{Attr.DECISION_BASIS} is below {Attr.TURN_INDEX} {index}, got {basis}: a"
                " decision cannot rest on the result of its own turn",
            )
    return said
