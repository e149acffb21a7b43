"""What a run is: parameters, and what a flag, the environment and the resource add to them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.checks import MISSING
from otel_turnavoid.instrument.flags import ArmMap, assigned
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.vocabulary import Arm, Attr, Env, Lifecycle, Mechanism, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.trace import TracerProvider

SOURCES: Final = (
    ("arm", Env.ARM, Attr.ARM),
    ("variant", Env.VARIANT, Attr.VARIANT),
    ("experiment", Env.EXPERIMENT, Attr.EXPERIMENT_ID),
    ("unit", Env.UNIT, Attr.UNIT_ID),
    ("mechanism", Env.MECHANISM, Attr.MECHANISM),
    ("lifecycle", Env.LIFECYCLE, Attr.LIFECYCLE),
    ("reason", Env.REASON, Attr.REASON),
)
"""Parameter of ``invoke``, environment variable and resource attribute of the same meaning."""

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
    flag: Any = None
    arms: ArmMap | None = None
    prices: bool | None = None


def resolved(
    identity: Identity, provider: TracerProvider | None
) -> tuple[Identity, dict[str, Any]]:
    """Return the identity with what the flag, the environment and the resource add to it.

    Also what the flag says of itself, for the Invoke's span.
    """
    said: dict[str, str] = {}
    attributes: dict[str, Any] = {}
    failed_flag = False
    if identity.flag is not None:
        flag = identity.flag() if callable(identity.flag) else identity.flag
        said, attributes = assigned(flag, identity.arms)
        failed_flag = not said
    described = getattr(provider or trace.get_tracer_provider(), "resource", None)
    resource = {} if described is None else described.attributes
    found: dict[str, Any] = {}
    for field, variable, key in SOURCES:
        if getattr(identity, field) is not None:
            continue
        if field == "arm" and failed_flag:
            continue  # a failed evaluation must not fall back to somebody else's arm
        value = said.get(field) or os.environ.get(variable) or resource.get(key)
        if value:
            found[field] = value
    return (replace(identity, **found) if found else identity), attributes


def common_of(identity: Identity) -> dict[str, Any]:
    """Return what every entry of a new run carries beside the run id."""
    common = {}
    if identity.arm:
        common[Attr.ARM] = checks.word(Arm, Attr.ARM, identity.arm)
    if identity.variant:
        common[Attr.VARIANT] = checks.text(Attr.VARIANT, identity.variant)
    return {key: value for key, value in common.items() if value is not None}


def about(identity: Identity, arm: str | None, arguments: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the outermost Invoke of a new run starts with."""
    said: dict[str, Any] = dict(_CONTROL) if arm == Arm.CONTROL else {}
    for key, words, value in (
        (Attr.MECHANISM, Mechanism, identity.mechanism),
        (Attr.LIFECYCLE, Lifecycle, identity.lifecycle),
        (Attr.REASON, Reason, identity.reason),
    ):
        if value is not None:
            said[key] = checks.word(words, key, value)
    if identity.experiment:
        said[Attr.EXPERIMENT_ID] = checks.text(Attr.EXPERIMENT_ID, identity.experiment)
    said[Attr.UNIT_ID] = optional(Attr.UNIT_ID, identity.unit)
    said[Attr.INPUT_DIGEST] = _digest(identity, arguments)
    said |= _decision(identity.turn_index, identity.decision_basis)
    return {key: value for key, value in said.items() if value is not None}


def optional(key: str, value: str | None) -> str | None:
    """Return a text if it is given and is one."""
    return None if value is None else checks.text(key, value)


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
