"""MLflow's tracing: spans that carry ``mlflow.spanType``. Every value is written as JSON.

A span with an operation of the GenAI conventions, into which MLflow can translate its own, is
theirs to read.
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

NAME: Final = "mlflow"
TYPE: Final = "mlflow.spanType"
_MODEL: Final = "mlflow.llm.model"
_USAGE: Final = "mlflow.chat.tokenUsage"
KEYS: Final = frozenset({TYPE, _MODEL, _USAGE})
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""

_ENTRIES: Final = {
    "LLM": Entry.LLM_CALL,
    "CHAT_MODEL": Entry.LLM_CALL,
    "TOOL": Entry.TOOL_TURN,
    "AGENT": Entry.INVOKE,
}
_SPELLINGS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span with a type of MLflow's; chains, retrievers and the like link."""
    if TYPE not in view.attributes or GenAI.OPERATION_NAME in view.attributes:
        return None
    kind = _plain(view.attributes[TYPE])
    return parts.entry_fact(
        view,
        Attributes(view.attributes, view.resource),
        rules,
        dialect=NAME,
        entry=_ENTRIES.get(kind) if isinstance(kind, str) else None,
        call=_call,
    )


def _call(attributes: Attributes) -> CallDetail:
    said = parts.call_detail(attributes)
    model, used = _plain(attributes.value(_MODEL)), _plain(attributes.value(_USAGE))
    counts = used if isinstance(used, dict) else {}
    usage = Usage(**{field: whole(counts.get(key)) for field, key in _SPELLINGS.items()})
    return msgspec.structs.replace(
        said, model=said.model or (model if isinstance(model, str) else None), usage=usage
    )


def _plain(value: Any) -> Any:
    """Return what a JSON text means, and a text that is none as it stands."""
    try:
        return from_json(value) if isinstance(value, str) else value
    except ValueError:
        return value
