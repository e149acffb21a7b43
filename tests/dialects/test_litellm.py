"""LiteLLM: spans of its own, and calls written onto the spans of others."""

from __future__ import annotations

from otel_turnavoid.judge.facts import CallDetail, Usage
from otel_turnavoid.vocabulary import Entry

CALL = {
    "llm.request.type": "completion",
    "litellm.call_id": "c-1",
    "gen_ai.response.id": "r1",
    "gen_ai.response.model": "gpt-5",
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 20,
}


def test_a_request_is_a_call_with_or_without_an_operation(fact_of) -> None:
    call = CallDetail(model="gpt-5", response_id="r1", usage=Usage(input=120, output=20))

    for said in (CALL, CALL | {"gen_ai.operation.name": "chat"}):
        found = fact_of(said, scope="litellm")
        assert (found.entry, found.dialect, found.call) == (Entry.LLM_CALL, "litellm", call)


def test_attributes_on_somebody_elses_span_show_an_unknown_number_of_calls(fact_of) -> None:
    """The last call overwrote what those before it had written: nothing of it is a sum."""
    found = fact_of(CALL | {"gen_ai.operation.name": "chat"}, scope="refund-desk")

    assert (found.entry, found.call) == (
        Entry.LLM_CALL,
        CallDetail(model="gpt-5", overwritten=True),
    )


def test_an_embedding_is_no_call(fact_of) -> None:
    assert fact_of(CALL | {"llm.request.type": "embedding"}, scope="litellm").entry is None
