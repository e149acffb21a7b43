"""OpenInference: spans that carry ``openinference.span.kind``.

Its kinds LLM, TOOL and AGENT are entries; all others (CHAIN, EMBEDDING, RETRIEVER…) only link.
The response id stands, if anywhere, inside ``output.value``, and only where content is recorded.
Token counts of an AGENT repeat those of the calls below it and are not read.

The kind is set first and the messages, an attribute for each part of each, after it. An SDK with
a limit drops the oldest attribute for every one too many, so that a long conversation costs a
call its kind; token counts, set at the end, are what is left to know it by.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_turnavoid.dialects import answer, genai, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

NAME: Final = "openinference"
KIND: Final = "openinference.span.kind"

_MODEL: Final = ("llm.response.model_name", "llm.model_name", "llm.request.model_name")
_ASKS: Final = "llm.output_messages.0.message.tool_calls.0.tool_call.id"
_OUTPUT: Final = "output.value"
_TOOL_NAME: Final = "tool.name"
_TOOL_CALL_ID: Final = ("tool_call.id", "tool.id")
COUNT: Final = "llm.token_count"
_USAGE: Final = {
    "input": f"{COUNT}.prompt",
    "output": f"{COUNT}.completion",
    "cache_read": f"{COUNT}.prompt_details.cache_read",
    "cache_write": f"{COUNT}.prompt_details.cache_write",
    "reasoning": f"{COUNT}.completion_details.reasoning",
}
KEYS: Final = frozenset(
    {
        KIND,
        *_MODEL,
        _ASKS,
        _OUTPUT,
        _TOOL_NAME,
        *_TOOL_CALL_ID,
        parts.AGENT_NAME,
        *_USAGE.values(),
    }
)
"""Attribute keys that this dialect reads; of ``output.value`` only an id is kept."""

_ENTRIES: Final = {"LLM": Entry.LLM_CALL, "TOOL": Entry.TOOL_TURN, "AGENT": Entry.INVOKE}

_SMOLAGENTS: Final = "openinference.instrumentation.smolagents"
_FINAL_ANSWER: Final = "final_answer"
"""Tool by which an agent of smolagents ends its run: its text, not a tool of the task."""


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span that carries a kind of this vocabulary, or must have lost it."""
    kind = view.attributes.get(KIND)
    if not isinstance(kind, str):
        return _without_kind(view, rules)
    attributes = Attributes(view.attributes, view.resource)
    entry = _ENTRIES.get(kind.upper())
    final = view.scope == _SMOLAGENTS and view.attributes.get(_TOOL_NAME) == _FINAL_ANSWER
    if entry is Entry.TOOL_TURN and final:
        entry = None
    return parts.entry_fact(
        view,
        attributes,
        rules,
        dialect=NAME,
        entry=entry,
        call=_call,
        tool=_tool,
    )


def _without_kind(view: SpanView, rules: Rules) -> SpanFact | None:
    counted = any(key in view.attributes for key in _USAGE.values())
    if not view.dropped_attributes or not counted or genai.speaks(view):
        return None
    return parts.fact(view, Attributes(view.attributes, view.resource), rules, dialect=NAME)


def _call(attributes: Attributes) -> CallDetail:
    said = parts.call_detail(attributes)
    usage = {
        field: known
        if (known := getattr(said.usage, field)) is not None
        else attributes.tokens(key)
        for field, key in _USAGE.items()
    }
    return msgspec.structs.replace(
        said,
        model=said.model or attributes.text(*_MODEL),
        response_id=said.response_id or answer.response_id(attributes.value(_OUTPUT)),
        asks=said.asks or attributes.text(_ASKS),
        usage=Usage(**usage),
    )


def _tool(attributes: Attributes) -> ToolDetail:
    said = parts.tool_detail(attributes)
    return msgspec.structs.replace(
        said,
        name=said.name or attributes.text(_TOOL_NAME),
        call_id=said.call_id or attributes.text(*_TOOL_CALL_ID),
    )
