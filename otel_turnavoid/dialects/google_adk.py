"""Google's ADK: scope ``gcp.vertex.agent``.

Release 1 shows a model call as ``call_llm``, without an operation but with a model and tokens,
around a ``generate_content`` span of the same call. Release 2 has the latter alone, and both run
tools inside of it. Behind parallel executions comes a span for their merged results.
"""

from __future__ import annotations

from typing import Final

from otel_turnavoid.dialects import genai, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import Entry, GenAI

NAME: Final = "google_adk"
SCOPE: Final = "gcp.vertex.agent"
_MERGED_TOOLS: Final = "(merged tools)"


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span of the ADK that carries keys of the GenAI conventions."""
    if view.scope != SCOPE or not genai.speaks(view):
        return None
    attributes = Attributes(view.attributes, view.resource)
    operation = attributes.text(GenAI.OPERATION_NAME)
    entry = genai.ENTRIES.get(operation) if operation is not None else _unnamed(attributes)
    if entry is Entry.TOOL_TURN and attributes.text(GenAI.TOOL_NAME) == _MERGED_TOOLS:
        entry = None
    return parts.entry_fact(
        view,
        attributes,
        rules,
        dialect=NAME,
        entry=entry,
    )


def _unnamed(attributes: Attributes) -> Entry | None:
    return Entry.LLM_CALL if attributes.text(GenAI.REQUEST_MODEL) is not None else None
