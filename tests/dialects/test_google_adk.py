"""Google's ADK: the two spans of one call, and the span of merged tool results."""

from __future__ import annotations

import pytest

from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

SCOPE = "gcp.vertex.agent"


def test_a_span_with_a_model_and_no_operation_is_a_call(fact_of) -> None:
    found = fact_of(
        {
            "gen_ai.system": "gcp.vertex.agent",
            "gen_ai.request.model": "gemini",
            "gen_ai.usage.input_tokens": 120,
            "gen_ai.usage.output_tokens": 20,
        },
        scope=SCOPE,
    )

    assert (found.entry, found.dialect) == (Entry.LLM_CALL, "google_adk")
    assert found.call == CallDetail(model="gemini", usage=Usage(input=120, output=20))


@pytest.mark.parametrize(
    ("operation", "entry"),
    [
        ("generate_content", Entry.LLM_CALL),
        ("invoke_agent", Entry.INVOKE),
        ("execute_tool", Entry.TOOL_TURN),
        ("create_agent", None),
    ],
)
def test_operations_are_those_of_the_conventions(fact_of, operation: str, entry) -> None:
    assert fact_of({"gen_ai.operation.name": operation}, scope=SCOPE).entry is entry


def test_the_merged_span_of_parallel_tools_is_no_execution(fact_of) -> None:
    merged = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}

    assert fact_of(merged, scope=SCOPE).entry is None
    assert fact_of(merged, scope="other").tool == ToolDetail(name="(merged tools)")


def test_a_span_that_says_nothing_of_the_conventions_is_ignored(fact_of) -> None:
    assert fact_of({}, name="invocation", scope=SCOPE) is None
