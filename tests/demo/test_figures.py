"""The demo reads the accounts as Prometheus would, and names what is not as expected."""

from __future__ import annotations

from otel_turnavoid.demo.figures import Figures, faults, published
from otel_turnavoid.demo.scenario import EXPECTED
from otel_turnavoid.vocabulary import Arm

EXPOSITION = """\
# TYPE turnavoid_model_turns_avoided_total counter
turnavoid_model_turns_avoided_total{turnavoid_arm="exact-reuse",turnavoid_mechanism="a"} 2.0
turnavoid_model_turns_avoided_total{turnavoid_arm="exact-reuse",turnavoid_mechanism="b"} 1.0
turnavoid_model_turns_avoided_total{turnavoid_arm="fused-batch",turnavoid_mechanism="a"} 4.0
# TYPE turnavoid_tool_calls_avoided_total counter
turnavoid_tool_calls_avoided_total{turnavoid_arm="fused-batch"} 9.0
"""


def test_published_turns_are_summed_by_arm_and_nothing_else_is_read() -> None:
    turns = published(EXPOSITION)

    assert {key: value for key, value in turns.items() if value} == {
        ("turnavoid.model_turns.avoided", Arm.EXACT_REUSE): 3.0,
        ("turnavoid.model_turns.avoided", Arm.FUSED_BATCH): 4.0,
    }


def test_an_empty_ledger_fails_in_every_verdict() -> None:
    figures = Figures.read([])

    assert not figures.complete
    assert [fault for fault in faults(figures) if fault.endswith(": no verdict")] == [
        f"{control} with {candidate}: no verdict" for control, candidate in EXPECTED
    ]
