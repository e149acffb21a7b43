"""LiteLLM's ``otel`` callback: a span per call, or attributes written onto somebody else's.

Inside any current span LiteLLM makes no span of its own: it writes its attributes onto that
one, and the last call overwrites those before. Such a span shows that there were calls, and
neither how many nor what they used.
"""

from __future__ import annotations

from typing import Final

import msgspec

from otel_turnavoid.dialects import openllmetry, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact, Usage
from otel_turnavoid.vocabulary import Entry

NAME: Final = "litellm"
SCOPE: Final = "litellm"
_MARKS: Final = ("litellm.call_id", "litellm.provider.model", "metadata.usage_object")
KEYS: Final = frozenset(_MARKS)
"""Attribute keys that tell a span that LiteLLM wrote on; the others are OpenLLMetry's."""

_TYPES: Final = ("chat", "completion")


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span of LiteLLM's, or of one that it wrote its calls onto."""
    marked = any(mark in view.attributes for mark in _MARKS)
    if openllmetry.REQUEST_TYPE not in view.attributes or not (marked or view.scope == SCOPE):
        return None
    attributes = Attributes(view.attributes, view.resource)
    is_call = attributes.text(openllmetry.REQUEST_TYPE) in _TYPES
    call = parts.call_detail(attributes) if is_call else None
    if call is not None and view.scope != SCOPE:
        call = msgspec.structs.replace(
            call, overwritten=True, response_id=None, asks=None, usage=Usage()
        )
    entry = Entry.LLM_CALL if is_call else None
    return parts.fact(view, attributes, rules, dialect=NAME, entry=entry, call=call)
