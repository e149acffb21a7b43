"""What an explanation says of the figures that the spans of a run cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.calls import calls_of
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.publish.explained_unknown import unknown_lines
from otel_turnavoid.testing import run_spans

USED = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2}
CHAT = {"gen_ai.operation.name": "chat", **USED}
SDK = "com.anthropic.sdk.python"
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look up"}
RETRIES = (
    "retries inside a client: {} of {} calls do not say whether their request was sent again, so"
    " there were at least {} LlmCalls; retries are attempts at the same turn, and no turn or"
    " credit depends on them"
)


def lines(*spans: dict[str, Any], scope: str = "s") -> list[str]:
    """What is unknown of a run of an agent's span and these below it, a second each."""
    said = [{"gen_ai.operation.name": "invoke_agent"}, *spans]
    views = [
        SpanView(
            trace_id="a" * 32,
            span_id=f"{number + 1:016x}",
            parent_id=f"{1:016x}" if number else None,
            start_ns=number * 10,
            end_ns=number * 10 + 9 if number else 1000,
            scope=scope if number else "agents",
            attributes=attributes,
        )
        for number, attributes in enumerate(said)
    ]
    facts = [fact for view in views if isinstance(fact := Reader().read(view), SpanFact)]
    return told(facts)


def told(facts: list[SpanFact]) -> list[str]:
    run = assemble("r", facts, (), Settings())
    return list(unknown_lines(run, calls_of(SpanTree(facts))))


def test_of_a_declared_run_nothing_is_unknown() -> None:
    assert told(read_traces(run_spans(run_id="r"), Reader()).facts) == []


def test_a_client_that_tells_its_retries_leaves_nothing_unknown() -> None:
    assert lines(CHAT, TOOL, scope=SDK) == []


def test_a_client_that_does_not_leaves_the_calls_a_lower_bound() -> None:
    assert lines(CHAT, CHAT, TOOL) == [RETRIES.format(2, 2, 2)]


@pytest.mark.parametrize("kind", ["input", "output"])
def test_tokens_that_a_call_does_not_say_are_unknown_for_the_run(kind: str) -> None:
    silent = {key: value for key, value in CHAT.items() if kind not in key}

    assert lines(CHAT, silent, TOOL, scope=SDK) == [
        f"{kind} tokens: 1 of 2 answered calls do not say how many"
    ]


def test_an_answer_that_asks_for_a_tool_that_no_span_shows_is_said() -> None:
    asks = '[{"parts": [{"type": "tool_call", "id": "call_1", "name": "look up"}]}]'

    assert lines(CHAT | {"gen_ai.output.messages": asks}, scope=SDK) == [
        "tool calls: no span shows one, and nothing says that none was made"
    ]


def test_an_agent_without_a_call_is_said() -> None:
    assert lines(TOOL) == ["model turns and LlmCalls: no span shows a model call"]


def test_calls_written_over_each_other_are_said() -> None:
    overwritten = {"llm.request.type": "completion", "litellm.call_id": "c"}

    assert lines(overwritten, TOOL) == [
        "model turns and LlmCalls: calls wrote onto one span, each over the one before",
        "input tokens: 1 of 1 answered calls do not say how many",
        "output tokens: 1 of 1 answered calls do not say how many",
    ]


def test_a_call_that_lasts_over_a_tool_and_the_next_answer_is_said() -> None:
    loop = SpanView(trace_id="a" * 32, span_id="b" * 16, end_ns=100, scope="genai", attributes=CHAT)
    tool = SpanView(
        trace_id="a" * 32,
        span_id="c" * 16,
        parent_id="b" * 16,
        start_ns=10,
        end_ns=20,
        scope="genai",
        attributes=TOOL,
    )
    facts = [fact for view in (loop, tool) if isinstance(fact := Reader().read(view), SpanFact)]

    assert told(facts) == [
        "model turns and LlmCalls: the span of a call lasts over a tool and the next answer"
    ]
