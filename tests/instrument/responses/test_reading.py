"""What is read of whole responses, as plain dicts; the SDKs' objects follow in test_sdks."""

from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.errors import UsageError
from otel_turnavoid.instrument import invoke, llm_call, misuses
from otel_turnavoid.instrument.responses import Reading, read_response, record_response
from otel_turnavoid.testing import Reply, Telemetry, ToolCall
from otel_turnavoid.testing import model_wire as wire

USAGE = {"input_tokens": 10, "output_tokens": 5}
REPLY = Reply(
    "Hello",
    input_tokens=200,
    output_tokens=20,
    cached_tokens=120,
    cache_write_tokens=30,
    reasoning_tokens=7,
)


def message(*blocks: dict[str, Any], stop: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return wire.whole_message(blocks, USAGE | usage, stop_reason=stop)


def response(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return wire.whole_response(items, USAGE) | changes


def samplings(body: dict[str, Any]) -> int | None:
    reading = read_response(body)
    assert reading is not None
    return reading.samplings


def test_a_chat_completion_includes_cached_input_and_reasoning_in_its_totals() -> None:
    assert read_response(wire.chat_completion(REPLY, 1, "gpt-5.1")) == Reading(
        model="gpt-5.1",
        response_id="chatcmpl-1",
        finish_reasons=("stop",),
        input=200,
        output=20,
        cache_read=120,
        reasoning=7,
        samplings=1,
    )


def test_an_openai_response_includes_cached_input_and_reasoning_in_its_totals() -> None:
    assert read_response(wire.openai_response(REPLY, 1, "gpt-5.1")) == Reading(
        model="gpt-5.1",
        response_id="resp_1",
        finish_reasons=("completed",),
        input=200,
        output=20,
        cache_read=120,
        cache_write=30,
        reasoning=7,
        samplings=1,
    )


def test_anthropic_counts_cached_input_apart_so_the_three_are_added() -> None:
    body = wire.anthropic_message(REPLY, 1, "claude-opus-5")
    assert body["usage"]["input_tokens"] == 50

    assert read_response(body) == Reading(
        model="claude-opus-5",
        response_id="msg_1",
        finish_reasons=("end_turn",),
        input=200,
        output=20,
        cache_read=120,
        cache_write=30,
        reasoning=7,
        samplings=1,
    )


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]},
        {"object": "response", "status": "completed", "output": [{"type": "message"}]},
        {"type": "message", "content": [{"type": "text"}], "stop_reason": "stop"},
    ],
)
def test_usage_that_is_not_there_is_unknown_and_not_0(body: dict[str, Any]) -> None:
    reading = read_response(body)

    assert reading is not None
    assert (reading.input, reading.output, reading.cache_read) == (None, None, None)
    assert reading.samplings == 1


def test_every_choice_has_a_finish_reason() -> None:
    body = {
        "choices": [
            {"index": 0, "message": {}, "finish_reason": "stop"},
            {"index": 1, "message": {}, "finish_reason": "length"},
        ]
    }

    reading = read_response(body)

    assert reading is not None
    assert reading.finish_reasons == ("stop", "length")


def test_an_incomplete_response_says_why() -> None:
    cut = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})

    reading = read_response(cut)

    assert reading is not None
    assert (reading.finish_reasons, reading.error) == (("max_output_tokens",), None)


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
TEXT = {"type": "message", "id": "item_1", "role": "assistant", "content": []}
FROM_PROGRAM = {
    "type": "function_call",
    "call_id": "c1",
    "name": "look_up",
    "arguments": "{}",
    "caller": {"type": "program", "caller_id": "p1"},
}
PROGRAM = {"type": "program", "id": "p1", "call_id": "p1", "code": "…", "fingerprint": "…"}
PROGRAM_OUTPUT = {"type": "program_output", "id": "p1", "call_id": "p1", "result": "…"}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([TEXT], 1),
        ([], 1),
        ([SEARCH, TEXT], 2),
        ([REASONING, SEARCH, REASONING, SEARCH, TEXT], 3),
        ([SEARCH, SEARCH, TEXT], 2),  # at least: perhaps both from one sampling
        ([{"type": "compaction", "id": "cmp_1"}, TEXT], 2),
        ([REASONING, PROGRAM, FROM_PROGRAM], 1),
        ([FROM_PROGRAM, FROM_PROGRAM], 0),
        ([PROGRAM_OUTPUT, TEXT], 1),
        ([PROGRAM_OUTPUT], 0),
    ],
)
def test_samplings_inside_an_openai_response(items: list[dict[str, Any]], expected: int) -> None:
    assert samplings(response(*items)) == expected


SAID = {"type": "text", "text": "…"}
SERVER_USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
CODE_RESULT = {"type": "code_execution_tool_result", "tool_use_id": "s2", "content": {}}
FROM_CODE = {
    "type": "tool_use",
    "id": "t1",
    "name": "look_up",
    "input": {},
    "caller": {"type": "code_execution_20260120", "tool_id": "s2"},
}
DIRECT = {**FROM_CODE, "caller": {"type": "direct"}}


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([SAID], 1),
        ([], 1),
        ([SAID, DIRECT, DIRECT], 1),
        ([SAID, SERVER_USE, SERVER_RESULT, SAID], 2),
        ([SERVER_USE, SERVER_RESULT, SERVER_USE, SERVER_RESULT, SAID], 3),
        ([{"type": "compaction", "content": "…"}, SAID], 2),
        ([SAID, SERVER_USE, FROM_CODE], 1),
        ([FROM_CODE], 0),
        ([CODE_RESULT, SAID], 1),
    ],
)
def test_samplings_inside_an_anthropic_message(blocks: list[dict[str, Any]], expected: int) -> None:
    assert samplings(message(*blocks)) == expected


def test_samplings_that_anthropic_states_are_believed() -> None:
    """A48: server-side compaction is one more sampling in the same round trip."""
    iterations = [{"type": "compaction"}, {"type": "message"}]

    assert samplings(message(SAID, iterations=iterations)) == 2


def recorded(telemetry: Telemetry, body: Any, **how: Any) -> dict[str, Any]:
    with (
        invoke(run_id="r", tracer_provider=telemetry.tracer_provider),
        llm_call("m", purpose="side") as call,
    ):
        record_response(body, **how)
        assert call.run_id == "r"
    spans = [span for span in telemetry.spans if span.name == "chat m"]
    return {
        key: value
        for key, value in (spans[0].attributes or {}).items()
        if key.startswith(("gen_ai.response", "gen_ai.usage", "turnavoid.call", "error"))
    }


def test_a_response_is_set_on_the_call_that_is_open(telemetry: Telemetry) -> None:
    body = wire.chat_completion(REPLY, 1, "gpt-5.1-2026")

    assert recorded(telemetry, body) == {
        "gen_ai.response.model": "gpt-5.1-2026",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 200,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 120,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "turnavoid.call.attempt": 1,
        "turnavoid.call.disposition": "committed",
        "turnavoid.call.purpose": "side",
        "turnavoid.call.samplings": 1,
    }


def test_a_response_that_failed_makes_a_failed_call(telemetry: Telemetry) -> None:
    body = response(status="failed", error={"code": "server_error", "message": "…"})

    call = recorded(telemetry, body)

    assert call["turnavoid.call.disposition"] == "failed"
    assert call["error.type"] == "server_error"
    assert "turnavoid.call.samplings" not in call


def test_a_pause_turn_continuation_samples_nothing_of_its_own(telemetry: Telemetry) -> None:
    messages = [
        {"role": "user", "content": "…"},
        {"role": "assistant", "content": [SAID, SERVER_USE]},
    ]

    call = recorded(telemetry, message(SERVER_RESULT, SAID), messages=messages)

    assert call["turnavoid.call.samplings"] == 0


def test_an_answer_that_the_client_began_is_sampled(telemetry: Telemetry) -> None:
    messages = [{"role": "user", "content": "…"}, {"role": "assistant", "content": "{"}]

    call = recorded(telemetry, message(SAID), messages=messages)

    assert call["turnavoid.call.samplings"] == 1


def test_samplings_that_were_stated_before_stand(telemetry: Telemetry) -> None:
    with invoke(run_id="r", tracer_provider=telemetry.tracer_provider), llm_call("m") as call:
        call.set(samplings=0)
        record_response(message(SAID))

    (span,) = [span for span in telemetry.spans if span.name == "chat m"]
    assert (span.attributes or {})["turnavoid.call.samplings"] == 0


@pytest.mark.parametrize("body", [None, {}, {"type": "error", "error": {}}, "text", 3, object()])
def test_an_unknown_shape_is_an_error_in_development(telemetry: Telemetry, body: Any) -> None:
    with pytest.raises(UsageError) as raised:
        recorded(telemetry, body)

    assert str(raised.value) == (
        "record_response: want a response of Chat Completions, OpenAI Responses or Anthropic"
        f" Messages, got {type(body).__name__}"
    )


@pytest.mark.usefixtures("production")
def test_an_unknown_shape_is_counted_in_production(telemetry: Telemetry) -> None:
    call = recorded(telemetry, {"type": "error"})

    assert call["turnavoid.call.disposition"] == "committed"
    assert misuses() == {"value": 1}


def test_tool_calls_are_no_matter_of_the_finish_reason_alone() -> None:
    body = wire.chat_completion(Reply(tool_calls=[ToolCall("look_up")]), 1, "m")

    reading = read_response(body)

    assert reading is not None
    assert (reading.finish_reasons, reading.samplings) == (("tool_calls",), 1)
