"""A run that pauses for a human goes on in another process, and is one run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

from otel_turnavoid import Handover, agent_turn, invoke, llm_call, resume, tool_turn
from otel_turnavoid.errors import UsageError
from otel_turnavoid.instrument import misuses
from otel_turnavoid.judge.run import Run
from otel_turnavoid.testing import CountingIds, Telemetry
from otel_turnavoid.vocabulary import InvokeState, WithheldCause

Judged = Callable[..., Run]


@pytest.fixture
def later() -> Telemetry:
    return Telemetry(service="agent", instance="agent-2", ids=CountingIds(1000))


def first_segment(telemetry: Telemetry) -> Handover:
    with invoke(
        "orders",
        run_id="r",
        arm="exact-reuse",
        variant="v",
        experiment="e",
        unit="u",
        turn_index=3,
        decision_basis=2,
        lifecycle="attempted",
        input="task",
        tracer_provider=telemetry.tracer_provider,
    ) as run:
        for question in ("q1", "q2"):
            with llm_call("m", input=question):
                pass
        return run.pause()


def test_two_segments_are_one_complete_run(
    telemetry: Telemetry, later: Telemetry, judged: Judged
) -> None:
    token = str(first_segment(telemetry))
    with resume(token, tracer_provider=later.tracer_provider) as run:
        run.realized()
        with tool_turn("refund"):
            pass
        with llm_call("m", input="q3"):
            pass

    judgement = judged("r", later)
    assert judgement.problems == ()
    assert (judgement.model_turns, judgement.llm_calls, judgement.tool_calls) == (3, 3, 1)
    assert judgement.state is InvokeState.COMPLETED
    assert judgement.lifecycle.value == "realized"
    assert (judgement.variant, judgement.agent) == ("v", "orders")
    key = judgement.key
    assert key is not None
    assert (key.experiment, key.unit, key.turn_index) == ("e", "u", 3)


def test_the_first_segment_ends_paused_without_counts_and_the_last_declares_all(
    telemetry: Telemetry, later: Telemetry
) -> None:
    with resume(first_segment(telemetry), tracer_provider=later.tracer_provider), agent_turn():
        pass

    first, last = telemetry.spans[-1].attributes, later.spans[-1].attributes
    assert first["turnavoid.invoke.state"] == "paused"
    assert not [key for key in first if key.endswith((".entries", ".agent_turns"))]
    assert (first["turnavoid.seq"], last["turnavoid.seq"]) == (0, 5)
    assert {key: last[f"turnavoid.invoke.{key}"] for key in ("entries", "agent_turns")} == {
        "entries": 7,
        "agent_turns": 3,
    }


def test_the_next_segment_links_to_the_paused_one(telemetry: Telemetry, later: Telemetry) -> None:
    with resume(first_segment(telemetry), tracer_provider=later.tracer_provider):
        pass

    (link,) = later.spans[-1].links
    assert link.context.span_id == telemetry.spans[-1].context.span_id


def test_a_pause_by_an_exception_is_no_failure(telemetry: Telemetry) -> None:
    class ApprovalNeeded(Exception):  # noqa: N818 - an interrupt, nobody's error
        pass

    with (
        suppress(ApprovalNeeded),
        invoke("a", tracer_provider=telemetry.tracer_provider) as run,
        agent_turn(),
        tool_turn("refund"),
    ):
        run.pause()
        raise ApprovalNeeded

    assert {span.status.is_ok for span in telemetry.spans} == {True}
    assert all("error.type" not in span.attributes for span in telemetry.spans)
    assert telemetry.spans[-1].attributes["turnavoid.invoke.state"] == "paused"


def test_a_paused_run_that_never_goes_on_is_incomplete(
    telemetry: Telemetry, judged: Judged
) -> None:
    first_segment(telemetry)

    assert WithheldCause.INCOMPLETE_RUN in judged().causes


def test_a_segment_that_never_arrives_makes_the_run_incomplete(
    telemetry: Telemetry, later: Telemetry, judged: Judged
) -> None:
    handover = first_segment(telemetry)
    telemetry.clear()
    with resume(handover, tracer_provider=later.tracer_provider):
        pass

    assert judged("r", later).causes == (WithheldCause.INCOMPLETE_RUN,)


def test_a_handover_resumed_twice_earns_nothing(
    telemetry: Telemetry, later: Telemetry, judged: Judged
) -> None:
    handover = first_segment(telemetry)
    for tool in ("refund", "cancel"):
        with resume(handover, tracer_provider=later.tracer_provider), tool_turn(tool):
            pass

    assert WithheldCause.CONFLICTING_EVIDENCE in judged("r", later).causes


def test_a_run_may_pause_more_than_once(
    telemetry: Telemetry, later: Telemetry, judged: Judged
) -> None:
    handover = first_segment(telemetry)
    with resume(handover, tracer_provider=later.tracer_provider) as run:
        handover = run.pause()
    with resume(handover, tracer_provider=later.tracer_provider):
        pass

    assert judged("r", later).problems == ()


@pytest.mark.usefixtures("production")
def test_without_its_handover_a_run_goes_on_and_stays_incomplete(
    telemetry: Telemetry, later: Telemetry, judged: Judged
) -> None:
    first_segment(telemetry)
    with resume("r", tracer_provider=later.tracer_provider), tool_turn("t"):
        pass

    assert later.spans[-1].attributes["turnavoid.run.id"] == "r"
    assert WithheldCause.INCOMPLETE_RUN in judged("r", later).causes


def test_a_handover_reads_back_as_it_was(telemetry: Telemetry) -> None:
    handover = first_segment(telemetry)

    assert Handover.read(str(handover)) == handover
    assert "task" not in str(handover)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a handover of a paused run"),
        ('{"a":1}', "not a handover of a paused run"),
        ('{"v":2,"run_id":"r","common":{}}', "a handover of version 2, this is version 1"),
        ('{"v":1,"run_id":7,"common":{}}', "it names no run"),
        ('{"v":1,"run_id":"r","common":{},"entries":-1}', "its counts are no whole numbers"),
    ],
)
def test_what_is_no_handover_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        resume(text)


@pytest.mark.usefixtures("production")
def test_in_production_what_is_no_handover_stops_nobody(later: Telemetry) -> None:
    with resume("{", tracer_provider=later.tracer_provider) as run, agent_turn():
        assert run.run_id is None

    assert later.spans == ()
    assert misuses() == {"value": 1}


def test_a_suppressed_run_pauses_and_goes_on_without_a_trace(
    telemetry: Telemetry, later: Telemetry
) -> None:
    quiet = context_api.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)  # noqa: FBT003 - a value
    token = context_api.attach(quiet)
    text = str(first_segment(telemetry))
    context_api.detach(token)
    with resume(text, tracer_provider=later.tracer_provider), agent_turn():
        pass

    assert (telemetry.spans, later.spans) == ((), ())


def test_a_resumed_function(telemetry: Telemetry, later: Telemetry) -> None:
    @resume(first_segment(telemetry), tracer_provider=later.tracer_provider)
    def go_on(answer: str) -> Any:
        return answer

    assert go_on("approved") == "approved"
    assert later.spans[-1].name == "invoke_agent orders"


def test_a_durable_workflow_that_replays_its_run_counts_once(
    telemetry: Telemetry, judged: Judged
) -> None:
    """After a crash the code runs again from its start, with the same run id."""
    again = Telemetry(ids=CountingIds(1000))

    def work(turns: int) -> None:
        for number in range(turns):
            with llm_call("m", input=["q", number]):
                pass
            with tool_turn("t", call_id=str(number)):
                pass

    def start(recorder: Telemetry) -> Any:
        return invoke(
            "a", run_id="r", arm="control", input="x", tracer_provider=recorder.tracer_provider
        )

    crashed = start(telemetry).begin()
    with crashed.attached():
        work(2)
    with start(again):
        work(3)

    run = judged("r", again)
    assert (run.model_turns, run.llm_calls, run.tool_calls, run.problems) == (3, 3, 3, ())
