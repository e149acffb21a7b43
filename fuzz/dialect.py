"""Spans in the words of any instrumentation, and those words misused."""

from __future__ import annotations

from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from fuzz import wire
from fuzz.chain import accounts
from fuzz.choices import Choices
from fuzz.mutating import ODD
from otel_turnavoid.otlp import read_traces

_KEYS: Final = sorted(wire.CONFIGURED.wanted)
_SCOPES: Final = (
    *("", "gcp.vertex.agent", "litellm", "opentelemetry.instrumentation.anthropic", "langfuse-sdk"),
    *("openinference.instrumentation.openai", "strands-agents", "mlflow", "gen_ai"),
    *("opentelemetry.instrumentation.openai.v1", "litellm.tracing", "anthropic", "google_adk"),
)
_NAMES: Final = ("", "openai.response", "turnavoid.effects.observed", "chat", "call_llm", "Tool")
_MARKS: Final = (
    ("", ""),
    *(("openinference.span.kind", kind) for kind in ("LLM", "TOOL", "AGENT", "CHAIN")),
    *(("traceloop.span.kind", kind) for kind in ("workflow", "agent", "tool", "task")),
    *(("gen_ai.operation.name", name) for name in ("chat", "invoke_agent", "execute_tool")),
    *(("turnavoid.entry", entry) for entry in ("invoke", "agent_turn", "llm_call", "tool_turn")),
    *(("langfuse.observation.type", kind) for kind in ("generation", "tool", "agent")),
    *(("mlflow.spanType", kind) for kind in ('"CHAT_MODEL"', '"TOOL"', '"AGENT"', "LLM")),
    ("ai.operationId", "ai.generateText.doGenerate"),
    ("span.type", "llm_request"),
    ("llm.request.type", "chat"),
)
_DEEP: Final = 900
_TEXTS: Final = (
    *("[" * 100_000, "[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP),
    *("9" * 5_000, f"[{'9' * 4_000}]", "[1e999]", r'"\ud800"', "NaN", "-1", "5.0", " 5", "1" * 19),
    *('{"id":5}', '{"raw":{}}', '{"llm_output":[]}', '{"generations":[[]]}', '{"input":[]}'),
    *('[{"parts":5}]', '[{"parts":[null,{"type":[]}]}]', '[{"tool_calls":{}}]', '{"messages":5}'),
)


def dialects(data: bytes) -> None:
    """Check some spans, put together as the bytes decide."""
    choices = Choices(data)
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.scope.name = choices.one(_SCOPES)
    for number in range(1 + choices.number(3)):
        span = scope.spans.add(
            trace_id=b"\1" * 16,
            span_id=bytes([number + 1]) * 8,
            name=choices.one(_NAMES),
            parent_span_id=bytes([number]) * 8 if number else b"",
            start_time_unix_nano=10 + number,
            end_time_unix_nano=99 - number,
        )
        key, word = choices.one(_MARKS)
        span.attributes.add(key=key, value=AnyValue(string_value=word))
        for _ in range(choices.number(5)):
            odd = (*ODD, *(AnyValue(string_value=text) for text in _TEXTS))
            span.attributes.add(key=choices.one(_KEYS), value=choices.one(odd))
    body = request.SerializeToString()
    wire.traces(body)
    found = read_traces(body, wire.PLAIN)
    accounts(found.facts, found.observations)
