"""``fak.turnavoid.report/v1``: what a fold of trace/v1 rows comes to."""

from __future__ import annotations

from typing import Final

import msgspec

REPORT_SCHEMA: Final = "fak.turnavoid.report/v1"
HONEST: Final = "HONEST"
HONEST_WITHHELD_CREDIT: Final = "HONEST_WITHHELD_CREDIT"
"""Something was withheld or suppressed, and is shown: an honest report, not a failure."""


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """Work of both sides. Gross is before overhead; net is after. "Saved" can be negative."""

    gross_control_latency_ms: float
    gross_candidate_latency_ms: float
    gross_latency_saved_ms: float
    overhead_latency_ms: float
    net_candidate_latency_ms: float
    net_latency_saved_ms: float
    gross_control_cost_usd: float
    gross_candidate_cost_usd: float
    gross_cost_saved_usd: float
    overhead_cost_usd: float
    net_candidate_cost_usd: float
    net_cost_saved_usd: float


class LifecycleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of an arm by lifecycle."""

    opportunity: int = 0
    attempted: int = 0
    realized: int = 0
    invalidated: int = 0
    counterfactual_only: int = 0
    unknown: int = 0


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an arm that shares one mechanism, lifecycle and reason."""

    mechanism: str
    lifecycle: str
    reason: str
    decisions: int
    realized_turns_avoided: int
    withheld_turns: int
    required_effects_preserved: int
    needed_effects_suppressed: int
    accounting: Accounting


class ArmReport(msgspec.Struct, frozen=True, kw_only=True):
    """One arm. Arms share their controls, so figures of two arms are never added."""

    arm: str
    decisions: int
    control_committed_model_turns: int
    candidate_committed_model_turns: int
    realized_turns_avoided: int
    withheld_turns: int
    lifecycle: LifecycleCounts
    retained_turns_made_cheaper: int
    retained_turn_tokens_reduced: int
    retained_turn_latency_reduced_ms: float
    required_effects_preserved: int
    needed_effects_suppressed: int
    accounting: Accounting
    attribution: tuple[Attribution, ...]
    """Sorted by mechanism, lifecycle, reason."""
    honesty_verdict: str

    @property
    def turns_added(self) -> int:
        """Model turns that candidates needed beyond their controls.

        Not a field of report/v1, but implied by it: each row has
        ``control - candidate = avoided + withheld - added``.
        """
        return (
            self.candidate_committed_model_turns
            - self.control_committed_model_turns
            + self.realized_turns_avoided
            + self.withheld_turns
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report: the arms control, exact-reuse, fused-batch, in this order."""

    schema_version: str
    trace_schema_version: str
    rows: int
    immutable_inputs: int
    arms: tuple[ArmReport, ...]
    honesty_verdict: str


_encoder = msgspec.json.Encoder()


def report_json(report: Report) -> bytes:
    """Return the report as indented JSON with a last newline, fields in the order of report/v1."""
    return msgspec.json.format(_encoder.encode(report), indent=2) + b"\n"
