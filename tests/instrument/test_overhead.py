"""Overhead is work beside the entries: in the account of work, in no count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid import invoke, llm_call, recovery, retry, speculation, validation
from otel_turnavoid.judge.run import Run
from otel_turnavoid.testing import Telemetry


def in_run(telemetry: Telemetry) -> Any:
    return invoke(
        "a", run_id="r", arm="control", input="x", tracer_provider=telemetry.tracer_provider
    )


@pytest.mark.parametrize("kind", [validation, speculation, retry, recovery])
def test_it_is_no_entry_and_its_time_and_cost_are_overhead(
    telemetry: Telemetry, judged: Callable[..., Run], kind: Any
) -> None:
    with in_run(telemetry), kind() as work:
        work.cost(0.25)

    span = telemetry.spans[0]
    assert span.name == kind.__name__
    assert dict(span.attributes) == {
        "turnavoid.overhead.kind": kind.__name__,
        "turnavoid.run.id": "r",
        "turnavoid.arm": "control",
        "turnavoid.cost.usd": 0.25,
    }
    run = judged()
    assert run.problems == ()
    assert getattr(run.work, f"{kind.__name__}_ms") == 1000
    assert getattr(run.work, f"{kind.__name__}_usd") == 0.25


def test_it_decorates_functions(telemetry: Telemetry) -> None:
    @validation
    def fits(plan: str) -> bool:
        return bool(plan)

    @recovery()
    async def undo() -> None: ...

    with in_run(telemetry):
        assert fits("plan")

    assert [span.name for span in telemetry.spans] == ["validation", "invoke_agent a"]


@pytest.mark.parametrize(
    ("kind", "purpose", "turns"),
    [
        (validation, "validation", 0),
        (speculation, "speculation", 1),
        (retry, "agent", 1),
        (recovery, "agent", 1),
    ],
)
def test_calls_inside_are_for_it_unless_they_say_otherwise(
    telemetry: Telemetry, judged: Callable[..., Run], kind: Any, purpose: str, turns: int
) -> None:
    with in_run(telemetry), kind(), invoke("helper"), llm_call("m", input="q"):
        pass

    (call,) = [span for span in telemetry.spans if span.name == "chat m"]
    assert call.attributes["turnavoid.call.purpose"] == purpose
    run = judged()
    assert (run.model_turns, run.problems) == (turns, ())
