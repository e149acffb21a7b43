"""Vercel's AI SDK before its release 7: spans that carry ``ai.operationId``.

``ai.generateText`` and its like are the loop, ``….doGenerate`` and ``….doStream`` one model call
each, ``ai.toolCall`` a tool execution. An operation of the GenAI conventions is believed first:
in these alone later releases speak.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_turnavoid.dialects import genai, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry, GenAI

NAME: Final = "vercel_ai"
OPERATION: Final = "ai.operationId"
_MODEL: Final = ("ai.response.model", "ai.model.id")
_RESPONSE_ID: Final = "ai.response.id"
_TOOL_NAME: Final = "ai.toolCall.name"
_TOOL_CALL_ID: Final = "ai.toolCall.id"
_USAGE: Final = {
    "input": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
    "output": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    "cache_read": ("ai.usage.cachedInputTokens",),
    "reasoning": ("ai.usage.reasoningTokens", "ai.usage.outputTokenDetails.reasoningTokens"),
}
KEYS: Final = frozenset(
    {
        OPERATION,
        *_MODEL,
        _RESPONSE_ID,
        _TOOL_NAME,
        _TOOL_CALL_ID,
        *(key for keys in _USAGE.values() for key in keys),
    }
)
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_CALLS: Final = (".doGenerate", ".doStream")
_LOOPS: Final = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_TOOL: Final = "ai.toolCall"


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span of the SDK's; embeddings and the like only link."""
    operation = view.attributes.get(OPERATION)
    if not isinstance(operation, str):
        return None
    attributes = Attributes(view.attributes, view.resource)
    entry = genai.ENTRIES.get(attributes.text(GenAI.OPERATION_NAME) or "") or _entry(operation)
    return parts.entry_fact(
        view,
        attributes,
        rules,
        dialect=NAME,
        entry=entry,
        call=_call,
        tool=_tool,
    )


def _entry(operation: str) -> Entry | None:
    if operation == _TOOL:
        return Entry.TOOL_TURN
    if operation in _LOOPS:
        return Entry.INVOKE
    return Entry.LLM_CALL if operation.endswith(_CALLS) else None


def _call(attributes: Attributes) -> CallDetail:
    said = parts.call_detail(attributes)
    known = msgspec.structs.asdict(said.usage)
    usage = {field: attributes.tokens(*keys) for field, keys in _USAGE.items()}
    usage |= {field: count for field, count in known.items() if count is not None}
    return msgspec.structs.replace(
        said,
        model=said.model or attributes.text(*_MODEL),
        response_id=said.response_id or attributes.text(_RESPONSE_ID),
        usage=Usage(**usage),
    )


def _tool(attributes: Attributes) -> ToolDetail:
    said = parts.tool_detail(attributes)
    return msgspec.structs.replace(
        said,
        name=said.name or attributes.text(_TOOL_NAME),
        call_id=said.call_id or attributes.text(_TOOL_CALL_ID),
    )
