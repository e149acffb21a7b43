"""Sequence numbers are gapless across threads and tasks, and nobody else's entries leak in."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.testing import Telemetry


def numbers(telemetry: Telemetry) -> list[int]:
    return sorted(span.attributes["turnavoid.seq"] for span in telemetry.spans)


def test_threads_take_gapless_numbers(telemetry: Telemetry) -> None:
    together = Barrier(4)

    @tool_turn
    def look_up() -> None: ...

    def work() -> None:
        together.wait(timeout=30)
        for _ in range(50):
            look_up()

    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        ThreadPoolExecutor(4) as threads,
    ):
        for job in [threads.submit(contextvars.copy_context().run, work) for _ in range(4)]:
            job.result()

    assert numbers(telemetry) == list(range(201))
    assert telemetry.spans[-1].attributes["turnavoid.invoke.tool_turns"] == 200


def test_a_thread_joins_by_attaching(telemetry: Telemetry) -> None:
    def work() -> None:
        with run.attached(), tool_turn("t"):
            pass

    with (
        invoke("a", tracer_provider=telemetry.tracer_provider) as run,
        ThreadPoolExecutor(1) as threads,
    ):
        threads.submit(work).result()

    assert numbers(telemetry) == [0, 1]


def test_parallel_tasks_share_a_run(telemetry: Telemetry) -> None:
    @tool_turn
    async def look_up() -> None:
        await asyncio.sleep(0)

    async def agent() -> None:
        async with invoke("a", tracer_provider=telemetry.tracer_provider):
            await asyncio.gather(*(look_up() for _ in range(10)))

    asyncio.run(agent())
    assert numbers(telemetry) == list(range(11))
    assert {span.parent and span.parent.span_id for span in telemetry.spans} == {1, None}


def test_parallel_runs_stay_apart(telemetry: Telemetry) -> None:
    async def agent(run_id: str) -> None:
        async with invoke("a", run_id=run_id, tracer_provider=telemetry.tracer_provider):
            for _ in range(3):
                async with agent_turn(), llm_call("m"):
                    await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(agent(f"r{number}") for number in range(4)))

    asyncio.run(main())
    by_run: dict[str, list[int]] = {}
    for span in telemetry.spans:
        by_run.setdefault(span.attributes["turnavoid.run.id"], []).append(
            span.attributes["turnavoid.seq"]
        )
    assert {run: sorted(seqs) for run, seqs in by_run.items()} == {
        f"r{number}": list(range(7)) for number in range(4)
    }


def test_no_lock_is_held_while_user_code_runs(telemetry: Telemetry) -> None:
    """Two tools that wait for each other inside their entries both get through."""
    together = Barrier(2)

    @tool_turn
    def meet() -> None:
        together.wait(timeout=30)

    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        ThreadPoolExecutor(2) as threads,
    ):
        for job in [threads.submit(contextvars.copy_context().run, meet) for _ in range(2)]:
            job.result()

    assert len(telemetry.spans) == 3


class WaitsForAnotherThread(SpanProcessor):
    """Where the first AgentTurn starts or ends, lets another thread make a call of the same run."""

    def __init__(self, moment: str) -> None:
        self.moment = moment
        self.waited_in_vain: list[bool] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        if self.moment == "start":
            self.wait_at(span.name)

    def on_end(self, span: ReadableSpan) -> None:
        if self.moment == "end":
            self.wait_at(span.name)

    def wait_at(self, name: str) -> None:
        if name != "agent_turn" or self.waited_in_vain:
            return
        other = Thread(target=contextvars.copy_context().run, args=(ask,), daemon=True)
        self.waited_in_vain.append(True)
        other.start()
        other.join(timeout=30)
        self.waited_in_vain[0] = other.is_alive()


@llm_call("m")
def ask() -> None: ...


@pytest.mark.parametrize("moment", ["start", "end"])
def test_no_lock_is_held_while_a_processor_takes_an_automatic_turn(
    telemetry: Telemetry, moment: str
) -> None:
    waiting = WaitsForAnotherThread(moment)
    telemetry.tracer_provider.add_span_processor(waiting)

    with invoke("a", tracer_provider=telemetry.tracer_provider):
        ask()
        ask()

    assert waiting.waited_in_vain == [False]
    assert numbers(telemetry) == list(range(7))
    assert telemetry.spans[-1].attributes["turnavoid.invoke.agent_turns"] == 3


class HoldsTheFirstTurn(SpanProcessor):
    """Where the first AgentTurn starts, waits until it is told to go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = Event(), Event()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        if span.name == "agent_turn" and not self.reached.is_set():
            self.reached.set()
            self.go_on.wait(timeout=30)


def test_a_call_with_the_input_of_a_turn_that_is_still_starting_joins_it(
    telemetry: Telemetry,
) -> None:
    holding = HoldsTheFirstTurn()
    telemetry.tracer_provider.add_span_processor(holding)

    def same() -> None:
        with llm_call("m", input=["hello"]):
            pass

    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        ThreadPoolExecutor(2) as threads,
    ):
        first = threads.submit(contextvars.copy_context().run, same)
        assert holding.reached.wait(timeout=30)
        second = threads.submit(contextvars.copy_context().run, same)
        holding.go_on.set()
        first.result()
        second.result()

    assert telemetry.spans[-1].attributes["turnavoid.invoke.agent_turns"] == 1
    attempts = [span.attributes["turnavoid.call.attempt"] for span in telemetry.spans[:2]]
    assert sorted(attempts) == [1, 2]


def test_a_processor_may_make_the_same_call_while_its_turn_starts(telemetry: Telemetry) -> None:
    class AsksAgain(SpanProcessor):
        asked = False

        def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
            if span.name == "agent_turn" and not self.asked:
                self.asked = True
                same()

    @llm_call("m", input=["hello"])
    def same() -> None: ...

    telemetry.tracer_provider.add_span_processor(AsksAgain())

    with invoke("a", tracer_provider=telemetry.tracer_provider):
        same()

    assert numbers(telemetry) == list(range(5))


def test_a_turn_whose_start_fails_leaves_nothing_to_wait_for(telemetry: Telemetry) -> None:
    class Fails(SpanProcessor):
        failed = False

        def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
            if span.name == "agent_turn" and not self.failed:
                self.failed = True
                raise ValueError(span.name)

    @llm_call("m", input=["hello"])
    def same() -> None: ...

    telemetry.tracer_provider.add_span_processor(Fails())

    with invoke("a", tracer_provider=telemetry.tracer_provider):
        with pytest.raises(ValueError, match="agent_turn"):
            same()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(contextvars.copy_context().run, same).result(timeout=30)

    assert [span.name for span in telemetry.spans] == ["chat m", "agent_turn", "invoke_agent a"]
