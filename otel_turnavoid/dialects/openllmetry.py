"""OpenLLMetry (Traceloop), old and new: ``traceloop.span.kind`` and ``llm.request.type``.

Release 0.62 names operations as the GenAI conventions do; 0.47 says ``llm.request.type``
instead. Workflows, agents and tools of the decorators carry ``traceloop.span.kind``; a task only
links. The operation is believed first, and both before the one span that only its name tells.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from otel_turnavoid.dialects import genai, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail
from otel_turnavoid.vocabulary import Entry, GenAI

NAME: Final = "openllmetry"
KIND: Final = "traceloop.span.kind"
REQUEST_TYPE: Final = "llm.request.type"
_ENTITY_NAME: Final = "traceloop.entity.name"
_ASKS: Final = "gen_ai.completion.0.tool_calls.0.id"
_STREAMING: Final = "gen_ai.is_streaming"
KEYS: Final = frozenset({KIND, REQUEST_TYPE, _ENTITY_NAME, _ASKS, _STREAMING})
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_KINDS: Final = {"workflow": Entry.INVOKE, "agent": Entry.INVOKE, "tool": Entry.TOOL_TURN}
_TYPES: Final = {"chat": Entry.LLM_CALL, "completion": Entry.LLM_CALL}
_RESPONSES: Final = "openai.response"
_OPENAI_SCOPES: Final = (
    "opentelemetry.instrumentation.openai.v0",
    "opentelemetry.instrumentation.openai.v1",
)
_ANTHROPIC_SCOPE: Final = "opentelemetry.instrumentation.anthropic"
_WHOLE_ORDER: Final = (
    *(GenAI.SYSTEM, REQUEST_TYPE, GenAI.PROVIDER_NAME, GenAI.OPERATION_NAME),
    *(GenAI.REQUEST_MODEL, GenAI.RESPONSE_MODEL, GenAI.RESPONSE_ID, GenAI.OUTPUT_MESSAGES),
    *(GenAI.USAGE_INPUT_TOKENS, GenAI.USAGE_OUTPUT_TOKENS),
    *("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
)
"""How the instrumentation of Anthropic's SDK, old and new, writes an answer that came whole."""


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span that carries one of the marks of these instrumentations."""
    given = view.attributes
    # By its name alone no serialized span can be told: only one that also says something.
    responses = view.name == _RESPONSES and view.scope in _OPENAI_SCOPES and genai.speaks(view)
    anthropic = view.scope == _ANTHROPIC_SCOPE and genai.speaks(view)
    if not (KIND in given or REQUEST_TYPE in given or responses or anthropic):
        return None
    attributes = Attributes(given, view.resource)
    operation = attributes.text(GenAI.OPERATION_NAME)
    if operation is not None:
        entry = genai.ENTRIES.get(operation)
    elif KIND in given:
        entry = _KINDS.get(attributes.text(KIND) or "")
    elif REQUEST_TYPE in given:
        entry = _TYPES.get(attributes.text(REQUEST_TYPE) or "")
    else:
        entry = Entry.LLM_CALL if responses else None
    return parts.entry_fact(
        view,
        attributes,
        rules,
        dialect=NAME,
        entry=entry,
        call=partial(_call, view),
        tool=_tool,
    )


def _call(view: SpanView, attributes: Attributes) -> CallDetail:
    said = parts.call_detail(attributes)
    if view.scope == _ANTHROPIC_SCOPE and not _came_whole(view):
        usage = msgspec.structs.replace(said.usage, output=None)
        said = msgspec.structs.replace(said, usage=usage)
    return msgspec.structs.replace(said, asks=said.asks or attributes.text(_ASKS))


def _came_whole(view: SpanView) -> bool:
    """Whether an answer of Anthropic's is known not to have been streamed.

    Of a stream the output tokens are those of its first and last event added up, though both
    count from the start. The SDK's stream helper leaves no mark but the order of attributes:
    usage before the response model. So only the exact order of an answer that came whole is
    believed; attributes that were sorted or mixed on their way tell neither.
    """
    if view.attributes.get(_STREAMING) is True:
        return False
    order = [key for key in view.attributes if key in _WHOLE_ORDER]
    return order == [key for key in _WHOLE_ORDER if key in view.attributes]


def _tool(attributes: Attributes) -> ToolDetail:
    said = parts.tool_detail(attributes)
    return msgspec.structs.replace(said, name=said.name or attributes.text(_ENTITY_NAME))
