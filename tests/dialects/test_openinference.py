"""OpenInference: what a span is says ``openinference.span.kind``."""

from __future__ import annotations

import json

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import CallDetail, InvokeDetail, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

LLM = {"openinference.span.kind": "LLM"}


def test_a_model_call_carries_the_answering_model_and_tokens_by_type(fact_of) -> None:
    found = fact_of(
        LLM
        | {
            "llm.model_name": "gpt-5-2026",
            "llm.token_count.prompt": 120,
            "llm.token_count.completion": 20,
            "llm.token_count.total": 140,
            "llm.token_count.prompt_details.cache_read": 80,
            "llm.token_count.prompt_details.cache_write": 10,
            "llm.token_count.completion_details.reasoning": 5,
        }
    )

    assert (found.entry, found.dialect) == (Entry.LLM_CALL, "openinference")
    assert found.call == CallDetail(
        model="gpt-5-2026",
        usage=Usage(input=120, output=20, cache_read=80, cache_write=10, reasoning=5),
    )


@pytest.mark.parametrize(
    ("answer", "response_id"),
    [
        ({"id": "chatcmpl-1", "choices": []}, "chatcmpl-1"),
        ({"generations": [[]], "llm_output": {"id": "chatcmpl-2"}}, "chatcmpl-2"),
        (
            {"generations": [[{"message": {"kwargs": {"response_metadata": {"id": "msg_3"}}}}]]},
            "msg_3",
        ),
        ({"role": "assistant", "raw": "ChatCompletion(id='chatcmpl-4', choices=[])"}, "chatcmpl-4"),
        ({"role": "assistant", "raw": {"id": "chatcmpl-5"}}, "chatcmpl-5"),
        ({"generations": [], "llm_output": None}, None),
        ({"raw": "the id='x' of nothing"}, None),
        ({"id": 7}, None),
        ({"id": ""}, None),
    ],
)
def test_the_response_id_is_found_inside_the_recorded_answer(fact_of, answer, response_id) -> None:
    found = fact_of(LLM | {"output.value": json.dumps(answer)})

    assert found.call == CallDetail(response_id=response_id)


@pytest.mark.parametrize(
    "answer", ["__REDACTED__", "", "plain text", '{"id": "cut', '["id"]', "{" * 5000, 5, None]
)
def test_an_answer_that_is_no_json_object_has_no_id(fact_of, answer) -> None:
    found = fact_of(LLM | {"output.value": answer})

    assert found.call == CallDetail()


def test_nothing_of_a_recorded_answer_is_kept_but_its_id(fact_of) -> None:
    found = fact_of(LLM | {"output.value": '{"id": "r", "content": "a secret"}'})

    assert "secret" not in repr(found)


def test_the_first_tool_call_that_the_answer_asks_for_is_kept(fact_of) -> None:
    asked = "llm.output_messages.0.message.tool_calls.0.tool_call.id"
    found = fact_of(LLM | {asked: "call_1"})

    assert found.call == CallDetail(asks="call_1")


def test_a_tool_execution_has_a_name_and_may_have_a_call_id(fact_of) -> None:
    found = fact_of(
        {"openinference.span.kind": "TOOL", "tool.name": "lookup", "tool_call.id": "call_1"}
    )

    assert (found.entry, found.tool) == (
        Entry.TOOL_TURN,
        ToolDetail(name="lookup", call_id="call_1"),
    )


def test_an_agent_is_an_invoke_whose_token_totals_are_not_read(fact_of) -> None:
    found = fact_of(
        {
            "openinference.span.kind": "AGENT",
            "agent.name": "refunds",
            "llm.token_count.prompt": 720,
        }
    )

    assert (found.entry, found.agent, found.invoke) == (Entry.INVOKE, "refunds", InvokeDetail())
    assert found.call is None


@pytest.mark.parametrize("kind", ["CHAIN", "EMBEDDING", "RETRIEVER", "GUARDRAIL", "SOMETHING"])
def test_other_kinds_only_link(fact_of, kind: str) -> None:
    found = fact_of({"openinference.span.kind": kind, "llm.token_count.prompt": 5})

    assert (found.entry, found.call) == (None, None)


def test_the_final_answer_of_smolagents_is_no_tool_execution(fact_of) -> None:
    final = {"openinference.span.kind": "TOOL", "tool.name": "final_answer"}

    assert fact_of(final, scope="openinference.instrumentation.smolagents").entry is None
    assert fact_of(final, scope="other").entry is Entry.TOOL_TURN


def test_a_span_of_both_vocabularies_is_read_once_with_what_either_says(fact_of) -> None:
    found = fact_of(
        LLM
        | {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.id": "r1",
            "gen_ai.usage.input_tokens": 3,
            "llm.token_count.prompt": 3,
            "llm.token_count.completion": 4,
        }
    )

    assert found.call == CallDetail(response_id="r1", usage=Usage(input=3, output=4))


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in b"openinference.span.kind" for needle in Reader().prefixes)
