"""However a stream or coroutine is left, its entry ends once, with the right status."""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import trace

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.testing import Telemetry


def in_run(telemetry: Telemetry) -> Any:
    return invoke("i", tracer_provider=telemetry.tracer_provider)


def ended(telemetry: Telemetry) -> list[tuple[str, str | None]]:
    return [(span.name, span.attributes.get("error.type")) for span in telemetry.spans]


def test_an_async_stream_that_is_abandoned_ends_with_its_loop(telemetry: Telemetry) -> None:
    @llm_call("m")
    async def stream() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async def agent() -> None:
        async with in_run(telemetry), agent_turn():
            async for _ in stream():
                break

    asyncio.run(agent())
    gc.collect()
    assert [name for name, error in ended(telemetry) if error] == ["chat m"]
    assert [name for name, _ in ended(telemetry)].count("chat m") == 1
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_stream_in_a_task_that_is_cancelled_ends_as_cancelled(telemetry: Telemetry) -> None:
    @llm_call("m")
    async def stream() -> AsyncIterator[str]:
        yield "a"
        await asyncio.Event().wait()

    async def read() -> None:
        async for _ in stream():
            pass

    async def agent() -> None:
        async with in_run(telemetry), agent_turn():
            task = asyncio.create_task(read())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(agent())
    assert ended(telemetry) == [
        ("chat m", "asyncio.exceptions.CancelledError"),
        ("agent_turn", None),
        ("invoke_agent i", None),
    ]


def test_values_sent_and_thrown_pass_through_an_async_generator(telemetry: Telemetry) -> None:
    @tool_turn("talk")
    async def talk() -> AsyncGenerator[Any, Any]:
        got = yield "first"
        try:
            yield got
        except KeyError as error:
            yield error

    async def agent() -> None:
        async with in_run(telemetry):
            body = talk()
            thrown = KeyError("k")
            assert await body.asend(None) == "first"
            assert await body.asend("sent") == "sent"
            assert await body.athrow(thrown) is thrown
            with pytest.raises(StopAsyncIteration):
                await body.asend(None)

    asyncio.run(agent())
    assert ended(telemetry) == [("execute_tool talk", None), ("invoke_agent i", None)]


def test_a_coroutine_that_is_closed_before_its_end_ends_once(telemetry: Telemetry) -> None:
    @tool_turn("wait")
    async def wait() -> None:
        await asyncio.Future()

    async def agent() -> None:
        async with in_run(telemetry):
            coroutine = wait()
            coroutine.send(None)
            coroutine.close()

    asyncio.run(agent())
    assert ended(telemetry) == [("execute_tool wait", "GeneratorExit"), ("invoke_agent i", None)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
def test_whatever_is_thrown_into_a_generator_ends_it_once(
    telemetry: Telemetry, error: type[BaseException]
) -> None:
    @llm_call("m")
    def stream() -> Iterator[str]:
        yield "a"

    with in_run(telemetry), agent_turn():
        tokens = stream()
        next(tokens)
        with pytest.raises(error):
            tokens.throw(error())  # type: ignore[attr-defined]

    assert ended(telemetry)[0] == ("chat m", error.__name__)
    assert len(telemetry.spans) == 3


def test_a_generator_that_handles_its_closing_ends_as_failed(telemetry: Telemetry) -> None:
    """The consumer did not take the whole stream, however tidily the generator closes."""
    closed = []

    @llm_call("m")
    def stream() -> Generator[str, None, None]:
        try:
            yield "a"
        finally:
            closed.append(trace.get_current_span().name)

    with in_run(telemetry), agent_turn():
        tokens = stream()
        next(tokens)
        tokens.close()
        tokens.close()

    assert closed == ["chat m"]
    assert ended(telemetry)[0] == ("chat m", "GeneratorExit")


def test_partials_of_coroutine_functions_and_callable_objects(telemetry: Telemetry) -> None:
    async def look_up(number: int) -> int:
        return number

    class Tool:
        async def __call__(self, number: int) -> int:
            return number

    async def agent() -> None:
        async with in_run(telemetry):
            assert await tool_turn("partial")(functools.partial(look_up, 1))() == 1
            assert await tool_turn("object")(Tool())(2) == 2

    asyncio.run(agent())
    assert [name for name, _ in ended(telemetry)] == [
        "execute_tool partial",
        "execute_tool object",
        "invoke_agent i",
    ]


def test_nothing_is_current_while_a_consumer_runs_other_entries(telemetry: Telemetry) -> None:
    """Two streams, read in turns, nest under the turn and not in each other."""

    @llm_call("m")
    def stream(name: str) -> Iterator[str]:
        with tool_turn(name):
            yield name
            yield name

    with in_run(telemetry), agent_turn():
        for _ in zip(stream("x"), stream("y"), strict=True):
            with tool_turn("consumer"):
                pass

    ids = {span.context.span_id: span.name for span in telemetry.spans}
    parents = {
        span.name: ids[span.parent.span_id] for span in telemetry.spans if span.parent is not None
    }
    assert parents == {
        "execute_tool x": "chat m",
        "execute_tool y": "chat m",
        "execute_tool consumer": "agent_turn",
        "chat m": "agent_turn",
        "agent_turn": "invoke_agent i",
    }


def test_an_entry_in_a_with_inside_a_generator_closed_late_takes_nothing_away(
    telemetry: Telemetry,
) -> None:
    def careless() -> Iterator[str]:
        with tool_turn("careless"):
            yield "a"

    with in_run(telemetry):
        tokens = careless()
        next(tokens)
    assert trace.get_current_span() is trace.INVALID_SPAN
    with in_run(telemetry) as second:
        tokens.close()  # type: ignore[attr-defined]
        assert trace.get_current_span() is second.span
