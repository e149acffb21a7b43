"""Spring AI: the chat client, tools, and model calls in the conventions."""

from __future__ import annotations

import pytest

from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

FRAMEWORK = {"gen_ai.operation.name": "framework", "gen_ai.system": "spring_ai"}


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("chat_client", Entry.INVOKE),
        ("tool_call", Entry.TOOL_TURN),
        ("advisor", None),
        ("vector_store", None),
    ],
)
def test_the_kind_of_a_span_says_what_it_is(fact_of, kind: str, entry) -> None:
    found = fact_of(FRAMEWORK | {"spring.ai.kind": kind})

    assert (found.entry, found.dialect) == (entry, "spring_ai")


def test_a_tool_has_the_name_of_its_definition(fact_of) -> None:
    said = {"spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "lookup"}

    assert fact_of(FRAMEWORK | said).tool == ToolDetail(name="lookup")


def test_a_call_is_one_of_the_conventions_with_texts_for_numbers(fact_of) -> None:
    found = fact_of(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "openai",
            "gen_ai.response.model": "gpt-5",
            "gen_ai.usage.input_tokens": "120",
            "gen_ai.usage.output_tokens": "20",
        }
    )

    assert found.call == CallDetail(model="gpt-5", usage=Usage(input=120, output=20))
