"""How far a change got goes forward only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid import invoke
from otel_turnavoid.instrument.lifecycle import advanced
from otel_turnavoid.testing import Telemetry
from otel_turnavoid.vocabulary import Lifecycle

O, A, R, I, C, U = (  # noqa: E741 - a table
    Lifecycle.OPPORTUNITY,
    Lifecycle.ATTEMPTED,
    Lifecycle.REALIZED,
    Lifecycle.INVALIDATED,
    Lifecycle.COUNTERFACTUAL_ONLY,
    Lifecycle.UNKNOWN,
)


@pytest.mark.parametrize(
    ("before", "after", "reached"),
    [
        (None, O, O),
        (None, R, R),
        (None, C, C),
        (U, O, O),
        (O, A, A),
        (O, R, R),
        (A, R, R),
        (A, O, A),
        (R, O, R),
        (R, A, R),
        (R, U, R),
        (O, I, I),
        (A, I, I),
        (R, I, I),
        (O, C, C),
        (A, C, None),
        (R, C, None),
        (I, R, None),
        (I, O, None),
        (I, I, I),
        (C, R, None),
        (C, I, None),
    ],
)
def test_steps(before: Lifecycle | None, after: Lifecycle, reached: Lifecycle | None) -> None:
    assert advanced(before, after) is reached


@given(st.lists(st.sampled_from(Lifecycle)))
def test_nothing_is_realized_after_an_end(steps: list[Lifecycle]) -> None:
    stands: Lifecycle | None = None
    ended = False
    for step in steps:
        stands = advanced(stands, step) or stands
        ended = ended or stands in (I, C)
        assert not (ended and stands is R)


def stated(telemetry: Telemetry) -> tuple[Any, Any, Any]:
    attributes = telemetry.spans[-1].attributes
    return tuple(  # type: ignore[return-value]
        attributes.get(f"turnavoid.{key}") for key in ("lifecycle", "mechanism", "reason")
    )


def test_a_run_records_its_steps(telemetry: Telemetry) -> None:
    with invoke("a", arm="exact-reuse", tracer_provider=telemetry.tracer_provider) as run:
        run.opportunity("exact-reuse")
        run.attempted()
        run.realized(reason="exact-match")
        run.opportunity()

    assert stated(telemetry) == ("realized", "exact-reuse", "exact-match")


def test_a_sub_agent_records_them_for_the_run(telemetry: Telemetry) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider), invoke("b") as helper:
        helper.realized("semantic-reuse")
        helper.invalidated(reason="required-effect-suppressed")

    assert stated(telemetry) == (
        "invalidated",
        "semantic-reuse",
        "required-effect-suppressed",
    )


def test_a_shadow_run_computes_only(telemetry: Telemetry) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider) as run:
        run.counterfactual_only("speculation")

    assert stated(telemetry) == ("counterfactual_only", "speculation", "counterfactual-only")


@pytest.mark.usefixtures("production")
def test_a_contradiction_changes_nothing(telemetry: Telemetry) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider) as run:
        run.counterfactual_only()
        run.set(lifecycle="realized")

    assert stated(telemetry)[0] == "counterfactual_only"
