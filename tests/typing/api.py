"""Uses of the API whose types must hold; checked by mypy strict, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

from typing_extensions import assert_type

from otel_turnavoid import (
    Observer,
    agent_turn,
    current_call,
    input_digest,
    invoke,
    llm_call,
    tool_turn,
    user_turn,
)
from otel_turnavoid.instrument import CallHandle, InvokeHandle, ToolHandle, TurnHandle


@invoke
def bare(task: str, *, hard: bool = False) -> int:
    return len(task) if hard else 0


@invoke("orders", input_from="task", arm="control")
async def called(task: str) -> str:
    return task


@agent_turn
async def turn(number: int) -> bytes:
    return bytes(number)


@llm_call("m")
def stream(question: str) -> Iterator[str]:
    yield question


@llm_call
async def astream(question: str) -> AsyncIterator[str]:
    yield question


class Desk:
    @tool_turn
    def cancel(self, order: int) -> bool:
        return order > 0


async def uses() -> None:
    assert_type(bare("x", hard=True), int)
    assert_type(await called("x"), str)
    assert_type(await turn(3), bytes)
    assert_type(stream("q"), Iterator[str])
    assert_type(astream("q"), AsyncIterator[str])
    assert_type(Desk().cancel(42), bool)
    bound: Callable[[int], bool] = Desk().cancel
    bound(42)

    with invoke("a") as run, agent_turn() as agents, llm_call("m") as call, tool_turn("t") as tool:
        assert_type(run, InvokeHandle)
        assert_type(agents, TurnHandle)
        assert_type(call, CallHandle)
        assert_type(tool, ToolHandle)
        call.usage(input=1)
        with run.attached() as same:
            assert_type(same, InvokeHandle)
    async with user_turn():
        assert_type(current_call(), CallHandle)

    assert_type(input_digest({"a": 1}), str)
    Observer("o").observe("r", {"a": 1})

    bare(3)  # type: ignore[arg-type]
    Desk().cancel("42")  # type: ignore[arg-type]
    llm_call("m", model="x")  # type: ignore[call-overload]
