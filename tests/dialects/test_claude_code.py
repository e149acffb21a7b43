"""Claude Code's own spans: interactions, model requests and tools."""

from __future__ import annotations

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

SCOPE = "com.anthropic.claude_code.tracing"


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("interaction", Entry.INVOKE),
        ("llm_request", Entry.LLM_CALL),
        ("tool", Entry.TOOL_TURN),
        ("tool.execution", None),
        ("tool.blocked_on_user", None),
        ("hook", None),
    ],
)
@pytest.mark.parametrize("scope", [SCOPE, "com.anthropic.claude_code.traces"])
def test_the_type_of_a_span_says_what_it_is(fact_of, scope: str, kind: str, entry) -> None:
    found = fact_of({"span.type": kind}, scope=scope)

    assert (found.entry, found.dialect) == (entry, "claude_code")


def test_a_request_has_its_tokens_the_cached_ones_among_the_input(fact_of) -> None:
    found = fact_of(
        {
            "span.type": "llm_request",
            "model": "claude-opus",
            "gen_ai.system": "anthropic",
            "gen_ai.request.model": "claude-opus",
            "input_tokens": 2,
            "output_tokens": 30,
            "cache_read_tokens": 80,
            "cache_creation_tokens": 7,
            "success": True,
        },
        scope=SCOPE,
    )

    assert (found.failed, found.call) == (
        False,
        CallDetail(
            model="claude-opus", usage=Usage(input=89, output=30, cache_read=80, cache_write=7)
        ),
    )


@pytest.mark.parametrize(("attempt", "resends"), [(None, None), (1, 0), (3, 2)])
def test_a_span_that_lasts_over_retries_says_how_many(fact_of, attempt, resends) -> None:
    found = fact_of({"span.type": "llm_request", "attempt": attempt}, scope=SCOPE)

    assert found.call.resends == resends


def test_a_request_without_success_failed(fact_of) -> None:
    assert fact_of({"span.type": "llm_request", "success": False}, scope=SCOPE).failed


def test_a_tool_that_failed_for_its_own_reasons_is_a_tool_all_the_same(fact_of) -> None:
    said = {"span.type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_1", "success": False}
    found = fact_of(said, scope=SCOPE)

    assert (found.failed, found.tool) == (False, ToolDetail(name="Bash", call_id="toolu_1"))


def test_the_type_of_another_scopes_span_says_nothing(fact_of) -> None:
    assert fact_of({"span.type": "llm_request"}) is None


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in b"span.type" for needle in Reader().prefixes)
