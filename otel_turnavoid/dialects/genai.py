"""The OpenTelemetry GenAI conventions: spans that carry ``gen_ai.*`` attributes.

Read in the newest spelling and in those of the releases 1.28 to 1.4x, which differ in the names
of usage and provider attributes (``vocabulary.USAGE_SPELLINGS``). What a span is says its
``gen_ai.operation.name``, never its span name.
"""

from __future__ import annotations

from typing import Final

from otel_turnavoid.dialects import parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import USAGE_SPELLINGS, Entry, GenAI

NAME: Final = "gen_ai"
PREFIX: Final = "gen_ai."
_LOGFIRE_TYPE: Final = "logfire.span_type"
_LOGFIRE_LOG: Final = "log"
"""A log line sent as a span: of a stream, Logfire repeats the call in one at its end."""
KEYS: Final = frozenset(
    {
        GenAI.OPERATION_NAME,
        GenAI.PROVIDER_NAME,
        GenAI.SYSTEM,
        GenAI.AGENT_NAME,
        GenAI.REQUEST_MODEL,
        GenAI.RESPONSE_MODEL,
        GenAI.RESPONSE_ID,
        GenAI.TOOL_NAME,
        GenAI.TOOL_CALL_ID,
        parts.OLD_TOOL_CALL_ID,
        _LOGFIRE_TYPE,
        GenAI.OUTPUT_MESSAGES,
        *(spelling for spellings in USAGE_SPELLINGS.values() for spelling in spellings),
    }
)
"""Attribute keys that this dialect reads; of the messages only the id of a tool call is kept."""

ENTRIES: Final = {
    "chat": Entry.LLM_CALL,
    "generate_content": Entry.LLM_CALL,
    "text_completion": Entry.LLM_CALL,
    # Before the names were settled: Semantic Kernel and its connectors.
    "chat.completions": Entry.LLM_CALL,
    "chat.streaming_completions": Entry.LLM_CALL,
    "text.completions": Entry.LLM_CALL,
    "text.streaming_completions": Entry.LLM_CALL,
    # Words of its own for the same: the Gemini CLI.
    "llm_call": Entry.LLM_CALL,
    "tool_call": Entry.TOOL_TURN,
    "agent_call": Entry.INVOKE,
    "execute_tool": Entry.TOOL_TURN,
    "invoke_agent": Entry.INVOKE,
    "invoke_workflow": Entry.INVOKE,
}
"""Operations that are entries; any other (``embeddings``, ``create_agent``…) only links."""


def speaks(view: SpanView) -> bool:
    """Tell whether a span carries any key of the conventions."""
    return any(key.startswith(PREFIX) for key in view.attributes)


def _answered(attributes: Attributes) -> bool:
    """Tell a model call by its request and its answer, where no operation is named.

    The name was not always required, and some never set it (Logfire's own clients).
    """
    answer = attributes.text(GenAI.RESPONSE_ID, GenAI.RESPONSE_MODEL)
    agent = attributes.text(GenAI.AGENT_NAME, GenAI.TOOL_NAME)
    return bool(answer and attributes.text(GenAI.REQUEST_MODEL) and not agent)


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span that carries any of the keys of the conventions."""
    if not speaks(view):
        return None
    attributes = Attributes(view.attributes, view.resource)
    operation = view.attributes.get(GenAI.OPERATION_NAME)
    if view.attributes.get(_LOGFIRE_TYPE) == _LOGFIRE_LOG:
        entry: Entry | None = None
    elif operation is None and _answered(attributes):
        entry = Entry.LLM_CALL
    else:
        entry = ENTRIES.get(operation) if isinstance(operation, str) else None
    return parts.entry_fact(
        view,
        attributes,
        rules,
        dialect=NAME,
        entry=entry,
    )
