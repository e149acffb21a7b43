"""OpenLLMetry, old and new: ``traceloop.span.kind``, ``llm.request.type``, operations."""

from __future__ import annotations

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

ANTHROPIC = "opentelemetry.instrumentation.anthropic"
OPENAI = "opentelemetry.instrumentation.openai.v1"


@pytest.mark.parametrize("request_type", ["chat", "completion"])
def test_a_request_type_is_a_call_where_no_operation_is_named(fact_of, request_type: str) -> None:
    found = fact_of(
        {
            "llm.request.type": request_type,
            "gen_ai.system": "openai",
            "gen_ai.response.id": "r1",
            "gen_ai.usage.prompt_tokens": 120,
            "gen_ai.usage.completion_tokens": 20,
            "gen_ai.usage.cache_read_input_tokens": 80,
            "gen_ai.completion.0.tool_calls.0.id": "call_1",
        }
    )

    assert (found.entry, found.dialect) == (Entry.LLM_CALL, "openllmetry")
    assert found.call == CallDetail(
        response_id="r1", asks="call_1", usage=Usage(input=120, output=20, cache_read=80)
    )


@pytest.mark.parametrize("request_type", ["embedding", "rerank", "unknown", "", 5])
def test_other_request_types_only_link(fact_of, request_type) -> None:
    assert fact_of({"llm.request.type": request_type}).entry is None


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("workflow", Entry.INVOKE),
        ("agent", Entry.INVOKE),
        ("tool", Entry.TOOL_TURN),
        ("task", None),
        ("unknown", None),
    ],
)
def test_decorated_functions_say_what_they_are(fact_of, kind: str, entry) -> None:
    assert fact_of({"traceloop.span.kind": kind}).entry is entry


def test_a_decorated_tool_has_the_name_of_its_entity(fact_of) -> None:
    found = fact_of({"traceloop.span.kind": "tool", "traceloop.entity.name": "lookup"})

    assert found.tool == ToolDetail(name="lookup")


def test_an_operation_is_believed_before_the_kind(fact_of) -> None:
    found = fact_of({"traceloop.span.kind": "task", "gen_ai.operation.name": "execute_tool"})

    assert found.entry is Entry.TOOL_TURN


def test_the_responses_span_of_the_old_release_is_told_by_its_name(fact_of) -> None:
    said = {"gen_ai.system": "openai", "gen_ai.usage.input_tokens": 7}

    assert fact_of(said, name="openai.response", scope=OPENAI).entry is Entry.LLM_CALL
    assert fact_of(said, name="openai.response", scope="other").entry is None
    assert fact_of(said, name="openai.other", scope=OPENAI).entry is None


def test_output_tokens_of_a_stream_of_anthropics_are_unknown(fact_of) -> None:
    """They add up the first and the last event; only the order of attributes tells a stream."""
    whole = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "claude",
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 20,
    }
    streamed = dict(reversed(whole.items()))

    assert fact_of(whole, scope=ANTHROPIC).call.usage == Usage(input=120, output=20)
    assert fact_of(streamed, scope=ANTHROPIC).call.usage == Usage(input=120)
    assert fact_of(streamed, scope="other").call.usage == Usage(input=120, output=20)


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in b"traceloop.span.kind" for needle in Reader().prefixes)
