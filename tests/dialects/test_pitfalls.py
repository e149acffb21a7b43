"""Bug reports about other people's spans, each as a small input (``A…``: shared/pitfalls.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute, stray_run_id
from otel_turnavoid.judge.facts import SpanFact, Usage
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings

MS = 1_000_000


class Trace:
    """Spans as somebody else's instrumentation would send them, one after the other."""

    def __init__(self, trace_id: str = "a", **settings: Any) -> None:
        self.facts: list[SpanFact] = []
        self._trace_id = trace_id * 32
        self._reader = Reader(Settings(**settings))
        self._ids: Iterator[int] = count(1)
        self._now_ms = 0

    def span(
        self,
        attributes: dict[str, Any],
        parent: str | None = None,
        *,
        scope: str = "s",
        ms: int = 10,
        trace_id: str | None = None,
    ) -> str:
        """Add a span and return its id; with ``ms`` 0 it lasts over all that follows."""
        span_id = f"{next(self._ids):016x}"
        start_ms = self._now_ms
        self._now_ms += ms
        found = self._reader.read(
            SpanView(
                trace_id=trace_id * 32 if trace_id else self._trace_id,
                span_id=span_id,
                parent_id=parent,
                start_ns=start_ms * MS,
                end_ns=(start_ms + (ms or 10_000)) * MS,
                scope=scope,
                attributes=attributes,
            )
        )
        if isinstance(found, SpanFact):
            self.facts.append(found)
        return span_id

    def runs(self) -> dict[str, Run]:
        found = attribute(self.facts)
        named = {**found.runs, **{stray_run_id(key): facts for key, facts in found.strays.items()}}
        return {name: assemble(name, facts, (), Settings()) for name, facts in named.items()}

    def run(self) -> Run:
        [run] = self.runs().values()
        return run


def operation(name: str, **usage: int) -> dict[str, Any]:
    tokens = {f"gen_ai.usage.{key}_tokens": value for key, value in usage.items()}
    return {"gen_ai.operation.name": name, **tokens}


CHAT = operation("chat", input=100, output=10)


def test_two_nested_spans_of_one_call_share_its_attributes() -> None:
    """A02: Google's ADK."""
    trace, scope = Trace(), "gcp.vertex.agent"
    agent = trace.span(operation("invoke_agent"), scope=scope, ms=0)
    tokens = {"gen_ai.request.model": "gemini", "gen_ai.usage.input_tokens": 120}
    outer = trace.span(tokens, agent, scope=scope, ms=0)
    trace.span(
        operation("generate_content") | {"gen_ai.response.model": "gemini-3"}, outer, scope=scope
    )

    run = trace.run()
    assert (run.llm_calls, run.models, run.usage.input) == (1, ("gemini-3",), 120)


def test_the_same_spans_29_times_are_the_same_run() -> None:
    """A04."""
    trace = Trace()
    agent = trace.span(operation("invoke_agent"), ms=0)
    for _ in range(5):
        trace.span(CHAT, agent)
    trace.facts *= 29

    assert (trace.run().llm_calls, trace.run().usage.input) == (5, 500)


def test_calls_whose_parent_never_arrives_are_seen_and_belong_to_no_run() -> None:
    """A15."""
    trace = Trace()
    for _ in range(2):
        trace.span(CHAT, "f" * 16)

    [(name, run)] = trace.runs().items()
    assert (name, run.model_turns, run.ended) == (f"trace:{'a' * 32}", 2, False)


def test_calls_without_an_agent_go_to_no_run() -> None:
    """A23."""
    trace = Trace()
    for _ in range(4):
        trace.span(CHAT)

    assert [(name, run.model_turns) for name, run in trace.runs().items()] == [
        (f"trace:{'a' * 32}", 4)
    ]


@pytest.mark.parametrize("nested", [True, False])
def test_siblings_and_children_of_the_agent_count_alike(*, nested: bool) -> None:
    """A30: in streaming mode calls and tools stand beside the agent's span."""
    trace = Trace()
    root = trace.span({"gen_ai.system": "x"}, ms=0)
    agent = trace.span(operation("invoke_agent"), root, ms=0)
    for _ in range(3):
        trace.span(CHAT, agent if nested else root)
        trace.span(operation("execute_tool"), agent if nested else root)

    run = trace.run()
    assert (run.model_turns, run.tool_calls) == (3, 3)


def test_the_configuration_says_which_key_holds_a_scopes_session() -> None:
    """A35: ``gen_ai.conversation.id`` is the turn's, ``thread.id`` the session's."""
    trace = Trace(runs={"codex": "thread.id"})
    for turn in ("t1", "t2"):
        said = {"gen_ai.conversation.id": turn, "thread.id": "session"}
        trace.span(CHAT | said, scope="codex", trace_id=turn[1])
    trace.span(CHAT | {"thread.id": "session"}, scope="other", trace_id="3")

    assert {name: run.model_turns for name, run in trace.runs().items()} == {
        "session": 2,
        f"trace:{'3' * 32}": 1,
    }


def test_an_attribute_that_counts_turns_in_another_sense_is_not_read() -> None:
    """A41."""
    trace = Trace()
    agent = trace.span(operation("invoke_agent") | {"gen_ai.agent.turn": 3}, ms=0)
    for _ in range(7):
        trace.span(CHAT, agent)

    assert trace.run().model_turns == 7


def test_calls_are_counted_once_however_deep_workflows_and_agents_nest() -> None:
    """A42: sums per workflow would give six."""
    trace = Trace()
    outer = trace.span(operation("invoke_workflow"), ms=0)
    first = trace.span(operation("invoke_agent"), outer, ms=0)
    for _ in range(2):
        trace.span(CHAT, first)
    inner = trace.span(operation("invoke_workflow"), outer, ms=0)
    second = trace.span(operation("invoke_agent"), inner, ms=0)
    for _ in range(2):
        trace.span(CHAT, second)

    assert trace.run().model_turns == 4


def test_tokens_that_agents_and_tools_repeat_are_not_added() -> None:
    """A12: the model's inside a tool's inside the run's."""
    trace = Trace()
    totals = {"llm.token_count.prompt": 100, "llm.token_count.completion": 10}
    agent = trace.span(totals | {"openinference.span.kind": "AGENT"}, ms=0)
    tool = trace.span(totals | {"openinference.span.kind": "TOOL"}, agent, ms=0)
    trace.span(totals | {"openinference.span.kind": "LLM"}, tool)

    run = trace.run()
    assert (run.model_turns, run.usage) == (1, Usage(input=100, output=10))


@pytest.mark.parametrize("seen", ["attempts", "resends"])
def test_removing_retries_avoids_no_turn(seen: str) -> None:
    """A45: one span covers several attempts, or each has one of its own."""
    trace, scope = Trace(), "com.anthropic.sdk.python"
    agent = trace.span(operation("invoke_agent"), ms=0)
    if seen == "attempts":
        for _ in range(2):
            trace.span(operation("chat") | {"error.type": "500"}, agent, scope=scope)
        trace.span(CHAT, agent, scope=scope)
    else:
        trace.span(CHAT | {"http.request.resend_count": 2}, agent, scope=scope)

    assert (trace.run().model_turns, trace.run().llm_calls) == (1, 3)


def test_a_claim_of_saved_round_trips_is_not_read() -> None:
    """A50."""
    trace = Trace()
    agent = trace.span(operation("invoke_agent") | {"saved_round_trips": 9}, ms=0)
    trace.span(CHAT, agent)

    assert trace.run().model_turns == 1


def test_an_unknown_vocabulary_is_left_alone() -> None:
    """Not guessed, however much it looks like a model call."""
    trace = Trace()
    trace.span({"llm.model": "gpt", "tokens.total": 100}, scope="somebody")

    assert trace.facts == []
