"""Vercel's AI SDK: the loop, its model calls and its tools."""

from __future__ import annotations

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry


@pytest.mark.parametrize(
    ("operation", "entry"),
    [
        ("ai.generateText", Entry.INVOKE),
        ("ai.streamText", Entry.INVOKE),
        ("ai.generateText.doGenerate", Entry.LLM_CALL),
        ("ai.streamText.doStream", Entry.LLM_CALL),
        ("ai.generateObject.doGenerate", Entry.LLM_CALL),
        ("ai.toolCall", Entry.TOOL_TURN),
        ("ai.embed", None),
        ("ai.embed.doEmbed", None),
    ],
)
def test_an_operation_says_what_a_span_is(fact_of, operation: str, entry) -> None:
    found = fact_of({"ai.operationId": operation})

    assert (found.entry, found.dialect) == (entry, "vercel_ai")


def test_a_call_is_read_in_the_conventions_spelling_first(fact_of) -> None:
    found = fact_of(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.model.id": "gpt-5",
            "ai.response.id": "r1",
            "gen_ai.response.model": "gpt-5-2026",
            "gen_ai.usage.input_tokens": 120,
            "ai.usage.promptTokens": 121,
            "ai.usage.completionTokens": 20,
        }
    )

    assert found.call == CallDetail(
        model="gpt-5-2026", response_id="r1", usage=Usage(input=120, output=20)
    )


def test_a_tool_has_a_name_and_a_call_id(fact_of) -> None:
    found = fact_of(
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "lookup", "ai.toolCall.id": "c1"}
    )

    assert found.tool == ToolDetail(name="lookup", call_id="c1")


def test_the_totals_of_a_loop_are_not_read(fact_of) -> None:
    found = fact_of({"ai.operationId": "ai.generateText", "ai.usage.promptTokens": 720})

    assert (found.entry, found.call) == (Entry.INVOKE, None)


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in b"ai.operationId" for needle in Reader().prefixes)
