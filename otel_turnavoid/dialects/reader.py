"""One table of dialects, tried in order; the first that knows a span reads it."""

from __future__ import annotations

from typing import Final

from otel_turnavoid.dialects import (
    anthropic_sdk,
    claude_code,
    evaluation,
    flags,
    genai,
    google_adk,
    langfuse,
    link,
    litellm,
    mlflow,
    observation,
    openinference,
    openllmetry,
    own,
    parts,
    process,
    spring_ai,
    vercel_ai,
)
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import RecordView, Refusal, SpanView
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import EVENT_EFFECTS_OBSERVED, NAMESPACE

_DIALECTS: Final = (
    own.read,
    observation.read,
    openinference.read,
    litellm.read,
    openllmetry.read,
    google_adk.read,
    anthropic_sdk.read,
    vercel_ai.read,
    claude_code.read,
    langfuse.read,
    mlflow.read,
    spring_ai.read,
    genai.read,
    link.read,
    evaluation.read,
)
"""The particular before the general."""

_KEYS: Final = (
    own.KEYS
    | openinference.KEYS
    | litellm.KEYS
    | openllmetry.KEYS
    | anthropic_sdk.KEYS
    | vercel_ai.KEYS
    | claude_code.KEYS
    | langfuse.KEYS
    | mlflow.KEYS
    | spring_ai.KEYS
    | genai.KEYS
    | observation.KEYS
    | process.KEYS
    | {
        parts.ERROR_TYPE,
        parts.SERVICE_NAME,
        parts.SERVICE_INSTANCE,
        observation.EVENT_NAME,
    }
)

_NEEDLES: Final = (
    *(genai.PREFIX, NAMESPACE, ".span.kind", openinference.COUNT, vercel_ai.OPERATION),
    *(claude_code.TYPE, langfuse.TYPE, mlflow.TYPE, openllmetry.REQUEST_TYPE, spring_ai.KIND),
)
"""OpenInference and OpenLLMetry share the end of their marks; each needle costs every span."""


class Reader:
    """Reads spans and records into facts and observations, by every dialect we know.

    Stateless apart from the configuration, so one reader serves all threads.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.rules = Rules(settings or Settings())
        """What the configuration says about spans that do not say it themselves."""
        self.wanted: frozenset[str] = _KEYS | self.rules.keys
        """Attribute keys that may be looked at, on a span, a record or a resource."""
        self.flags: bool = bool(self.rules.flags)
        """Whether feature flags that were evaluated in a span are looked at."""
        flagged = (flags.PREFIX,) if self.flags else ()
        self.prefixes: tuple[bytes, ...] = tuple(map(str.encode, (*_NEEDLES, *flagged)))
        """Bytes of which at least one stands in every serialized span that yields a fact."""
        wanted_in_records = (EVENT_EFFECTS_OBSERVED, *flagged)
        self.record_needles: tuple[bytes, ...] = tuple(map(str.encode, wanted_in_records))
        """Bytes of which at least one stands in every log record that yields anything."""
        self.wanted_in_records: frozenset[str] = self.wanted | flags.KEYS
        """Attribute keys that may be looked at on a record."""

    def read(self, view: SpanView) -> SpanFact | Observation | Refusal | None:
        """Return what a span says, or None when it is not about agents.

        Only the span's own attributes make it one about agents, not those of its resource. An
        observation that cannot be understood is a ``Refusal``; whatever else a span says wrongly
        is a ``Fault`` on its fact.
        """
        for read in _DIALECTS:
            found = read(view, self.rules)
            if found is not None:
                return found
        return None

    def read_record(self, record: RecordView) -> SpanFact | Observation | Refusal | None:
        """Return what a log record says: an observation, or which arm a flag gave; else None."""
        found = observation.read_record(record)
        return evaluation.read_record(record, self.rules) if found is None else found
