"""Threads and executors carry what is current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from threading import Thread
from typing import Any

import pytest

from otel_turnavoid import ContextExecutor, carry, current_invoke, invoke, llm_call, tool_turn
from otel_turnavoid.errors import UsageError
from otel_turnavoid.testing import Telemetry


@tool_turn
def look_up(number: int) -> int:
    return number


def numbers(telemetry: Telemetry) -> list[int]:
    return sorted(span.attributes["turnavoid.seq"] for span in telemetry.spans)


def test_a_thread_runs_in_what_was_current(telemetry: Telemetry) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        threads = [Thread(target=carry(look_up), args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert numbers(telemetry) == [0, 1, 2, 3]


def test_what_is_carried_runs_any_number_of_times_and_passes_everything_through(
    telemetry: Telemetry,
) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        carried = carry(look_up)
    assert carried.__name__ == "look_up"
    with pytest.raises(UsageError, match="after the invoke of its run had ended"):
        carried(1)


def test_an_executor_carries_what_was_current_where_work_was_submitted(
    telemetry: Telemetry,
) -> None:
    with ContextExecutor(ThreadPoolExecutor(4)) as threads:
        seen = []
        for run_id in ("r1", "r2"):
            with invoke(run_id, run_id=run_id, tracer_provider=telemetry.tracer_provider):
                assert list(threads.map(look_up, range(5))) == [0, 1, 2, 3, 4]
                seen.append(threads.submit(lambda: current_invoke().run_id).result())

    assert seen == ["r1", "r2"]
    assert numbers(telemetry) == sorted([*range(6), *range(6)])


def test_it_serves_run_in_executor_too(telemetry: Telemetry) -> None:
    async def agent() -> int:
        loop = asyncio.get_running_loop()
        async with invoke("a", tracer_provider=telemetry.tracer_provider):
            with ContextExecutor(ThreadPoolExecutor(1)) as threads:
                return await loop.run_in_executor(threads, look_up, 7)

    assert asyncio.run(agent()) == 7
    assert numbers(telemetry) == [0, 1]


def test_a_context_cannot_go_into_another_process() -> None:
    with (
        ProcessPoolExecutor(1) as processes,
        pytest.raises(UsageError, match=r"hand work over with hop\(\)"),
    ):
        ContextExecutor(processes)


@pytest.mark.usefixtures("production")
def test_in_production_an_executor_of_processes_does_its_work() -> None:
    class Processes(ProcessPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        def shutdown(self, *_: Any, **__: Any) -> None: ...

    with ContextExecutor(Processes(1)) as executor:
        assert executor.submit(pow, 2, 3) == 8


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


def call() -> None:
    with llm_call("model"):
        pass


@pytest.mark.usefixtures("production")
@pytest.mark.parametrize("lost", [call, partial(look_up, 1)], ids=["call", "tool"])
def test_a_run_that_may_have_lost_an_entry_to_a_bare_thread_declares_no_counts(
    telemetry: Telemetry, lost: Callable[[], Any]
) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        call()
        in_a_thread(lost)

    assert "turnavoid.invoke.llm_calls" not in telemetry.spans[-1].attributes


@pytest.mark.usefixtures("production")
def test_what_is_outside_of_a_run_before_and_after_it_does_not_concern_it(
    telemetry: Telemetry,
) -> None:
    call()
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        call()
        in_a_thread(carry(call))
    call()

    (invoked,) = (span for span in telemetry.spans if "turnavoid.invoke.state" in span.attributes)
    assert invoked.attributes["turnavoid.invoke.llm_calls"] == 2
