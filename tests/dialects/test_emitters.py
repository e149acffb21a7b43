"""Whole runs as further frameworks emit them, modelled on what they document: each call once.

Each tree is of one task: a call that asks for a tool, the tool, a call that answers.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import Evidence, WithheldCause

MS: Final = 1_000_000


class S(NamedTuple):
    """A span: its place in the tree, its time in ms, who made it, what it says."""

    name: str
    parent: str | None
    ms: tuple[int, int]
    scope: str
    said: dict[str, Any]
    kind: int = 1


def used(given: int, made: int, prefix: str = "gen_ai.usage.") -> dict[str, int]:
    return {f"{prefix}input_tokens": given, f"{prefix}output_tokens": made}


def operation(name: str, **said: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": name,
        **{f"gen_ai.{key.replace('__', '.')}": value for key, value in said.items()},
    }


SK_AGENT: Final = "semantic_kernel.utils.telemetry.agent_diagnostics.decorators"
SK_MODEL: Final = "semantic_kernel.utils.telemetry.model_diagnostics.decorators"
SK_TOOL: Final = "semantic_kernel.functions.kernel_function"
CLAUDE: Final = "com.anthropic.claude_code.tracing"
MAF: Final = "agent_framework"

RUNS: Final = {
    "vercel ai sdk 7": [
        S("agent", None, (0, 100), "gen_ai", operation("invoke_agent", request__model="m")),
        S("step", "agent", (1, 50), "gen_ai", operation("agent_step")),
        S("one", "step", (2, 20), "gen_ai", operation("chat", response__id="r1") | used(120, 20)),
        S("tool", "step", (21, 30), "gen_ai", operation("execute_tool", tool__name="lookup")),
        S("two", "agent", (51, 90), "gen_ai", operation("chat", response__id="r2") | used(160, 9)),
    ],
    "vercel ai sdk 4": [
        S("agent", None, (0, 100), "ai", {"ai.operationId": "ai.streamText",
          "ai.usage.promptTokens": 280, "ai.usage.completionTokens": 29}),
        S("one", "agent", (2, 20), "ai", {"ai.operationId": "ai.streamText.doStream",
          "gen_ai.system": "openai", "gen_ai.request.model": "m", "ai.response.id": "r1",
          "ai.usage.promptTokens": 120, "ai.usage.completionTokens": 20}),
        S("tool", "agent", (21, 30), "ai", {"ai.operationId": "ai.toolCall",
          "ai.toolCall.name": "lookup"}),
        S("two", "agent", (51, 90), "ai", {"ai.operationId": "ai.streamText.doStream",
          "gen_ai.system": "openai", "gen_ai.request.model": "m", "ai.response.id": "r2",
          "ai.usage.promptTokens": 160, "ai.usage.completionTokens": 9}),
    ],
    "semantic kernel": [
        S("agent", None, (0, 100), SK_AGENT, operation("invoke_agent", agent__name="desk")),
        S("one", "agent", (2, 20), SK_MODEL, operation("chat.completions", system="openai",
          usage__prompt_tokens=120, usage__completion_tokens=20, response__id="r1")),
        S("tool", "agent", (21, 30), SK_TOOL, operation("execute_tool", tool__name="p-lookup")),
        S("two", "agent", (51, 90), SK_MODEL, operation("chat.completions", system="openai",
          usage__prompt_tokens=160, usage__completion_tokens=9, response__id="r2")),
    ],
    "claude code": [
        S("agent", None, (0, 100), CLAUDE, {"span.type": "interaction"}),
        S("one", "agent", (2, 20), CLAUDE, {"span.type": "llm_request",
          "gen_ai.system": "anthropic", "gen_ai.request.model": "m", **used(120, 20, "")}),
        S("tool", "agent", (21, 30), CLAUDE, {"span.type": "tool", "tool_name": "Bash"}),
        S("leave", "tool", (21, 22), CLAUDE, {"span.type": "tool.blocked_on_user"}),
        S("body", "tool", (22, 30), CLAUDE, {"span.type": "tool.execution"}),
        S("two", "agent", (51, 90), CLAUDE, {"span.type": "llm_request", **used(160, 9, "")}),
    ],
    "gemini cli": [
        S("agent", None, (0, 100), "gemini-cli", operation("agent_call", agent__name="cli")),
        S("one", "agent", (2, 20), "gemini-cli", operation("llm_call") | used(120, 20)),
        S("batch", "agent", (21, 31), "gemini-cli", operation("schedule_tool_calls")),
        S("tool", "batch", (21, 30), "gemini-cli", operation("tool_call", tool__name="lookup",
          tool__call_id="c1")),
        S("two", "agent", (51, 90), "gemini-cli", operation("llm_call") | used(160, 9)),
    ],
    "langfuse": [
        S("agent", None, (0, 100), "langfuse-sdk", {"langfuse.observation.type": "agent"}),
        S("one", "agent", (2, 20), "langfuse-sdk", {"langfuse.observation.type": "generation",
          "langfuse.observation.usage_details": '{"input": 120, "output": 20}'}),
        S("tool", "agent", (21, 30), "langfuse-sdk", {"langfuse.observation.type": "tool"}),
        S("two", "agent", (51, 90), "langfuse-sdk", {"langfuse.observation.type": "generation",
          "langfuse.observation.usage_details": '{"input": 160, "output": 9}'}),
        S("judge", "agent", (91, 95), "langfuse-sdk", {"langfuse.observation.type": "evaluator"}),
    ],
    "spring ai": [
        S("agent", None, (0, 100), "org.springframework.boot", {"spring.ai.kind": "chat_client",
          **operation("framework", system="spring_ai")}),
        S("call", "agent", (1, 99), "org.springframework.boot", {"spring.ai.kind": "advisor",
          **operation("framework", system="spring_ai")}),
        S("one", "call", (2, 20), "org.springframework.boot", operation("chat", system="openai",
          usage__input_tokens="120", usage__output_tokens="20")),
        S("tool", "call", (21, 30), "org.springframework.boot", {"spring.ai.kind": "tool_call",
          **operation("framework"), "spring.ai.tool.definition.name": "lookup"}),
        S("two", "call", (51, 90), "org.springframework.boot", operation("chat", system="openai",
          usage__input_tokens="160", usage__output_tokens="9")),
    ],
    "logfire with pending spans and no operations": [
        S("agent", None, (0, 100), "pydantic-ai", operation("invoke_agent")),
        S("one", "agent", (2, 20), "logfire.openai", {"gen_ai.request.model": "m",
          "gen_ai.response.model": "m", "gen_ai.system": "openai", **used(120, 20)}),
        S("one pending", "one", (2, 2), "logfire.openai", {"gen_ai.request.model": "m",
          "gen_ai.system": "openai", "logfire.span_type": "pending_span"}),
        S("tool", "agent", (21, 30), "pydantic-ai", operation("execute_tool", tool__name="l")),
        S("tool pending", "tool", (21, 21), "pydantic-ai",
          operation("execute_tool", tool__name="l")),
        S("two", "agent", (51, 90), "logfire.openai", {"gen_ai.request.model": "m",
          "gen_ai.response.model": "m", "gen_ai.system": "openai", **used(160, 9)}),
        S("two's log", "agent", (91, 91), "logfire.openai", {"gen_ai.request.model": "m",
          "gen_ai.response.model": "m", "logfire.span_type": "log", **used(160, 9)}),
    ],
    "mlflow": [
        S("agent", None, (0, 100), "mlflow", {"mlflow.spanType": '"AGENT"'}),
        S("one", "agent", (2, 20), "mlflow", {"mlflow.spanType": '"CHAT_MODEL"',
          "mlflow.chat.tokenUsage": '{"input_tokens": 120, "output_tokens": 20}'}),
        S("tool", "agent", (21, 30), "mlflow", {"mlflow.spanType": '"TOOL"'}),
        S("two", "agent", (51, 90), "mlflow", {"mlflow.spanType": '"LLM"',
          "mlflow.chat.tokenUsage": '{"input_tokens": 160, "output_tokens": 9}'}),
    ],
    "mcp client and server around a tool": [
        S("agent", None, (0, 100), MAF, operation("invoke_agent") | used(280, 29)),
        S("one", "agent", (2, 20), MAF, operation("chat", response__id="r1") | used(120, 20)),
        S("tool", "agent", (21, 30), MAF, operation("execute_tool", tool__name="lookup",
          tool__call__id="c1")),
        S("client", "tool", (22, 29), "mcp", {"mcp.method.name": "tools/call",
          **operation("execute_tool", tool__name="lookup")}, 3),
        S("server", "client", (23, 28), "mcp", {"mcp.method.name": "tools/call",
          **operation("execute_tool", tool__name="lookup")}, 2),
        S("two", "agent", (51, 90), MAF, operation("chat", response__id="r2") | used(160, 9)),
    ],
    "microsoft agent framework over its chat client and the openai sdk": [
        S("agent", None, (0, 100), MAF, operation("invoke_agent") | used(280, 29)),
        S("one", "agent", (2, 20), MAF, operation("chat", response__id="r1") | used(120, 20)),
        S("one again", "one", (3, 19), "opentelemetry.instrumentation.openai_v2",
          operation("chat", response__id="r1") | used(120, 20), 3),
        S("tool", "agent", (21, 30), MAF, operation("execute_tool", tool__name="lookup")),
        S("two", "agent", (51, 90), MAF, operation("chat", response__id="r2") | used(160, 9)),
        S("two again", "two", (52, 89), "opentelemetry.instrumentation.openai_v2",
          operation("chat", response__id="r2") | used(160, 9), 3),
    ],
    "crewai by openinference, the calls by its litellm instrumentation": [
        S("crew", None, (0, 100), "openinference.instrumentation.crewai",
          {"openinference.span.kind": "CHAIN"}),
        S("agent", "crew", (0, 99), "openinference.instrumentation.crewai",
          {"openinference.span.kind": "AGENT", "llm.token_count.prompt": 280}),
        S("one", "agent", (2, 20), "openinference.instrumentation.litellm",
          {"openinference.span.kind": "LLM", "llm.token_count.prompt": 120,
           "llm.token_count.completion": 20}),
        S("tool", "agent", (21, 30), "openinference.instrumentation.crewai",
          {"openinference.span.kind": "TOOL", "tool.name": "lookup"}),
        S("two", "agent", (51, 90), "openinference.instrumentation.litellm",
          {"openinference.span.kind": "LLM", "llm.token_count.prompt": 160,
           "llm.token_count.completion": 9}),
    ],
    "llamaindex and bedrock by openllmetry": [
        S("flow", None, (0, 100), "opentelemetry.instrumentation.llamaindex",
          {"traceloop.span.kind": "workflow", "traceloop.entity.name": "ReActAgent"}),
        S("task", "flow", (1, 99), "opentelemetry.instrumentation.llamaindex",
          {"traceloop.span.kind": "task"}),
        S("one", "task", (2, 20), "opentelemetry.instrumentation.bedrock",
          {"llm.request.type": "chat", "gen_ai.system": "AWS", "gen_ai.usage.prompt_tokens": 120,
           "gen_ai.usage.completion_tokens": 20}),
        S("tool", "task", (21, 30), "opentelemetry.instrumentation.llamaindex",
          {"traceloop.span.kind": "tool", "traceloop.entity.name": "lookup"}),
        S("two", "task", (51, 90), "opentelemetry.instrumentation.bedrock",
          {"llm.request.type": "completion", "gen_ai.system": "AWS",
           "gen_ai.usage.prompt_tokens": 160, "gen_ai.usage.completion_tokens": 9}),
    ],
    "an agent on bedrock by botocore, with a retrieval": [
        S("agent", None, (0, 100), "my.agent", operation("invoke_agent"), 3),
        S("search", "agent", (1, 2), "my.agent", operation("retrieval")),
        S("one", "agent", (2, 20), "opentelemetry.instrumentation.botocore.bedrock-runtime",
          operation("chat", system="aws.bedrock") | used(120, 20), 3),
        S("tool", "agent", (21, 30), "my.agent", operation("execute_tool", tool__name="lookup")),
        S("two", "agent", (51, 90), "opentelemetry.instrumentation.botocore.bedrock-runtime",
          operation("text_completion", system="aws.bedrock") | used(160, 9), 3),
    ],
    "autogen's agents over an instrumented openai sdk": [
        S("made", None, (0, 0), "autogen-core", operation("create_agent", system="autogen")),
        S("agent", None, (0, 100), "autogen-core", operation("invoke_agent", system="autogen")),
        S("one", "agent", (2, 20), "opentelemetry.instrumentation.openai.v1",
          operation("chat") | used(120, 20), 3),
        S("tool", "agent", (21, 30), "autogen-core", operation("execute_tool", system="autogen",
          tool__name="lookup")),
        S("two", "agent", (51, 90), "opentelemetry.instrumentation.openai.v1",
          operation("chat") | used(160, 9), 3),
    ],
}  # fmt: skip


def facts(spans: list[S]) -> list[SpanFact]:
    ids = {span.name: f"{number + 1:016x}" for number, span in enumerate(spans)}
    reader = Reader()
    views = [
        SpanView(
            trace_id="a" * 32,
            span_id=ids[span.name],
            parent_id=ids[span.parent] if span.parent else None,
            kind=span.kind,
            start_ns=span.ms[0] * MS,
            end_ns=span.ms[1] * MS,
            scope=span.scope,
            attributes={key: value for key, value in span.said.items() if key in reader.wanted},
        )
        for span in spans
    ]
    return [fact for view in views if isinstance(fact := reader.read(view), SpanFact)]


@pytest.mark.parametrize("name", RUNS)
def test_each_call_and_tool_counts_once_and_tokens_are_those_of_calls(name: str) -> None:
    found = attribute(facts(RUNS[name]))

    by_calls = {
        run_id: run
        for run_id, members in found.runs.items()
        if (run := assemble(run_id, members, (), Settings())).llm_calls
    }
    [run] = by_calls.values()
    assert (run.model_turns, run.llm_calls, run.tool_calls) == (2, 2, 1)
    assert (run.usage.input, run.usage.output) == (280, 29)
    assert found.strays == {}


def test_a_client_that_calls_functions_by_itself_does_not_tell_its_turns() -> None:
    """Google's GenAI SDK: one span over the requests of its whole automatic loop."""
    scope = "opentelemetry.instrumentation.google_genai"
    spans = [
        S("agent", None, (0, 100), "my.agent", operation("invoke_agent")),
        S("loop", "agent", (1, 90), scope, operation("generate_content") | used(160, 9)),
        S("tool", "loop", (20, 30), scope, operation("execute_tool", tool__name="lookup")),
    ]

    [(run_id, members)] = attribute(facts(spans)).runs.items()
    run = assemble(run_id, members, (), Settings(accept=frozenset(Evidence)))

    assert (run.model_turns, run.llm_calls, run.tool_calls) == (None, None, 1)
    assert run.causes == (WithheldCause.COMPLETENESS_UNPROVEN,)
    assert run.problems[0] == (
        "span 0000000000000002 of a model call lasts over a tool and what the model made of its"
        " result: how often the model was sampled is unknown"
    )
