"""Uses of the API whose types must hold; checked by mypy and pyright, both strict, never run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnusedFunction=false

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from typing_extensions import Self, assert_type

from otel_turnavoid import (
    ContextExecutor,
    Handover,
    Observer,
    agent_turn,
    carry,
    current_call,
    hop,
    input_digest,
    invoke,
    join,
    llm_call,
    resume,
    speculation,
    system_turn,
    tool_turn,
    user_turn,
    validation,
)
from otel_turnavoid.instrument import (
    CallHandle,
    Hop,
    InvokeHandle,
    Joined,
    OverheadHandle,
    ToolHandle,
    TurnHandle,
)


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


@llm_call("m", input_from="question", samplings=1)
async def agen(question: str) -> AsyncGenerator[str, int]:
    yield question


@system_turn
def generator(number: int) -> Generator[int, str, bytes]:
    yield number
    return b""


@validation
def fits(plan: str) -> bool:
    return bool(plan)


@resume("handover")
def go_on(answer: str) -> str:
    return answer


class Desk:
    @tool_turn
    def cancel(self, order: int) -> bool:
        return order > 0

    @classmethod
    @tool_turn("open")
    def open(cls, name: str) -> Self:
        del name
        return cls()

    @staticmethod
    @tool_turn
    def close(hour: int) -> int:
        return hour


async def uses() -> None:
    assert_type(bare("x", hard=True), int)
    assert_type(await called("x"), str)
    assert_type(await turn(3), bytes)
    assert_type(stream("q"), Iterator[str])
    assert_type(astream("q"), AsyncIterator[str])
    assert_type(agen("q"), AsyncGenerator[str, int])
    assert_type(generator(1), Generator[int, str, bytes])
    assert_type(fits("plan"), bool)
    assert_type(go_on("yes"), str)
    assert_type(Desk().cancel(42), bool)
    assert_type(Desk.open("x"), Desk)
    assert_type(Desk.close(18), int)
    assert_type(carry(bare)("x", hard=True), int)
    with ContextExecutor(ThreadPoolExecutor()) as threads:
        assert_type(threads.submit(bare, "x", hard=True), Future[int])
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
    with speculation() as work, hop() as away, join({}) as here:
        assert_type(work, OverheadHandle)
        assert_type(away, Hop)
        assert_type(here, Joined)
        away.report(here.report())
    with invoke("a") as run:
        assert_type(run.pause(), Handover)
        run.realized("exact-reuse", reason="exact-match")
    async with user_turn():
        assert_type(current_call(), CallHandle)

    assert_type(input_digest({"a": 1}), str)
    Observer("o").observe("r", {"a": 1})

    bare(3)  # type: ignore[arg-type]
    Desk().cancel("42")  # type: ignore[arg-type]
    llm_call("m", model="x")  # type: ignore[call-overload]
    carry(bare)(3)  # type: ignore[arg-type]
    Desk.open(1)  # type: ignore[arg-type]
    fits(plan=1)  # type: ignore[arg-type]
