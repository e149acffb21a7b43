"""Langfuse's SDK: spans that carry ``langfuse.observation.type``.

A generation is a model call, whose tokens stand in one JSON text. A span with an operation of
the GenAI conventions, which other libraries send to Langfuse, is theirs to read.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from otel_turnavoid.dialects import parts
from otel_turnavoid.dialects.attributes import Attributes, from_json, whole
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import CallDetail, SpanFact, Usage
from otel_turnavoid.vocabulary import Entry, GenAI

NAME: Final = "langfuse"
TYPE: Final = "langfuse.observation.type"
_MODEL: Final = "langfuse.observation.model.name"
_USAGE: Final = "langfuse.observation.usage_details"
_LEVEL: Final = "langfuse.observation.level"
KEYS: Final = frozenset({TYPE, _MODEL, _USAGE, _LEVEL})
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_ENTRIES: Final = {
    "generation": Entry.LLM_CALL,
    "tool": Entry.TOOL_TURN,
    "agent": Entry.INVOKE,
}
_SPELLINGS: Final = {
    "input": ("input", "input_tokens", "prompt_tokens"),
    "output": ("output", "output_tokens", "completion_tokens"),
    "cache_read": ("input_cached_tokens", "cache_read_input_tokens", "input_cache_read"),
    "cache_write": ("cache_creation_input_tokens", "input_cache_creation"),
    "reasoning": ("output_reasoning_tokens",),
}


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of an observation; spans, events, evaluators and the like only link."""
    kind = view.attributes.get(TYPE)
    if not isinstance(kind, str) or GenAI.OPERATION_NAME in view.attributes:
        return None
    fact = parts.entry_fact(
        view,
        Attributes(view.attributes, view.resource),
        rules,
        dialect=NAME,
        entry=_ENTRIES.get(kind.lower()),
        call=_call,
    )
    failed = fact.failed or view.attributes.get(_LEVEL) == "ERROR"
    return msgspec.structs.replace(fact, failed=failed)


def _call(attributes: Attributes) -> CallDetail:
    said = parts.call_detail(attributes)
    known = msgspec.structs.asdict(said.usage)
    usage = _usage(attributes.text(_USAGE))
    usage |= {field: count for field, count in known.items() if count is not None}
    return msgspec.structs.replace(
        said, model=said.model or attributes.text(_MODEL), usage=Usage(**usage)
    )


def _usage(text: str | None) -> dict[str, int | None]:
    try:
        details: Any = from_json(text or "{}")
    except ValueError:
        details = {}
    if not isinstance(details, dict):
        details = {}
    return {
        field: next((n for key in keys if (n := whole(details.get(key))) is not None), None)
        for field, keys in _SPELLINGS.items()
    }
