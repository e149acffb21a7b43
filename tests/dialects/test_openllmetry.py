"""OpenLLMetry, old and new: ``traceloop.span.kind``, ``llm.request.type``, operations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import permutations

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
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


WHOLE = {
    "gen_ai.provider.name": "anthropic",
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "claude",
    "gen_ai.response.model": "claude-1",
    "gen_ai.response.id": "msg_1",
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 20,
}
"""An answer of Anthropic's that was not streamed, in the order in which it is written."""
STREAMED = {key: WHOLE[key] for key in (*list(WHOLE)[:3], *list(WHOLE)[4:], list(WHOLE)[3])}
"""The stream helper's: the response model after the usage."""


def test_output_tokens_of_an_answer_of_anthropics_that_came_whole_are_read(fact_of) -> None:
    assert fact_of(WHOLE, scope=ANTHROPIC).call.usage == Usage(input=120, output=20)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(STREAMED, id="as the stream helper writes"),
        pytest.param(dict(sorted(STREAMED.items())), id="sorted on the way"),
        pytest.param(dict(reversed(STREAMED.items())), id="turned round on the way"),
        pytest.param({"gen_ai.is_streaming": True} | WHOLE, id="marked as streamed"),
    ],
)
def test_output_tokens_of_a_stream_of_anthropics_are_unknown_in_any_order(fact_of, said) -> None:
    """They add up the first and the last event, which both count from the start."""
    assert fact_of(said, scope=ANTHROPIC).call.usage == Usage(input=120)
    assert fact_of(said, scope="other").call.usage == Usage(input=120, output=20)


@given(order=permutations(list(STREAMED)))
def test_no_order_of_a_stream_but_that_of_a_whole_answer_is_believed(order: list[str]) -> None:
    view = SpanView(
        trace_id="a" * 32,
        span_id="b" * 16,
        scope=ANTHROPIC,
        attributes={key: STREAMED[key] for key in order},
    )

    said = Reader().read(view)

    assert isinstance(said, SpanFact)
    assert said.call is not None
    assert (said.call.usage.output is None) is (order != list(WHOLE))


@pytest.mark.parametrize(
    ("order", "output"),
    [(("model", "id", "usage"), 20), (("id", "usage", "model"), None)],
)
def test_the_old_release_is_read_alike(fact_of, order: tuple[str, ...], output) -> None:
    parts = {
        "model": {"gen_ai.response.model": "claude-1"},
        "id": {"gen_ai.response.id": "msg_1"},
        "usage": {"gen_ai.usage.prompt_tokens": 120, "gen_ai.usage.completion_tokens": 20},
    }
    said = {"gen_ai.system": "Anthropic", "llm.request.type": "completion"}
    for part in order:
        said |= parts[part]

    assert fact_of(said, scope=ANTHROPIC).call.usage == Usage(input=120, output=output)


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in b"traceloop.span.kind" for needle in Reader().prefixes)


def test_a_serialized_span_can_be_told_by_its_request_type_alone() -> None:
    """It was read or passed over by what else happened to stand in it."""
    assert any(needle in b"llm.request.type" for needle in Reader().prefixes)
