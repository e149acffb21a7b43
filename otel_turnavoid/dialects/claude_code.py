"""Claude Code's own spans: scope ``com.anthropic.claude_code.…`` and a ``span.type``.

An interaction, from a prompt to idle, holds a span for each model request, which lasts over its
retries, and one for each tool; what lies inside a tool (waiting for leave, the execution) only
links. Tokens have names without a namespace, and the input leaves out what came from a cache.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_turnavoid.dialects import parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.vocabulary import Entry

NAME: Final = "claude_code"
TYPE: Final = "span.type"
_SCOPES: Final = "com.anthropic.claude_code."
_MODEL: Final = "model"
_ATTEMPT: Final = "attempt"
_SUCCESS: Final = "success"
_INPUT: Final = "input_tokens"
_OUTPUT: Final = "output_tokens"
_CACHE_READ: Final = "cache_read_tokens"
_CACHE_WRITE: Final = "cache_creation_tokens"
_TOOL_NAME: Final = "tool_name"
_TOOL_CALL_ID: Final = "tool_use_id"
KEYS: Final = frozenset(
    {
        *(TYPE, _MODEL, _ATTEMPT, _SUCCESS, _TOOL_NAME, _TOOL_CALL_ID),
        *(_INPUT, _OUTPUT, _CACHE_READ, _CACHE_WRITE),
    }
)
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_ENTRIES: Final = {
    "interaction": Entry.INVOKE,
    "llm_request": Entry.LLM_CALL,
    "tool": Entry.TOOL_TURN,
}


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span of this scope."""
    kind = view.attributes.get(TYPE)
    if not isinstance(kind, str) or not view.scope.startswith(_SCOPES):
        return None
    fact = parts.entry_fact(
        view,
        Attributes(view.attributes, view.resource),
        rules,
        dialect=NAME,
        entry=_ENTRIES.get(kind),
        call=_call,
        tool=_tool,
    )
    failed = fact.failed or view.attributes.get(_SUCCESS) is False
    return msgspec.structs.replace(fact, failed=failed) if fact.call is not None else fact


def _call(attributes: Attributes) -> CallDetail:
    said = parts.call_detail(attributes)
    read, written = attributes.tokens(_CACHE_READ), attributes.tokens(_CACHE_WRITE)
    fresh, attempt = attributes.tokens(_INPUT), attributes.tokens(_ATTEMPT)
    return msgspec.structs.replace(
        said,
        model=said.model or attributes.text(_MODEL),
        usage=Usage(
            input=None if fresh is None else fresh + (read or 0) + (written or 0),
            output=attributes.tokens(_OUTPUT),
            cache_read=read,
            cache_write=written,
        ),
        resends=max(attempt - 1, 0) if attempt is not None else None,
    )


def _tool(attributes: Attributes) -> ToolDetail:
    said = parts.tool_detail(attributes)
    return msgspec.structs.replace(
        said,
        name=said.name or attributes.text(_TOOL_NAME),
        call_id=said.call_id or attributes.text(_TOOL_CALL_ID),
    )
