"""Feature flag evaluations that are facts of their own, as they lie on no span about agents.

A log record is a fact below the span in which it happened. A span with an event, such as a web
server's around the agent, is one for the sake of that event. Both only say which arm a run is of.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import msgspec

from otel_turnavoid.dialects import flags, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.observation import EVENT_NAME
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import LATEST_NS, RecordView, Refusal, SpanView
from otel_turnavoid.judge.facts import SpanFact

NAME: Final = "feature_flag"
_VALUE: Final = "feature_flag.result.value"
_BODY_VALUE: Final = "value"
"""Where the value stood before it was an attribute: in the record's body."""

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=repr)


def read(view: SpanView, rules: Rules) -> SpanFact | None:
    """Return a fact for a span of which only the flags that were evaluated in it are wanted."""
    if not view.evaluations or not rules.evaluated(view.evaluations):
        return None
    return parts.fact(view, Attributes(view.attributes, view.resource), rules, dialect=NAME)


def read_record(record: RecordView, rules: Rules) -> SpanFact | Refusal | None:
    """Return the fact of a log record; None for one that is no evaluation of a flag in question."""
    named = (record.event_name, record.attributes.get(EVENT_NAME))
    evaluation = _with_value(record)
    if not any(name in flags.EVENTS for name in named if isinstance(name, str)):
        return None
    if not rules.evaluated((evaluation,)):
        return None
    if not record.trace_id:
        # Nothing says which run it was for.
        return None
    if record.time_ns > LATEST_NS:
        return Refusal(f"{flags.PREFIX}evaluation: time: lies beyond the year 2262")
    view = SpanView(
        trace_id=record.trace_id,
        span_id=_made_span_id(record, evaluation),
        parent_id=record.span_id,
        start_ns=record.time_ns,
        end_ns=record.time_ns,
        attributes=record.attributes,
        evaluations=(evaluation,),
        scope=record.scope,
        resource=record.resource,
    )
    return parts.fact(view, Attributes(record.attributes, record.resource), rules, dialect=NAME)


def _with_value(record: RecordView) -> dict[str, Any]:
    body = record.body
    if _VALUE in record.attributes or not isinstance(body, dict) or body.get(_BODY_VALUE) is None:
        return record.attributes
    return {**record.attributes, _VALUE: body[_BODY_VALUE]}


def _made_span_id(record: RecordView, evaluation: dict[str, Any]) -> str:
    """Return an id for a record, which has none: the same for the same record sent again.

    It does not depend on the configuration, so that it is the same evidence under any.
    """
    said = {key: value for key, value in evaluation.items() if key in flags.KEYS}
    sender = [record.resource.get(key) for key in (parts.SERVICE_NAME, parts.SERVICE_INSTANCE)]
    place = [record.trace_id, record.span_id, record.time_ns, record.scope]
    return blake2b(_encoder.encode([*place, *sender, said]), digest_size=8).hexdigest()
