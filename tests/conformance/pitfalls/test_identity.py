"""Parents, sub-agents, generators and long sessions (``A…``: shared/pitfalls.md)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from otel_turnavoid import agent_turn, invoke, llm_call
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.testing import SteppedClock, Telemetry, Turn, run_spans

CHAT = {"gen_ai.operation.name": "chat"}
AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "delegate"}


def test_a28_a29_every_span_a_trace_of_its_own_and_one_run(bench, spans) -> None:
    """Thread pools and async graphs lose the parent; the run id is on each span."""
    sent = spans({"turnavoid.run.id": "r"})
    for trace, said in enumerate([AGENT, *[CHAT, TOOL] * 4]):
        sent.add(said, trace=trace)
    bench.traces(sent.request())

    runs = bench.runs()
    assert {name: (run.model_turns, run.tool_calls) for name, run in runs.items()} == {"r": (4, 4)}


def test_a37_two_runs_under_one_derived_trace_id_are_two(bench) -> None:
    for run_id, turns in (("one", 3), ("two", 2)):
        bench.traces(run_spans(run_id=run_id, turns=turns, trace_id=b"derived trace id"))

    assert {name: run.model_turns for name, run in bench.runs().items()} == {"one": 3, "two": 2}


def test_a31_a_generator_closed_from_another_task_ends_one_span(bench, caplog) -> None:
    """Nothing is detached from a context that is not its own, and the next run has no parent."""
    telemetry = Telemetry()

    @llm_call("m")
    async def stream() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async def agent() -> None:
        async with (
            invoke("i", run_id="first", tracer_provider=telemetry.tracer_provider),
            agent_turn(),
        ):
            answer = stream()
            await anext(answer)
            await asyncio.create_task(answer.aclose())
        async with invoke("i", run_id="second", tracer_provider=telemetry.tracer_provider):
            pass

    with caplog.at_level(logging.WARNING):
        asyncio.run(agent())

    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []
    assert [span.name for span in telemetry.spans].count("chat m") == 1
    assert telemetry.spans[-1].parent is None
    bench.traces(telemetry.trace_request())
    assert {name: run.llm_calls for name, run in bench.runs().items()} == {"first": 1, "second": 0}


def test_a38_three_subagents_of_one_prompt_are_three(bench, spans) -> None:
    """Parallel, under one prompt id, each below a tool call of its own."""
    sent = spans({"turnavoid.run.id": "r"})
    prompt = {"prompt.id": "p"}
    root = sent.add(AGENT | prompt, ms=0)
    sent.add(CHAT | prompt, root)
    for number in range(3):
        called = TOOL | prompt | {"gen_ai.tool.call.id": f"call_{number}"}
        agent = sent.add(AGENT | prompt, sent.add(called, root, ms=0), ms=0)
        for _ in range(2):
            sent.add(CHAT | prompt, agent)
    bench.traces(sent.request())

    run = bench.runs()["r"]
    assert (run.model_turns, run.tool_calls) == (7, 3)


def test_a40_a_session_of_10000_turns_over_days_is_counted_exactly(bench, edited) -> None:
    """A minute from entry to entry; afterwards the ledger keeps one short run."""

    def stretched(sent) -> None:
        for number, span in enumerate(sent):
            span.start_time_unix_nano = span.end_time_unix_nano = (1 + number) * 60 * SECOND
        sent[0].end_time_unix_nano = sent[len(sent) - 1].end_time_unix_nano

    plan = [Turn(tools=())] * 10_000
    bench.traces(edited(run_spans(run_id="r", turns=plan), stretched))

    run = bench.runs()["r"]
    assert (run.model_turns, run.llm_calls, run.causes) == (10_000, 10_000, ())
    assert (run.end_ns - run.start_ns) // (86_400 * SECOND) == 13


def test_a60_a_nested_agent_does_not_restart_its_callers_count(bench) -> None:
    """Outer call, outer call, nested agent with one, outer call."""
    telemetry = Telemetry(clock=SteppedClock())

    def call() -> None:
        with agent_turn(), llm_call("m"):
            pass

    with invoke("outer", run_id="r", tracer_provider=telemetry.tracer_provider):
        call()
        call()
        with invoke("inner"):
            call()
        call()
    bench.traces(telemetry.trace_request())

    run = bench.runs()["r"]
    numbers = sorted(span.attributes["turnavoid.seq"] for span in telemetry.spans)
    assert numbers == list(range(len(telemetry.spans)))
    assert (run.model_turns, run.rejections) == (4, ("arm-missing",))
    assert not [line for line in run.problems if "sequence" in line]
