"""Our own vocabulary: spans that carry ``turnavoid.entry`` (design section 3)."""

from __future__ import annotations

from typing import Final

from otel_turnavoid.dialects import parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.genai import ENTRIES
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import NAMESPACE, Attr, Disposition, Entry, GenAI

NAME: Final = "turnavoid"
KEYS: Final = frozenset(
    value for value in vars(Attr).values() if isinstance(value, str) and value.startswith(NAMESPACE)
)
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_WITHOUT_MODEL: Final = (Entry.USER_TURN, Entry.SYSTEM_TURN, Entry.TOOL_TURN)
"""Entries that are no model's: a call in their clothes would add no turn."""


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of an entry of ours; a misspelled entry is a fact with a fault."""
    if view.attributes.get(Attr.ENTRY) is None:
        return None
    attributes = Attributes(view.attributes, view.resource)
    entry = attributes.word(Attr.ENTRY, Entry)
    operation = attributes.text(GenAI.OPERATION_NAME)
    if entry in _WITHOUT_MODEL and ENTRIES.get(operation or "") is Entry.LLM_CALL:
        attributes.fault(Attr.ENTRY, f"the span is a model call ({operation}), and no {entry}")
    turn = None
    if entry is Entry.AGENT_TURN:
        turn = attributes.word(Attr.TURN_DISPOSITION, Disposition)
    return parts.entry_fact(
        view,
        attributes,
        rules,
        dialect=NAME,
        own=True,
        entry=entry,
        turn=turn,
    )
