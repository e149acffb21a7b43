"""AgentTurns open and close by themselves, by the retry rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pytest

from otel_turnavoid import ContextExecutor, agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.judge.run import Run
from otel_turnavoid.testing import Telemetry

Judged = Callable[..., Run]


def in_run(telemetry: Telemetry, **said: Any) -> Any:
    said = {"run_id": "r", "arm": "control", "input": "task"} | said
    return invoke("a", tracer_provider=telemetry.tracer_provider, **said)


def shape(telemetry: Telemetry) -> list[tuple[str, str | None, int]]:
    """Name, name of the parent and sequence number of every span, by number."""
    names = {span.context.span_id: span.name for span in telemetry.spans}
    rows = [
        (
            span.name,
            names[span.parent.span_id] if span.parent else None,
            span.attributes["turnavoid.seq"],
        )
        for span in telemetry.spans
    ]
    return sorted(rows, key=lambda row: row[2])


def calls(telemetry: Telemetry) -> list[tuple[int, int]]:
    """Number of the turn, and attempt in it, of every call, by sequence number."""
    turns = [s.context.span_id for s in by_number(telemetry) if s.name == "agent_turn"]
    return [
        (turns.index(span.parent.span_id) + 1, span.attributes["turnavoid.call.attempt"])
        for span in by_number(telemetry)
        if span.name.startswith("chat")
    ]


def by_number(telemetry: Telemetry) -> list[Any]:
    return sorted(telemetry.spans, key=lambda span: span.attributes["turnavoid.seq"])


def test_each_changed_input_is_a_turn(telemetry: Telemetry, judged: Judged) -> None:
    with in_run(telemetry):
        with llm_call("m", input=["q"]):
            pass
        with tool_turn("t"):
            pass
        with llm_call("m", input=["q", "t's result"]):
            pass

    assert shape(telemetry) == [
        ("invoke_agent a", None, 0),
        ("agent_turn", "invoke_agent a", 1),
        ("chat m", "agent_turn", 2),
        ("execute_tool t", "invoke_agent a", 3),
        ("agent_turn", "invoke_agent a", 4),
        ("chat m", "agent_turn", 5),
    ]
    run = judged()
    assert (run.model_turns, run.llm_calls, run.problems) == (2, 2, ())


def test_a_turn_spans_its_calls_and_the_tools_that_follow_lie_outside(
    telemetry: Telemetry,
) -> None:
    with in_run(telemetry):
        with llm_call("m", input="q"):
            pass
        with tool_turn("t"):
            pass

    at = {span.name: span for span in telemetry.spans}
    turn, call, tool = at["agent_turn"], at["chat m"], at["execute_tool t"]
    assert turn.start_time < call.start_time
    assert turn.end_time == call.end_time
    assert turn.end_time < tool.start_time


def test_the_identical_input_continues_the_turn_also_with_another_model(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with suppress(ConnectionError), llm_call("m", input="q"):
            raise ConnectionError
        with llm_call("fallback", input="q"):
            pass

    assert calls(telemetry) == [(1, 1), (1, 2)]
    run = judged()
    assert (run.model_turns, run.llm_calls, run.problems) == (1, 2, ())


def test_the_same_input_sampled_twice_is_one_turn(telemetry: Telemetry, judged: Judged) -> None:
    with in_run(telemetry):
        for _ in range(2):
            with llm_call("m", input="q"):
                pass

    assert calls(telemetry) == [(1, 1), (1, 2)]
    assert judged().model_turns == 1


def test_a_failed_call_with_another_input_has_a_turn_of_its_own(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with suppress(ConnectionError), llm_call("m", input="too long"):
            raise ConnectionError
        with llm_call("m", input="shorter"):
            pass

    turns = [s for s in by_number(telemetry) if s.name == "agent_turn"]
    assert [s.attributes["turnavoid.turn.disposition"] for s in turns] == ["failed", "committed"]
    assert judged().model_turns == 1


def test_where_inputs_are_not_stated_only_a_failed_call_is_tried_again(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with suppress(ConnectionError), llm_call("m"):
            raise ConnectionError
        for _ in range(2):
            with llm_call("m"):
                pass

    assert calls(telemetry) == [(1, 1), (1, 2), (2, 1)]
    assert judged().model_turns == 2


@pytest.mark.parametrize("purpose", ["side", "validation", "compaction"])
def test_calls_of_other_purposes_open_and_end_no_turn(
    telemetry: Telemetry, judged: Judged, purpose: str
) -> None:
    with in_run(telemetry):
        with suppress(ConnectionError), llm_call("m", input="q"):
            raise ConnectionError
        with llm_call("guard", purpose=purpose, input="is it fine?"):
            pass
        with llm_call("m", input="q"):
            pass

    assert [row[:2] for row in shape(telemetry)] == [
        ("invoke_agent a", None),
        ("agent_turn", "invoke_agent a"),
        ("chat m", "agent_turn"),
        ("chat guard", "invoke_agent a"),
        ("chat m", "agent_turn"),
    ]
    assert judged().model_turns == 1


def test_a_discarded_speculation_is_a_turn_that_is_not_committed(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with llm_call("m", purpose="speculation", input="q") as call:
            call.set(disposition="discarded")
        with llm_call("m", input="q"):
            pass

    assert calls(telemetry) == [(1, 1), (2, 1)]
    assert judged().model_turns == 1


def test_a_continuation_stays_in_the_turn_over_the_tools_of_the_models_code(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with llm_call("m", input=["q"]):
            pass
        for step in range(3):
            with tool_turn("t", caller="code"):
                pass
            with llm_call("m", input=["q", step], samplings=0):
                pass
        with llm_call("m", input=["q", "all"]):
            pass

    assert calls(telemetry) == [(1, 1), (1, 1), (1, 1), (1, 1), (2, 1)]
    run = judged()
    assert (run.model_turns, run.tool_calls, run.problems) == (2, 3, ())


def test_a_continuation_that_shows_only_at_its_end_adds_no_committed_turn(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with llm_call("m", input=["q"]):
            pass
        with llm_call("m", input=["q", 1]) as call:
            call.set(samplings=0)

    turns = [s for s in by_number(telemetry) if s.name == "agent_turn"]
    assert [s.attributes["turnavoid.turn.disposition"] for s in turns] == [
        "committed",
        "discarded",
    ]
    assert judged().model_turns == 1


def test_a_turn_opened_by_hand_holds_its_calls(telemetry: Telemetry, judged: Judged) -> None:
    with in_run(telemetry):
        with llm_call("m", input="q"):
            pass
        with agent_turn(), llm_call("m", input="q2"):
            pass
        with llm_call("m", input="q3"):
            pass

    assert calls(telemetry) == [(1, 1), (2, 1), (3, 1)]
    assert judged().model_turns == 3


@pytest.mark.usefixtures("production")
def test_an_input_that_changes_inside_a_turn_by_hand_is_counted_as_the_turns_that_it_is(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry), agent_turn():
        for question in ("q1", "q2"):
            with llm_call("m", input=question):
                pass

    run = judged()
    assert (run.model_turns, run.causes) == (2, ())


def test_a_sub_agents_turns_are_its_own_and_the_outer_retry_goes_on_after_it(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with suppress(ConnectionError), llm_call("outer", input="q"):
            raise ConnectionError
        with invoke("helper"), llm_call("inner", input="h"):
            pass
        with llm_call("outer", input="q"):
            pass

    assert calls(telemetry) == [(1, 1), (2, 1), (1, 2)]
    assert judged().model_turns == 2


def test_a_tool_that_asks_a_model_has_turns_of_its_own(
    telemetry: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with llm_call("m", input="q"):
            pass
        with tool_turn("ask"), llm_call("m", input="q"):
            pass

    assert calls(telemetry) == [(1, 1), (2, 1)]
    assert judged().model_turns == 2


@pytest.mark.parametrize(("same", "turns"), [(False, 3), (True, 1)])
def test_parallel_calls_are_turns_of_their_own_unless_their_input_is_identical(
    telemetry: Telemetry, judged: Judged, *, same: bool, turns: int
) -> None:
    together = Barrier(3)

    def ask(number: int) -> None:
        with llm_call("m", input="q" if same else f"q{number}"):
            together.wait(timeout=30)

    with in_run(telemetry), ContextExecutor(ThreadPoolExecutor(3)) as threads:
        list(threads.map(ask, range(3)))

    run = judged()
    assert (run.model_turns, run.llm_calls, run.problems) == (turns, 3, ())
    assert telemetry.spans[-1].attributes["turnavoid.invoke.agent_turns"] == turns


def test_parallel_tasks_too(telemetry: Telemetry, judged: Judged) -> None:
    async def ask(number: int) -> None:
        async with llm_call("m", input=f"q{number}"):
            await asyncio.sleep(0)

    async def agent() -> None:
        async with in_run(telemetry):
            await asyncio.gather(*map(ask, range(4)))

    asyncio.run(agent())
    run = judged()
    assert (run.model_turns, run.problems) == (4, ())


def test_the_input_is_a_parameter_of_a_decorated_function(
    telemetry: Telemetry, judged: Judged
) -> None:
    @llm_call("m", input_from="messages")
    def ask(messages: list[str]) -> str:
        return messages[-1]

    with in_run(telemetry):
        assert [ask(["q"]), ask(["q"]), ask(["q", "more"])] == ["q", "q", "more"]

    assert calls(telemetry) == [(1, 1), (1, 2), (2, 1)]
    assert judged().model_turns == 2


def test_the_parameter_of_a_decorated_function_wins_over_an_input_stated_beside(
    telemetry: Telemetry,
) -> None:
    @llm_call("m", input="always the same", input_from="messages")
    def ask(messages: list[str]) -> None: ...

    with in_run(telemetry):
        ask(["q"])
        ask(["q", "more"])

    assert calls(telemetry) == [(1, 1), (2, 1)]


def test_a_call_that_outlives_its_invoke_ends_its_turn(telemetry: Telemetry) -> None:
    outliving = llm_call("m", input="q")
    with in_run(telemetry):
        call = outliving.begin()
    assert [span.name for span in telemetry.spans] == ["invoke_agent a"]

    call.end()
    assert [span.name for span in telemetry.spans[1:]] == ["chat m", "agent_turn"]
