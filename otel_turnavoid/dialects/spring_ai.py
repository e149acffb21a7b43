"""Spring AI: spans that carry ``spring.ai.kind``, beside model calls in the GenAI conventions.

The chat client, in whose time the model calls tools in a loop, is the agent; it and a tool's
execution name the operation ``framework``. Advisors only link. All values are texts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_turnavoid.dialects import parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact, ToolDetail
from otel_turnavoid.vocabulary import Entry

NAME: Final = "spring_ai"
KIND: Final = "spring.ai.kind"
_TOOL_NAME: Final = "spring.ai.tool.definition.name"
KEYS: Final = frozenset({KIND, _TOOL_NAME})
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_ENTRIES: Final = {"chat_client": Entry.INVOKE, "tool_call": Entry.TOOL_TURN}


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span with a kind of this framework's."""
    kind = view.attributes.get(KIND)
    if not isinstance(kind, str):
        return None
    return parts.entry_fact(
        view,
        Attributes(view.attributes, view.resource),
        rules,
        dialect=NAME,
        entry=_ENTRIES.get(kind),
        tool=_tool,
    )


def _tool(attributes: Attributes) -> ToolDetail:
    said = parts.tool_detail(attributes)
    return msgspec.structs.replace(said, name=said.name or attributes.text(_TOOL_NAME))
