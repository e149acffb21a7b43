"""One table of dialects, tried in order; the first that knows a span reads it."""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.dialects import (
    anthropic_sdk,
    genai,
    google_adk,
    link,
    litellm,
    observation,
    openinference,
    openllmetry,
    own,
    parts,
    vercel_ai,
)
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import Refusal, SpanView
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
    genai.read,
    link.read,
)
"""The particular before the general."""

_KEYS: Final = (
    own.KEYS
    | openinference.KEYS
    | litellm.KEYS
    | openllmetry.KEYS
    | anthropic_sdk.KEYS
    | vercel_ai.KEYS
    | genai.KEYS
    | observation.KEYS
    | {
        parts.ERROR_TYPE,
        parts.SERVICE_NAME,
        parts.SERVICE_INSTANCE,
        observation.EVENT_NAME,
    }
)

_NEEDLES: Final = (genai.PREFIX, NAMESPACE, ".span.kind", vercel_ai.OPERATION)
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
        self.prefixes: tuple[bytes, ...] = tuple(map(str.encode, _NEEDLES))
        """Bytes of which at least one stands in every serialized span that yields a fact."""
        self.record_needle: bytes = EVENT_EFFECTS_OBSERVED.encode()
        """Bytes that stand in every serialized log record that yields an observation."""

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

    def read_record(
        self,
        event_name: str,
        attributes: dict[str, Any],
        resource: dict[str, Any],
        observed_ns: int,
    ) -> Observation | Refusal | None:
        """Return what a log record says, or None when it is not an observation."""
        return observation.read_record(event_name, attributes, resource, observed_ns)
