"""Trace export requests -> batches of facts, decoding no more than needed.

The request is split by the view in ``proto/turnavoid/v1/otlp_view.proto``, in which each span
stays bytes. A span without any key prefix that a dialect knows is counted and left; of the
others only wanted attributes are decoded.

Consequences: a request that cannot be split, or a span about agents that cannot be decoded
(truncated, invalid UTF-8 in what is wanted, values nested too deep), refuses the whole request,
as any protobuf decoder would. The same faults inside a span that is not about agents are not
seen. Ids are checked on every span.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from otel_turnavoid._proto.turnavoid.v1 import otlp_view_pb2 as lazy
from otel_turnavoid.dialects import Reader, Refusal, SpanView, flags
from otel_turnavoid.dialects.view import LATEST_NS
from otel_turnavoid.errors import InputError, TooLargeError
from otel_turnavoid.otlp.attributes import AttributeReader, ResourceRead, attribute_reader
from otel_turnavoid.otlp.batch import Batch, Intake
from otel_turnavoid.otlp.limits import SPAN, Limits, bloated

_TRACE_ID: Final = 16
_SPAN_ID: Final = 8
_ERROR: Final = 2
"""``opentelemetry.proto.trace.v1.Status.StatusCode.STATUS_CODE_ERROR``."""

_FLAG: Final = flags.PREFIX.encode()

_GOOD_IDS: Final = re.compile(rb"\x0a\x10(?!\x00{16}).{16}\x12\x08(?!\x00{8}).{8}", re.DOTALL).match
"""Matches a span that starts as every sender writes it: trace id, span id, neither all zero."""


def read_traces(
    body: bytes, reader: Reader, *, role: str | None = None, limits: Limits | None = None
) -> Batch:
    """Read a serialized ``ExportTraceServiceRequest``.

    Args:
        body: The request; empty means one without telemetry.
        reader: The dialects, with the operator's configuration.
        role: Role of the credential that the request came with, if authentication is on.
        limits: What one request may hold; anything where left out.

    Raises:
        InputError: The body, or a span about agents in it, cannot be decoded.
        TooLargeError: It has too many spans.
    """
    intake = Intake(role)
    if limits is not None:
        limits.check_request(body)
    try:
        # Looked for in the whole body first: what is nowhere in it costs each span nothing.
        needles = tuple(prefix for prefix in reader.prefixes if prefix in body)
        spans = _read(lazy.TracesView.FromString(body), reader, needles, intake, limits)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError("traces request", f"not readable as OTLP protobuf: {error}") from error
    return Batch(
        facts=intake.facts,
        observations=intake.observations,
        spans=spans,
        ignored=intake.ignored,
        rejected=intake.rejected,
        problem=intake.problem("spans"),
    )


def _read(
    view: lazy.TracesView,
    reader: Reader,
    needles: tuple[bytes, ...],
    intake: Intake,
    limits: Limits | None,
) -> int:
    """Read every span; return how many there were."""
    spans = sum(len(scope.spans) for each in view.resource_spans for scope in each.scope_spans)
    if limits is not None:
        limits.check_items(spans)
    attributes = attribute_reader(reader.wanted)
    for resource_spans in view.resource_spans:
        resource: ResourceRead | None = None
        for scope_spans in resource_spans.scope_spans:
            about_agents = _leave_others(scope_spans.spans, needles, intake)
            if not about_agents:
                continue
            scope = lazy.ScopeView.FromString(b"".join(scope_spans.scope))
            if resource is None:
                try:
                    resource = attributes.resource(resource_spans.resource, limits)
                except TooLargeError as error:
                    intake.refuse(error.problem, len(about_agents))
                    continue
            for raw in about_agents:
                problem = bloated(raw, SPAN) if limits is not None else ""
                if problem:
                    intake.take(Refusal(problem))
                    continue
                span = lazy.SpanView.FromString(raw)
                refusal = _refusal(span, limits)
                evaluations = _evaluations(raw) if reader.flags else ()
                intake.take(
                    refusal or reader.read(_view(span, scope, resource, attributes, evaluations))
                )
    return spans


def _leave_others(raws: Iterable[bytes], needles: tuple[bytes, ...], intake: Intake) -> list[bytes]:
    """Return the spans that hold any of the needles; count the others, and check their ids."""
    about_agents = []
    others = 0
    for raw in raws:
        # A loop of searches: one regular expression for all needles takes five times as long.
        for needle in needles:
            if needle in raw:
                about_agents.append(raw)
                break
        else:
            if _GOOD_IDS(raw):
                others += 1
            else:
                intake.take(_ids_refusal(lazy.SpanIdsView.FromString(raw)))
    intake.ignored += others
    return about_agents


def _view(
    span: lazy.SpanView,
    scope: lazy.ScopeView,
    resource: ResourceRead,
    attributes: AttributeReader,
    evaluations: tuple[dict[str, Any], ...],
) -> SpanView:
    return SpanView(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
        name=span.name,
        kind=span.kind,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status_error=span.status.code == _ERROR,
        trace_state=span.trace_state,
        attributes=attributes.read(span.attributes),
        evaluations=evaluations,
        dropped_attributes=span.dropped_attributes_count,
        scope=scope.name,
        scope_version=scope.version,
        resource=resource.attributes,
        dropped_resource_attributes=resource.dropped,
    )


def _evaluations(raw: bytes) -> tuple[dict[str, Any], ...]:
    """Return the attributes of each feature flag evaluation among a span's events."""
    if _FLAG not in raw:
        return ()
    attributes = attribute_reader(flags.KEYS)
    events = map(lazy.EventView.FromString, lazy.SpanEventsView.FromString(raw).events)
    return tuple(
        attributes.read(event.attributes) for event in events if event.name in flags.EVENTS
    )


def _refusal(span: lazy.SpanView, limits: Limits | None) -> Refusal | None:
    """Return why a span about agents cannot be taken, or None when it can."""
    refusal = _ids_refusal(span)
    if refusal is None and limits is not None:
        problem = limits.many(len(span.attributes))
        refusal = Refusal(problem) if problem else None
    if refusal is None and len(span.parent_span_id) not in (0, _SPAN_ID):
        refusal = Refusal(f"the parent span id is not {_SPAN_ID} bytes long")
    if refusal is None and max(span.start_time_unix_nano, span.end_time_unix_nano) > LATEST_NS:
        refusal = Refusal("a time lies beyond the year 2262")
    return refusal


def _ids_refusal(span: lazy.SpanIdsView | lazy.SpanView) -> Refusal | None:
    for name, value, size in (
        ("trace", span.trace_id, _TRACE_ID),
        ("span", span.span_id, _SPAN_ID),
    ):
        if not value:
            return Refusal(f"the {name} id is missing")
        if len(value) != size:
            return Refusal(f"the {name} id is not {size} bytes long")
        if not any(value):
            return Refusal(f"the {name} id is all zeros")
    return None
