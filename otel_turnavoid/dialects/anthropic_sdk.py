"""The Anthropic SDK's own spans: GenAI conventions, and how often a request was sent again."""

from __future__ import annotations

from typing import Final

import msgspec

from otel_turnavoid.dialects import genai, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import Entry, GenAI

NAME: Final = "anthropic_sdk"
_SCOPES: Final = "com.anthropic.sdk."
_RESENDS: Final = "http.request.resend_count"
KEYS: Final = frozenset({_RESENDS})
"""Attribute keys that this dialect reads, beside those of the GenAI conventions."""


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return the fact of a span of the SDK: a model call, or a link."""
    if not view.scope.startswith(_SCOPES) or not genai.speaks(view):
        return None
    attributes = Attributes(view.attributes, view.resource)
    is_call = genai.ENTRIES.get(attributes.text(GenAI.OPERATION_NAME) or "") is Entry.LLM_CALL
    call = parts.call_detail(attributes) if is_call else None
    if call is not None:
        silent = view.attributes.get(_RESENDS) is None
        # The SDK leaves the count out where it sent the request once.
        resends = 0 if silent else attributes.tokens(_RESENDS)
        call = msgspec.structs.replace(call, resends=resends)
    entry = Entry.LLM_CALL if is_call else None
    return parts.fact(view, attributes, rules, dialect=NAME, entry=entry, call=call)
