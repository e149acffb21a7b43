"""Spans of no dialect that carry a key of ours: overhead, or links of a chain of parents."""

from __future__ import annotations

from otel_turnavoid.dialects import own, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import NAMESPACE, VERDICT_SCOPE


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return a fact without an entry for a span that itself carries a key of ours.

    A processor's verdicts carry some and are no evidence: they may come back to a processor.
    """
    ours = any(key.startswith(NAMESPACE) for key in view.attributes)
    if not ours or view.scope == VERDICT_SCOPE:
        return None
    attributes = Attributes(view.attributes, view.resource)
    return parts.fact(view, attributes, rules, dialect=own.NAME)
