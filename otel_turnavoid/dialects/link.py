"""Spans of no dialect that carry a key of ours: overhead, or links of a chain of parents."""

from __future__ import annotations

from otel_turnavoid.dialects import own, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import NAMESPACE


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return a fact without an entry for a span that itself carries a key of ours."""
    if not any(key.startswith(NAMESPACE) for key in view.attributes):
        return None
    attributes = Attributes(view.attributes, view.resource)
    return parts.fact(view, attributes, rules, dialect=own.NAME)
