"""The spans of a run are those of design section 3, attribute by attribute."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from otel_turnavoid import (
    agent_turn,
    current_invoke,
    invoke,
    llm_call,
    system_turn,
    tool_turn,
    user_turn,
)
from otel_turnavoid.testing import START_NS, Telemetry

Said = Callable[[], dict[str, dict[str, Any]]]
S = 1_000_000_000


def digest(form: str) -> str:
    return "sha256:" + sha256(form.encode()).hexdigest()


def test_a_whole_run(telemetry: Telemetry) -> None:
    with invoke(
        "orders",
        run_id="r1",
        arm="fused-batch",
        variant="v2",
        experiment="e1",
        unit="u1",
        turn_index=3,
        decision_basis=2,
        mechanism="fused-batch",
        lifecycle="realized",
        reason="serial-round-trip-collapsed",
        input={"order": 42},
        conversation="c1",
        tracer_provider=telemetry.tracer_provider,
    ):
        with user_turn():
            pass
        with agent_turn(), llm_call("gpt-5.1", provider="openai", input=["hi"]) as call:
            call.set(model="gpt-5.1-2026", response_id="resp-1", finish_reasons=["tool_call"])
            call.usage(input=200, output=20, cache_read=180, cache_write=5, reasoning=7)
            call.cost(0.002)
        with tool_turn("cancel_order", call_id="call-1"):
            pass
        with system_turn():
            pass

    common = {
        "turnavoid.run.id": "r1",
        "turnavoid.arm": "fused-batch",
        "turnavoid.variant": "v2",
    }
    expected = [
        (
            "user_turn",
            SpanKind.INTERNAL,
            2,
            1,
            {"turnavoid.entry": "user_turn", "turnavoid.seq": 1},
        ),
        (
            "chat gpt-5.1",
            SpanKind.CLIENT,
            4,
            3,
            {
                "turnavoid.entry": "llm_call",
                "turnavoid.seq": 3,
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-5.1",
                "gen_ai.response.model": "gpt-5.1-2026",
                "gen_ai.response.id": "resp-1",
                "gen_ai.response.finish_reasons": ("tool_call",),
                "gen_ai.usage.input_tokens": 200,
                "gen_ai.usage.output_tokens": 20,
                "gen_ai.usage.cache_read.input_tokens": 180,
                "gen_ai.usage.cache_write.input_tokens": 5,
                "gen_ai.usage.reasoning.output_tokens": 7,
                "turnavoid.call.attempt": 1,
                "turnavoid.call.input_digest": digest('{"input":["hi"],"state":null,"v":1}'),
                "turnavoid.call.purpose": "agent",
                "turnavoid.call.disposition": "committed",
                "turnavoid.call.samplings": 1,
                "turnavoid.cost.usd": 0.002,
            },
        ),
        (
            "agent_turn",
            SpanKind.INTERNAL,
            3,
            1,
            {
                "turnavoid.entry": "agent_turn",
                "turnavoid.seq": 2,
                "turnavoid.turn.disposition": "committed",
            },
        ),
        (
            "execute_tool cancel_order",
            SpanKind.INTERNAL,
            5,
            1,
            {
                "turnavoid.entry": "tool_turn",
                "turnavoid.seq": 4,
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "cancel_order",
                "gen_ai.tool.call.id": "call-1",
                "turnavoid.tool.disposition": "executed",
                "turnavoid.tool.caller": "model",
            },
        ),
        (
            "system_turn",
            SpanKind.INTERNAL,
            6,
            1,
            {"turnavoid.entry": "system_turn", "turnavoid.seq": 5},
        ),
        (
            "invoke_agent orders",
            SpanKind.INTERNAL,
            1,
            None,
            {
                "turnavoid.entry": "invoke",
                "turnavoid.seq": 0,
                "turnavoid.invoke.kind": "user_send",
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "orders",
                "gen_ai.conversation.id": "c1",
                "turnavoid.input.digest": digest('{"input":{"order":42},"state":null,"v":1}'),
                "turnavoid.experiment.id": "e1",
                "turnavoid.unit.id": "u1",
                "turnavoid.turn.index": 3,
                "turnavoid.decision.basis_through_turn": 2,
                "turnavoid.mechanism": "fused-batch",
                "turnavoid.lifecycle": "realized",
                "turnavoid.reason": "serial-round-trip-collapsed",
                "turnavoid.invoke.state": "completed",
                "turnavoid.invoke.agent_turns": 1,
                "turnavoid.invoke.llm_calls": 1,
                "turnavoid.invoke.tool_turns": 1,
                "turnavoid.invoke.entries": 6,
            },
        ),
    ]
    assert [
        (
            span.name,
            span.kind,
            span.context.span_id,
            span.parent and span.parent.span_id,
            dict(span.attributes or {}),
        )
        for span in telemetry.spans
    ] == [(*head, own | common) for *head, own in expected]
    assert {span.context.trace_id for span in telemetry.spans} == {1}
    assert {span.instrumentation_scope.name for span in telemetry.spans} == {"otel_turnavoid"}
    assert {span.status.status_code for span in telemetry.spans} == {StatusCode.UNSET}
    assert (telemetry.spans[-1].start_time, telemetry.spans[-1].end_time) == (
        START_NS,
        START_NS + 11 * S,
    )


def test_a_control_run_says_so_by_its_arm(telemetry: Telemetry, said: Said) -> None:
    with invoke("a", arm="control", tracer_provider=telemetry.tracer_provider):
        pass

    attributes = said()["invoke_agent a"]
    assert [
        attributes[key]
        for key in ("turnavoid.mechanism", "turnavoid.lifecycle", "turnavoid.reason")
    ] == ["control", "realized", "baseline"]


def test_a_candidate_says_of_its_change_only_what_it_is_told(
    telemetry: Telemetry, said: Said
) -> None:
    with invoke("a", arm="exact-reuse", tracer_provider=telemetry.tracer_provider):
        pass

    assert not {"turnavoid.mechanism", "turnavoid.lifecycle", "turnavoid.reason"} & set(
        said()["invoke_agent a"]
    )


def test_the_change_is_stated_while_the_run_goes_on(telemetry: Telemetry, said: Said) -> None:
    with invoke("a", arm="exact-reuse", tracer_provider=telemetry.tracer_provider) as run:
        run.set(lifecycle="attempted")
        run.set(mechanism="exact-reuse", lifecycle="realized", reason="exact-match")
        run.identify("x")
        run.retained(tokens=128, latency_ms=40.5)

    attributes = said()["invoke_agent a"]
    assert {
        key: attributes.get(key)
        for key in (
            "turnavoid.mechanism",
            "turnavoid.lifecycle",
            "turnavoid.reason",
            "turnavoid.input.digest",
            "turnavoid.retained.tokens_reduced",
            "turnavoid.retained.latency_reduced_ms",
        )
    } == {
        "turnavoid.mechanism": "exact-reuse",
        "turnavoid.lifecycle": "realized",
        "turnavoid.reason": "exact-match",
        "turnavoid.input.digest": digest('{"input":"x","state":null,"v":1}'),
        "turnavoid.retained.tokens_reduced": 128,
        "turnavoid.retained.latency_reduced_ms": 40.5,
    }


def test_a_run_id_is_made_where_none_is_given(telemetry: Telemetry) -> None:
    ids = set()
    for _ in range(2):
        with invoke("a", tracer_provider=telemetry.tracer_provider) as run:
            ids.add(run.run_id)

    assert len(ids) == 2


def test_arm_variant_and_experiment_come_from_the_environment(
    telemetry: Telemetry, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = invoke("a", tracer_provider=telemetry.tracer_provider)
    monkeypatch.setenv("TURNAVOID_ARM", "fused-batch")
    monkeypatch.setenv("TURNAVOID_VARIANT", "v3")
    monkeypatch.setenv("TURNAVOID_EXPERIMENT", "e9")
    with scope, tool_turn("t"):
        pass

    spans = said()
    arms = [(s["turnavoid.arm"], s["turnavoid.variant"]) for s in spans.values()]
    assert arms == [("fused-batch", "v3")] * 2
    assert spans["invoke_agent a"]["turnavoid.experiment.id"] == "e9"


def test_parameters_win_over_the_environment(
    telemetry: Telemetry, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNAVOID_ARM", "fused-batch")
    with invoke("a", arm="control", tracer_provider=telemetry.tracer_provider):
        pass

    assert said()["invoke_agent a"]["turnavoid.arm"] == "control"


def test_a_sub_agent_is_an_entry_of_the_same_run_without_counts(
    telemetry: Telemetry, said: Said
) -> None:
    with invoke("outer", run_id="r", arm="control", tracer_provider=telemetry.tracer_provider):
        with invoke("helper"), agent_turn(), llm_call("m"):
            pass
        with tool_turn("t") as tool:
            assert tool.seq == 4

    spans = said()
    assert spans["invoke_agent helper"] == {
        "turnavoid.entry": "invoke",
        "turnavoid.run.id": "r",
        "turnavoid.seq": 1,
        "turnavoid.arm": "control",
        "turnavoid.invoke.kind": "wakeup",
        "turnavoid.invoke.state": "completed",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
    }
    outer = spans["invoke_agent outer"]
    assert [
        outer[f"turnavoid.invoke.{name}"]
        for name in ("agent_turns", "llm_calls", "tool_turns", "entries")
    ] == [1, 1, 1, 5]


def test_a_sub_agent_states_the_change_of_the_whole_run(telemetry: Telemetry, said: Said) -> None:
    with (
        invoke("outer", arm="exact-reuse", tracer_provider=telemetry.tracer_provider),
        invoke("helper"),
    ):
        current_invoke().set(lifecycle="realized")

    spans = said()
    assert spans["invoke_agent outer"]["turnavoid.lifecycle"] == "realized"
    assert "turnavoid.lifecycle" not in spans["invoke_agent helper"]


def test_a_paused_run_declares_no_counts(telemetry: Telemetry, said: Said) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider) as run:
        run.set(state="paused")

    attributes = said()["invoke_agent a"]
    assert attributes["turnavoid.invoke.state"] == "paused"
    assert "turnavoid.invoke.entries" not in attributes


def test_entries_that_are_still_open_count(telemetry: Telemetry, said: Said) -> None:
    tool = tool_turn("slow")
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        left_open = tool.begin()
    assert said()["invoke_agent a"]["turnavoid.invoke.entries"] == 2
    left_open.end()


def test_failed_calls_before_it_make_a_call_the_next_attempt(telemetry: Telemetry) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider):
        with agent_turn():
            for _ in range(2):
                with pytest.raises(TimeoutError), llm_call("m"):
                    raise TimeoutError
            with llm_call("other-model"):
                pass
            with llm_call("m") as continuation:
                continuation.set(samplings=0)
        with agent_turn(), llm_call("m"):
            pass

    calls = [s.attributes for s in telemetry.spans if s.attributes["turnavoid.entry"] == "llm_call"]
    assert [
        (
            call["turnavoid.call.attempt"],
            call["turnavoid.call.disposition"],
            call.get("turnavoid.call.samplings"),
        )
        for call in calls
    ] == [
        (1, "failed", None),
        (2, "failed", None),
        (3, "committed", 1),
        (1, "committed", 0),
        (1, "committed", 1),
    ]


@pytest.mark.parametrize(
    ("calls", "turn"),
    [
        ([], "committed"),
        ([("agent", "committed")], "committed"),
        ([("agent", "failed"), ("agent", "committed")], "committed"),
        ([("agent", "failed"), ("agent", "failed")], "failed"),
        ([("agent", "failed"), ("agent", "discarded")], "discarded"),
        ([("speculation", "discarded")], "discarded"),
        ([("speculation", "committed")], "committed"),
        ([("validation", "committed"), ("agent", "failed")], "failed"),
        ([("validation", "committed")], "discarded"),
    ],
)
def test_a_turn_is_what_its_generations_became(
    telemetry: Telemetry, calls: list[tuple[str, str]], turn: str
) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider), agent_turn():
        for purpose, disposition in calls:
            with llm_call("m", purpose=purpose) as call:
                call.set(disposition=disposition)

    (span,) = [s for s in telemetry.spans if s.name == "agent_turn"]
    assert span.attributes["turnavoid.turn.disposition"] == turn


def test_overhead_is_marked_on_any_entry(telemetry: Telemetry, said: Said) -> None:
    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        llm_call("m", purpose="validation") as call,
    ):
        call.overhead("validation")

    assert said()["chat m"]["turnavoid.overhead.kind"] == "validation"


def test_a_tool_answer_from_a_store_is_reused(telemetry: Telemetry, said: Said) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider), tool_turn("t") as tool:
        tool.set(disposition="reused", caller="code", call_id="c9")

    attributes = said()["execute_tool t"]
    assert attributes["turnavoid.tool.disposition"] == "reused"
    assert attributes["turnavoid.tool.caller"] == "code"
    assert attributes["gen_ai.tool.call.id"] == "c9"


def test_without_an_sdk_everything_works_and_nothing_is_recorded() -> None:
    with invoke("a", input="x", arm="control") as run, agent_turn(), llm_call("m") as call:
        call.usage(input=1)

    assert run.run.counts() == (1, 1, 0, 3)
    assert not run.span.is_recording()


def test_an_own_attribute_goes_on_the_span(telemetry: Telemetry, said: Said) -> None:
    with invoke("a", tracer_provider=telemetry.tracer_provider) as run:
        run.span.set_attribute("app.tenant", "t1")

    assert said()["invoke_agent a"]["app.tenant"] == "t1"
