"""Decorators on every kind of function, with and without parentheses."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from otel_turnavoid import (
    agent_turn,
    current_call,
    current_tool,
    invoke,
    llm_call,
    system_turn,
    tool_turn,
    user_turn,
)
from otel_turnavoid.testing import Telemetry

Said = Callable[[], dict[str, dict[str, Any]]]


def names(telemetry: Telemetry) -> list[str]:
    return [span.name for span in telemetry.spans]


def test_every_kind_decorates_bare_and_called(telemetry: Telemetry) -> None:
    @user_turn
    def bare_user() -> str:
        return "bare user"

    @user_turn()
    def user() -> str:
        return "user"

    @system_turn
    def system() -> str:
        return "system"

    @agent_turn
    def turn() -> str:
        return call() + bare_call()

    @llm_call("m")
    def call() -> str:
        return "call"

    @llm_call
    def bare_call() -> str:
        return "bare call"

    @tool_turn
    def look_up() -> str:
        return "tool"

    @tool_turn("renamed")
    def other() -> str:
        return "other"

    @invoke(tracer_provider=telemetry.tracer_provider)
    def agent() -> list[str]:
        return [bare_user(), user(), system(), turn(), look_up(), other()]

    assert agent() == ["bare user", "user", "system", "callbare call", "tool", "other"]
    assert names(telemetry) == [
        "user_turn",
        "user_turn",
        "system_turn",
        "chat m",
        "chat",
        "agent_turn",
        "execute_tool look_up",
        "execute_tool renamed",
        "invoke_agent agent",
    ]


def test_one_scope_decorates_many_functions(telemetry: Telemetry) -> None:
    tool = tool_turn()

    @tool
    def one() -> None: ...

    @tool
    def two() -> None: ...

    with invoke("a", tracer_provider=telemetry.tracer_provider):
        one()
        two()

    assert names(telemetry)[:2] == ["execute_tool one", "execute_tool two"]


def test_a_bare_invoke_runs_on_the_global_provider() -> None:
    @invoke
    def agent(task: str) -> str:
        return task

    assert agent("x") == "x"


def test_methods_class_methods_and_static_methods(telemetry: Telemetry) -> None:
    class Desk:
        @tool_turn
        def method(self, x: int) -> tuple[Any, int]:
            return self, x

        @classmethod
        @tool_turn
        def class_method(cls) -> type:
            return cls

        @staticmethod
        @tool_turn
        def static_method() -> str:
            return "static"

    desk = Desk()
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        assert desk.method(3) == (desk, 3)
        assert Desk.class_method() is Desk
        assert desk.static_method() == "static"

    assert names(telemetry)[:3] == [
        "execute_tool method",
        "execute_tool class_method",
        "execute_tool static_method",
    ]


def test_the_wrapped_function_keeps_its_face() -> None:
    @llm_call("m")
    async def ask(question: str, *, hard: bool = False) -> str:
        """Ask it."""
        return question

    assert (ask.__name__, ask.__doc__) == ("ask", "Ask it.")
    assert list(inspect.signature(ask).parameters) == ["question", "hard"]
    assert inspect.iscoroutinefunction(ask)


def test_recursion_opens_an_entry_each_time(telemetry: Telemetry) -> None:
    @tool_turn
    def down(depth: int) -> int:
        return depth if depth == 0 else down(depth - 1)

    with invoke("a", tracer_provider=telemetry.tracer_provider):
        down(2)

    assert [span.attributes["turnavoid.seq"] for span in telemetry.spans] == [3, 2, 1, 0]


def test_a_coroutine_function_is_open_until_it_returns(telemetry: Telemetry, said: Said) -> None:
    @llm_call("m")
    async def ask() -> str:
        await asyncio.sleep(0)
        current_call().usage(input=7)
        return "answer"

    @invoke("a", tracer_provider=telemetry.tracer_provider)
    async def agent() -> str:
        async with agent_turn():
            return await ask()

    assert asyncio.run(agent()) == "answer"
    assert said()["chat m"]["gen_ai.usage.input_tokens"] == 7


def test_a_function_that_hands_out_a_coroutine_is_open_until_that_returns(
    telemetry: Telemetry, said: Said
) -> None:
    async def work() -> str:
        current_tool().set(disposition="reused")
        return "x"

    def start() -> Any:
        return work()

    hands_out = tool_turn("t")(start)

    async def agent() -> str:
        with invoke("a", tracer_provider=telemetry.tracer_provider):
            return await hands_out()

    assert asyncio.run(agent()) == "x"
    assert said()["execute_tool t"]["turnavoid.tool.disposition"] == "reused"


def test_a_partial_is_decorated_like_its_function(telemetry: Telemetry) -> None:
    async def work(x: int) -> int:
        return x

    decorated = tool_turn("t")(functools.partial(work, 3))

    async def agent() -> int:
        with invoke("a", tracer_provider=telemetry.tracer_provider):
            return await decorated()

    assert asyncio.run(agent()) == 3


def test_the_input_of_the_run_is_a_parameter_of_the_function(
    telemetry: Telemetry, said: Said
) -> None:
    @invoke(input_from="task", arm="control", tracer_provider=telemetry.tracer_provider)
    def agent(first: int, task: str = "x") -> int:
        return first

    assert agent(1) == 1
    assert (
        said()["invoke_agent agent"]["turnavoid.input.digest"]
        == "sha256:070cf7d7e65f8d2dbff0b8c26a92826e08f4699244c1bde2c2d348effb29e45e"
    )


def test_a_wrong_call_fails_as_it_would_undecorated(telemetry: Telemetry) -> None:
    @invoke(input_from="task", tracer_provider=telemetry.tracer_provider)
    def agent(task: str) -> str:
        return task

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'task'"):
        agent()  # type: ignore[call-arg]
    assert telemetry.spans[0].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
def test_a_wrong_call_leaves_no_entry_open(telemetry: Telemetry, kind: str) -> None:
    @tool_turn
    async def coroutine(x: int) -> int:
        return x

    @tool_turn
    def generator(x: int) -> Iterator[int]:
        yield x

    @tool_turn
    async def async_generator(x: int) -> AsyncIterator[int]:
        yield x

    async def call_wrongly() -> None:
        if kind == "coroutine":
            await coroutine()  # type: ignore[call-arg]
        elif kind == "generator":
            list(generator())  # type: ignore[call-arg]
        else:
            [x async for x in async_generator()]  # type: ignore[call-arg]

    async def agent() -> None:
        with invoke("a", tracer_provider=telemetry.tracer_provider) as run:
            with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
                await call_wrongly()
            assert run.run.counts().entries == len(telemetry.spans) + 1

    asyncio.run(agent())


class TestGenerators:
    """An entry lasts from the first step to the end and is current only inside the body."""

    def test_the_span_covers_the_body_and_not_the_consumer(self, telemetry: Telemetry) -> None:
        seen = []

        @llm_call("m")
        def stream() -> Iterator[str]:
            seen.append(trace.get_current_span().name)
            yield "a"
            seen.append(trace.get_current_span().name)
            current_call().usage(output=2)
            yield "b"

        with invoke("i", tracer_provider=telemetry.tracer_provider), agent_turn():
            seen.extend(f"{token} in {trace.get_current_span().name}" for token in stream())
            assert seen == ["chat m", "a in agent_turn", "chat m", "b in agent_turn"]
            (call,) = telemetry.spans

        assert call.attributes["gen_ai.usage.output_tokens"] == 2
        assert call.attributes["turnavoid.call.disposition"] == "committed"

    def test_an_unused_generator_is_no_entry(self, telemetry: Telemetry) -> None:
        @llm_call("m")
        def stream() -> Iterator[str]:
            yield "a"

        with invoke("i", tracer_provider=telemetry.tracer_provider) as run:
            stream()

        assert run.run.counts().entries == 1

    def test_sent_thrown_and_returned_values_pass_through(self, telemetry: Telemetry) -> None:
        @tool_turn
        def talk() -> Any:
            got = yield "first"
            try:
                yield got
            except KeyError as error:
                yield error
            return "end"

        def consume() -> Any:
            result = yield from talk()
            return result

        with invoke("i", tracer_provider=telemetry.tracer_provider):
            body = consume()
            thrown = KeyError("k")
            assert [next(body), body.send("sent"), body.throw(thrown)] == ["first", "sent", thrown]
            with pytest.raises(StopIteration) as stop:
                next(body)
        assert stop.value.value == "end"

    def test_an_exception_ends_it_once(self, telemetry: Telemetry) -> None:
        @llm_call("m")
        def stream() -> Iterator[str]:
            yield "a"
            raise ConnectionError

        with (
            invoke("i", tracer_provider=telemetry.tracer_provider),
            agent_turn(),
            pytest.raises(ConnectionError),
        ):
            list(stream())

        assert names(telemetry) == ["chat m", "agent_turn", "invoke_agent i"]
        assert telemetry.spans[0].attributes["error.type"] == "ConnectionError"

    def test_an_abandoned_stream_ends_when_it_is_closed(self, telemetry: Telemetry) -> None:
        @llm_call("m")
        def stream() -> Iterator[str]:
            yield "a"
            yield "b"

        with invoke("i", tracer_provider=telemetry.tracer_provider), agent_turn():
            for _ in stream():
                break
            gc.collect()
            (call,) = telemetry.spans

        assert call.attributes["turnavoid.call.disposition"] == "failed"
        assert call.attributes["error.type"] == "GeneratorExit"

    def test_entries_inside_the_body_stay_nested_across_steps(self, telemetry: Telemetry) -> None:
        @agent_turn
        def turn() -> Iterator[str]:
            with llm_call("m"):
                yield "a"
                with tool_turn("t"):
                    yield "b"

        with invoke("i", tracer_provider=telemetry.tracer_provider):
            assert list(turn()) == ["a", "b"]

        parents = {s.name: s.parent and s.parent.span_id for s in telemetry.spans}
        ids = {s.name: s.context.span_id for s in telemetry.spans}
        assert parents == {
            "execute_tool t": ids["chat m"],
            "chat m": ids["agent_turn"],
            "agent_turn": ids["invoke_agent i"],
            "invoke_agent i": None,
        }


class TestAsyncGenerators:
    def test_the_span_covers_the_body_and_not_the_consumer(self, telemetry: Telemetry) -> None:
        seen = []

        @llm_call("m")
        async def stream() -> AsyncIterator[str]:
            await asyncio.sleep(0)
            seen.append(trace.get_current_span().name)
            yield "a"
            await asyncio.sleep(0)
            seen.append(trace.get_current_span().name)
            yield "b"

        async def agent() -> None:
            with invoke("i", tracer_provider=telemetry.tracer_provider), agent_turn():
                async for token in stream():
                    seen.append(f"{token} in {trace.get_current_span().name}")  # noqa: PERF401

        asyncio.run(agent())
        assert seen == ["chat m", "a in agent_turn", "chat m", "b in agent_turn"]
        assert names(telemetry) == ["chat m", "agent_turn", "invoke_agent i"]

    def test_an_exception_ends_it_once(self, telemetry: Telemetry) -> None:
        @llm_call("m")
        async def stream() -> AsyncIterator[str]:
            yield "a"
            raise ConnectionError

        async def agent() -> None:
            with (
                invoke("i", tracer_provider=telemetry.tracer_provider),
                agent_turn(),
                pytest.raises(ConnectionError),
            ):
                [token async for token in stream()]

        asyncio.run(agent())
        assert [s.attributes.get("error.type") for s in telemetry.spans] == [
            "ConnectionError",
            None,
            None,
        ]

    def test_closed_from_another_task_it_ends_once_and_quietly(
        self, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
    ) -> None:
        @llm_call("m")
        async def stream() -> AsyncIterator[str]:
            with tool_turn("inner"):
                yield "a"
                yield "b"

        async def agent() -> None:
            with invoke("i", tracer_provider=telemetry.tracer_provider), agent_turn():
                tokens = stream()
                await tokens.__anext__()
                await asyncio.create_task(tokens.aclose())  # type: ignore[attr-defined]

        with caplog.at_level(logging.DEBUG):
            asyncio.run(agent())
        assert names(telemetry) == [
            "execute_tool inner",
            "chat m",
            "agent_turn",
            "invoke_agent i",
        ]
        assert not [record for record in caplog.records if record.name.startswith("opentele")]
