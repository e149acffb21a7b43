"""The project's own witness trace: six inputs, six stories, every figure written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_turnavoid.digest import input_digest
from otel_turnavoid.ledger import Report, decode, replay

WITNESS = Path(__file__).parents[2] / "examples" / "witness.jsonl"

INPUTS = {
    "faq-return-window": {"task": "answer", "question": "How long may I return shoes?"},
    "order-42-and-customer": {"task": "lookup", "order": 42, "with": ["customer", "parcel"]},
    "summarise-ticket-9": {"task": "summarise", "ticket": 9},
    "refund-order-17": {"task": "refund", "order": 17, "notify": True},
    "classify-mail-3": {"task": "classify", "mail": 3},
    "stock-level-8": {"task": "stock", "article": 8},
}


@pytest.fixture(scope="module")
def report() -> Report:
    with WITNESS.open("rb") as stream:
        return replay(stream)


def test_the_witness_has_six_inputs_and_is_honest_about_withheld_credit(report: Report) -> None:
    assert (report.rows, report.immutable_inputs) == (18, 6)
    assert report.honesty_verdict == "HONEST_WITHHELD_CREDIT"
    assert [arm.arm for arm in report.arms] == ["control", "exact-reuse", "fused-batch"]


def test_the_exact_reuse_arm_of_the_witness(report: Report) -> None:
    arm = report.arms[1]

    assert arm.candidate_committed_model_turns == 3
    assert arm.control_committed_model_turns == 7
    assert arm.realized_turns_avoided == 2
    assert arm.withheld_turns == 2
    assert arm.turns_added == 0
    assert arm.retained_turns_made_cheaper == 1
    assert arm.retained_turn_tokens_reduced == 128
    assert arm.required_effects_preserved == 6
    assert arm.needed_effects_suppressed == 1
    assert arm.accounting.gross_latency_saved_ms == 420.0
    assert arm.accounting.overhead_latency_ms == 1010.0
    assert arm.accounting.net_latency_saved_ms == -590.0
    assert arm.honesty_verdict == "HONEST_WITHHELD_CREDIT"


def test_the_fused_batch_arm_of_the_witness(report: Report) -> None:
    arm = report.arms[2]

    assert arm.candidate_committed_model_turns == 6
    assert arm.control_committed_model_turns == 7
    assert arm.realized_turns_avoided == 1
    assert arm.withheld_turns == 0
    assert arm.required_effects_preserved == 7
    assert arm.needed_effects_suppressed == 0
    assert arm.honesty_verdict == "HONEST"


def test_the_control_arm_of_the_witness_avoids_nothing(report: Report) -> None:
    arm = report.arms[0]

    assert arm.candidate_committed_model_turns == arm.control_committed_model_turns == 7
    assert (arm.realized_turns_avoided, arm.withheld_turns) == (0, 0)
    assert arm.accounting.net_latency_saved_ms == 0.0
    assert arm.honesty_verdict == "HONEST"


def test_strict_changes_nothing_where_every_input_requires_an_effect(report: Report) -> None:
    with WITNESS.open("rb") as stream:
        assert replay(stream, strict=True) == report


def test_the_digests_of_the_witness_are_those_of_its_inputs() -> None:
    with WITNESS.open("rb") as stream:
        digests = {row.unit_id: row.input_digest for row in decode(stream)}

    assert digests == {unit: input_digest(task) for unit, task in INPUTS.items()}
