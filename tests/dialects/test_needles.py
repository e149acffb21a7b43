"""What lets a serialized span be passed over unread: none of the needles stands in it."""

from __future__ import annotations

import pytest

from otel_turnavoid.dialects import Reader, SpanView

READER = Reader()
WORDS = ("chat", "LLM", "agent", "generation", '"TOOL"', "llm_request", "tool_call")
SCOPES = ("", "opentelemetry.instrumentation.anthropic", "opentelemetry.instrumentation.openai.v1")


def read(name: str, scope: str, **attributes: str) -> object:
    view = SpanView(
        trace_id="1" * 32, span_id="2" * 16, name=name, scope=scope, attributes=attributes
    )
    return READER.read(view)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("key", sorted(READER.wanted))
def test_an_attribute_that_makes_a_span_one_about_agents_has_a_needle(key: str, scope: str) -> None:
    """Else what becomes of the span would depend on what else happens to stand in it."""
    about_agents = any(read("span", scope, **{key: word}) is not None for word in WORDS)

    assert not about_agents or any(needle in key.encode() for needle in READER.prefixes)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", ["openai.response", "chat", "call_llm", "execute_tool x"])
def test_a_name_alone_makes_no_span_one_about_agents(name: str, scope: str) -> None:
    assert read(name, scope) is None
