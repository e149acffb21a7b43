"""What the instrumentation emits is what our own dialect reads, without a fault."""

from __future__ import annotations

from otel_turnavoid import agent_turn, invoke, llm_call, system_turn, tool_turn, user_turn
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import Counts, Retained, SpanFact, Usage
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.testing import Telemetry
from otel_turnavoid.vocabulary import (
    Arm,
    Disposition,
    Entry,
    InvokeState,
    Lifecycle,
    ToolDisposition,
)


def facts(telemetry: Telemetry) -> list[SpanFact]:
    batch = read_traces(telemetry.trace_request(), Reader(Settings()))
    assert (batch.ignored, batch.rejected) == (0, 0)
    return sorted(batch.facts, key=lambda fact: fact.seq or 0)


def test_a_whole_run_reads_back_as_facts(telemetry: Telemetry) -> None:
    with (
        invoke(
            "orders",
            run_id="r",
            arm="exact-reuse",
            variant="v",
            experiment="e",
            unit="u",
            turn_index=2,
            decision_basis=1,
            lifecycle="realized",
            input="x",
            tracer_provider=telemetry.tracer_provider,
        ) as run,
        user_turn(),
        system_turn(),
        agent_turn(),
    ):
        run.retained(tokens=5, latency_ms=2)
        with llm_call("m", provider="p") as call:
            call.set(model="m-2", response_id="resp")
            call.usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5)
            call.cost(0.5)
        with tool_turn("t", call_id="c", disposition="reused"):
            pass

    read = facts(telemetry)
    assert [fact.faults for fact in read] == [()] * 6
    assert [fact.entry for fact in read] == [
        Entry.INVOKE,
        Entry.USER_TURN,
        Entry.SYSTEM_TURN,
        Entry.AGENT_TURN,
        Entry.LLM_CALL,
        Entry.TOOL_TURN,
    ]
    assert {(f.run_id, f.arm, f.variant, f.own) for f in read} == {
        ("r", Arm.EXACT_REUSE, "v", True)
    }
    first, llm, tool = read[0], read[4].call, read[5].tool
    assert (first.experiment, first.unit, first.agent) == ("e", "u", "orders")
    assert first.retained == Retained(tokens=5, latency_ms=2.0)
    assert first.invoke is not None
    assert first.invoke.counts == Counts(agent_turns=1, llm_calls=1, tool_turns=1, entries=6)
    assert first.invoke.state is InvokeState.COMPLETED
    assert first.invoke.lifecycle is Lifecycle.REALIZED
    assert (first.invoke.turn_index, first.invoke.decision_basis) == (2, 1)
    assert llm is not None
    assert (llm.model, llm.response_id, llm.disposition, llm.attempt, llm.samplings) == (
        "m-2",
        "resp",
        Disposition.COMMITTED,
        1,
        1,
    )
    assert llm.usage == Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5)
    assert read[4].cost_usd == 0.5
    assert tool is not None
    assert (tool.name, tool.call_id, tool.disposition) == ("t", "c", ToolDisposition.REUSED)
