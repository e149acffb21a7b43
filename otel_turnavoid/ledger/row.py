"""A row of ``fak.turnavoid.trace/v1``: one input under one arm.

The annotations are what a decoder can check of each field; the other rules of one row are in
``rules``, and those between rows in ``fold``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

TRACE_SCHEMA: Final = "fak.turnavoid.trace/v1"

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Basis = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
Amount = Annotated[float, Meta(ge=0.0)]
"""Finite as well: JSON has no other numbers, and the decoder refuses what no double holds."""
Name = Annotated[str, Meta(min_length=1)]

Schema = Literal["fak.turnavoid.trace/v1"]
ArmName = Literal["control", "exact-reuse", "fused-batch"]
MechanismName = Literal["control", "exact-reuse", "fused-batch", "provider-cache", "unknown"]
LifecycleName = Literal[
    "opportunity", "attempted", "realized", "invalidated", "counterfactual_only", "unknown"
]
ReasonName = Literal[
    "baseline",
    "exact-match",
    "serial-round-trip-collapsed",
    "retained-turn-cheaper",
    "required-effect-suppressed",
    "counterfactual-only",
    "validation-overhead",
    "not-applicable",
    "unknown",
]
# Plain strings, not the enumerations of ``vocabulary``: a fold looks words up for every row,
# and an Enum member hashes in Python. A test holds both spellings equal.


class Gross(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """Work of one side before overhead."""

    model_latency_ms: Amount
    tool_latency_ms: Amount
    model_cost_usd: Amount
    tool_cost_usd: Amount


class Overhead(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What the change itself costs, on the candidate's side."""

    validation_latency_ms: Amount
    speculation_latency_ms: Amount
    retry_latency_ms: Amount
    recovery_latency_ms: Amount
    validation_cost_usd: Amount
    speculation_cost_usd: Amount
    retry_cost_usd: Amount
    recovery_cost_usd: Amount


NO_OVERHEAD: Final = Overhead(
    validation_latency_ms=0.0,
    speculation_latency_ms=0.0,
    retry_latency_ms=0.0,
    recovery_latency_ms=0.0,
    validation_cost_usd=0.0,
    speculation_cost_usd=0.0,
    retry_cost_usd=0.0,
    recovery_cost_usd=0.0,
)


class EffectObservation(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True
):
    """What an independent observer saw of both sides; labels sorted and unique."""

    independent_observer: Name
    control_required: tuple[Name, ...]
    candidate_required: tuple[Name, ...]


class RetainedTurnReduction(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True
):
    """What a kept turn needed less: attribution, already inside ``candidate_gross``."""

    tokens: Count
    latency_ms: Amount


class Row(
    msgspec.Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
):
    """One input under one arm, beside the control of that input."""

    schema_version: Schema
    trace_id: Name
    unit_id: Name
    turn_index: Count
    decision_basis_through_turn: Basis
    input_digest: str
    arm: ArmName
    mechanism: MechanismName
    lifecycle: LifecycleName
    reason: ReasonName
    control_committed_model_turns: Count
    candidate_committed_model_turns: Count
    required_effect_observation: EffectObservation
    control_gross: Gross
    candidate_gross: Gross
    overhead: Overhead
    retained_turn_reduction: RetainedTurnReduction | None = None
    """null is the same as absent."""
