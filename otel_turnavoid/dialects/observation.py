"""Effects that an observer saw: the event ``turnavoid.effects.observed``, or a span of it."""

from __future__ import annotations

from typing import Any, Final, cast

from otel_turnavoid.dialects import process
from otel_turnavoid.dialects.attributes import described, name_problem
from otel_turnavoid.dialects.parts import SERVICE_INSTANCE, SERVICE_NAME
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import LATEST_NS, RecordView, Refusal, SpanView
from otel_turnavoid.judge.facts import Observation
from otel_turnavoid.vocabulary import EVENT_EFFECTS_OBSERVED, Attr

EVENT_NAME: Final = "event.name"
"""Where senders put the name of an event before log records had a field for it."""

KEYS: Final = frozenset({Attr.RUN_ID, Attr.OBSERVER_ID, Attr.EFFECTS_LABELS, Attr.EFFECTS_ORDERED})


def read(view: SpanView, rules: Rules) -> Observation | Refusal | None:  # noqa: ARG001 - one verb
    """Return what a span observed, at its end; None for a span that is no observation."""
    if view.name != EVENT_EFFECTS_OBSERVED and Attr.EFFECTS_LABELS not in view.attributes:
        return None
    return _observed(view, view.end_ns)


def read_record(record: RecordView) -> Observation | Refusal | None:
    """Return what a log record observed; None for a record that is no observation."""
    if EVENT_EFFECTS_OBSERVED not in (record.event_name, record.attributes.get(EVENT_NAME)):
        return None
    return _observed(record, record.time_ns)


def _observed(view: SpanView | RecordView, observed_ns: int) -> Observation | Refusal:
    """Make an observation, or say in one line why it is none.

    One of which a limit left out attributes is kept: it shows why nothing is proven.
    """
    attributes, resource = view.attributes, view.resource
    run_id = attributes.get(Attr.RUN_ID)
    observer = attributes.get(Attr.OBSERVER_ID)
    labels = attributes.get(Attr.EFFECTS_LABELS)
    ordered = attributes.get(Attr.EFFECTS_ORDERED)
    for key, problem in (
        (Attr.RUN_ID, _id_problem(run_id)),
        (Attr.OBSERVER_ID, _id_problem(observer)),
        (Attr.EFFECTS_LABELS, _labels_problem(labels)),
        (Attr.EFFECTS_ORDERED, _ordered_problem(ordered)),
        ("time", _time_problem(observed_ns)),
    ):
        if problem is not None:
            return Refusal(f"{EVENT_EFFECTS_OBSERVED}: {key}: {problem}")
    service, instance = resource.get(SERVICE_NAME), resource.get(SERVICE_INSTANCE)
    return Observation(
        run_id=cast("str", run_id),
        observer=cast("str", observer),
        labels=tuple(cast("list[str]", labels)),
        ordered=ordered is True,
        observed_ns=observed_ns,
        service=service if isinstance(service, str) else None,
        instance=instance if isinstance(instance, str) else None,
        process=process.read(resource),
        dropped=view.dropped_attributes,
        resource_dropped=view.dropped_resource_attributes,
    )


def _id_problem(value: object) -> str | None:
    return "missing" if value is None else name_problem(value, described)


def _ordered_problem(value: object) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    return f"want a boolean, got {described(value)}"


def _time_problem(observed_ns: int) -> str | None:
    if observed_ns == 0:
        return "missing"
    return "lies beyond the year 2262" if observed_ns > LATEST_NS else None


def _labels_problem(labels: Any) -> str | None:
    if labels is None:
        return "missing; want an array of strings, empty where nothing was seen"
    if not isinstance(labels, list):
        return f"want an array of strings, got {described(labels)}"
    for label in labels:
        problem = name_problem(label, described)
        if problem is not None:
            return f"a label: {problem}"
    return None
