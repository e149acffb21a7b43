"""Absurd figures of the right type: the pair is judged and published all the same."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.chain import accounts
from fuzz.wire import PLAIN
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.testing import Call, Turn, observation, run_spans

LARGEST = 2**63 - 1


def avoided(call: dict[str, Any], attributes: dict[str, Any], run: dict[str, Any]) -> list[int]:
    """Return what a candidate of three turns avoids beside a control of four."""
    facts = [
        fact
        for run_id, arm, turns in (("a", "control", 4), ("b", "fused-batch", 3))
        for fact in read_traces(
            run_spans(
                run_id=run_id,
                arm=arm,
                turns=[Turn(calls=[Call(**call)])] * turns,
                attributes=attributes,
                **run,
            ),
            PLAIN,
        ).facts
    ]
    seen = [each for run_id in "ab" for each in read_logs(observation(run_id), PLAIN).observations]
    return [pair.avoided for pair in accounts(facts, seen)]


@pytest.mark.parametrize(
    ("call", "attributes", "run"),
    [
        ({"usage": {"gen_ai.usage.input_tokens": LARGEST}}, {}, {}),
        ({"samplings": LARGEST}, {}, {}),
        ({"cost_usd": 1e15}, {}, {}),
        ({}, {"turnavoid.retained.tokens_reduced": LARGEST}, {}),
        ({}, {"turnavoid.retained.latency_reduced_ms": 1e15}, {}),
        ({}, {}, {"turn_index": LARGEST, "decision_basis": LARGEST - 1}),
    ],
)
def test_an_absurd_figure_takes_nothing_from_the_other_accounts(
    call: dict[str, Any], attributes: dict[str, Any], run: dict[str, Any]
) -> None:
    assert avoided(call, attributes, run) == [1]


def test_a_run_with_a_figure_that_has_no_sum_is_rejected_and_the_rest_published() -> None:
    assert avoided({"cost_usd": 1e308}, {}, {}) == []
