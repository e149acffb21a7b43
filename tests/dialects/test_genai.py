from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.facts import CallDetail, InvokeDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.vocabulary import Arm, Entry, Purpose


def read(attributes: dict[str, Any], **view: Any) -> SpanFact:
    found = Reader().read(
        SpanView(trace_id="a" * 32, span_id="b" * 16, scope="s", attributes=attributes, **view)
    )
    assert isinstance(found, SpanFact)
    return found


def expected(**parts: Any) -> SpanFact:
    given: dict[str, Any] = {"trace_id": "a" * 32, "span_id": "b" * 16, "scope": "s"}
    return SpanFact(start_ns=0, end_ns=0, dialect="gen_ai", **given, **parts)


@pytest.mark.parametrize(
    "operation",
    ["chat", "generate_content", "text_completion", "chat.completions", "text.completions"],
)
def test_an_inference_is_a_call(operation: str) -> None:
    found = read(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.response.model": "gpt-5-2026",
            "gen_ai.response.id": "resp_1",
            "gen_ai.agent.name": "refunds",
            "gen_ai.usage.input_tokens": 1,
            "gen_ai.usage.output_tokens": 2,
            "gen_ai.usage.cache_read.input_tokens": 3,
            "gen_ai.usage.cache_write.input_tokens": 4,
            "gen_ai.usage.reasoning.output_tokens": 5,
        }
    )

    assert found == expected(
        entry=Entry.LLM_CALL,
        agent="refunds",
        call=CallDetail(
            model="gpt-5-2026",
            response_id="resp_1",
            usage=Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5),
        ),
    )


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("gen_ai.usage.prompt_tokens", "input"),
        ("gen_ai.usage.completion_tokens", "output"),
        ("gen_ai.usage.cache_read_input_tokens", "cache_read"),
        ("gen_ai.usage.cache_creation.input_tokens", "cache_write"),
        ("gen_ai.usage.cache_creation_input_tokens", "cache_write"),
        ("gen_ai.usage.reasoning_tokens", "reasoning"),
    ],
)
def test_usage_is_read_in_older_spellings_too(key: str, part: str) -> None:
    found = read({"gen_ai.operation.name": "chat", "gen_ai.system": "openai", key: 7})

    assert found.call == CallDetail(usage=Usage(**{part: 7}))


def test_of_two_spellings_of_one_figure_the_newest_counts_once() -> None:
    found = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.prompt_tokens": 120,
            "gen_ai.usage.input_tokens": 121,
        }
    )

    assert found.call == CallDetail(usage=Usage(input=121))


@pytest.mark.parametrize(
    "value", [-1, 1.5, -1.0, 2.0**53, float("inf"), "", "-1", "1.0", "²", "9" * 19, True, None]
)
def test_a_figure_that_is_none_is_unknown_and_not_zero(value: object) -> None:
    found = read({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": value})

    assert (found.call, found.faults) == (CallDetail(), ())


@pytest.mark.parametrize("value", [7, 7.0, "7"])
def test_a_figure_may_be_a_text_or_a_float_where_a_language_knows_no_other(value: object) -> None:
    found = read({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": value})

    assert (found.call, found.faults) == (CallDetail(usage=Usage(input=7)), ())


def test_the_model_asked_stands_in_for_one_that_never_answered() -> None:
    found = read({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5"})

    assert found.call == CallDetail(model="gpt-5")


def test_a_tool_execution_is_a_tool_turn() -> None:
    found = read(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.id": "call_1",
        }
    )

    assert found == expected(
        entry=Entry.TOOL_TURN, tool=ToolDetail(name="lookup", call_id="call_1")
    )


@pytest.mark.parametrize("operation", ["invoke_agent", "invoke_workflow"])
def test_an_invocation_of_an_agent_or_workflow_is_an_invoke_of_somebody_else(
    operation: str,
) -> None:
    found = read({"gen_ai.operation.name": operation, "gen_ai.agent.name": "refunds"})

    assert found == expected(entry=Entry.INVOKE, agent="refunds", invoke=InvokeDetail())


@pytest.mark.parametrize(
    "operation",
    ["embeddings", "create_agent", "execute_task", "execute_event_loop_cycle", "unknown", "Chat"],
)
def test_any_other_operation_only_links_its_children_to_their_agent(operation: str) -> None:
    assert read({"gen_ai.operation.name": operation}) == expected()


@pytest.mark.parametrize("operation", [None, 5, ["chat"]])
def test_a_span_without_an_operation_only_links(operation: object) -> None:
    found = read({"gen_ai.operation.name": operation, "gen_ai.request.model": "gpt-5"})

    assert found == expected()


def test_an_answer_without_an_operation_is_a_call() -> None:
    found = read({"gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5-2026"})

    assert found.call == CallDetail(model="gpt-5-2026")


@pytest.mark.parametrize("key", ["gen_ai.agent.name", "gen_ai.tool.name"])
def test_an_agents_totals_without_an_operation_are_no_call(key: str) -> None:
    said = {"gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5", key: "x"}

    assert read(said).entry is None


def test_the_name_of_a_span_says_nothing() -> None:
    view = SpanView(trace_id="a" * 32, span_id="b" * 16, name="chat gpt-5")

    assert Reader().read(view) is None


def test_a_failed_call_is_failed() -> None:
    assert read({"gen_ai.operation.name": "chat", "error.type": "timeout"}).failed
    assert read({"gen_ai.operation.name": "chat"}, status_error=True).failed


def test_a_span_of_others_may_carry_our_run_and_purpose_but_is_not_ours() -> None:
    found = read(
        {
            "gen_ai.operation.name": "chat",
            "turnavoid.run.id": "r",
            "turnavoid.arm": "control",
            "turnavoid.call.purpose": "side",
        }
    )

    assert found == expected(
        entry=Entry.LLM_CALL, run_id="r", arm=Arm.CONTROL, call=CallDetail(purpose=Purpose.SIDE)
    )


@pytest.mark.parametrize(
    ("trace_state", "sampled"),
    [
        ("", False),
        ("vendor=x", False),
        ("ot=th:0", False),
        ("ot=th:00", False),
        ("ot=th:8", True),
        ("ot=rv:abc;th:c", True),
        ("vendor=x, ot=th:fe", True),
        ("vendor=ot=th:8", False),
        ("ot=p:0;r:5", False),
        ("ot=p:1;r:5", True),
        ("ot=p:8", True),
        ("ot=th:zz", False),
        ("ot=th:", False),
        ("ot=p:²", False),
        ("hot=th:8", False),
    ],
)
def test_a_trace_state_tells_whether_traces_were_left_out(
    trace_state: str, *, sampled: bool
) -> None:
    assert read({"gen_ai.operation.name": "chat"}, trace_state=trace_state).sampled is sampled
