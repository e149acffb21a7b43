"""A span of the SDK as dialects look at it: the same that the wire would show."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from otel_turnavoid.dialects import SpanView

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

SpanKey: TypeAlias = "tuple[int, int]"
"""Trace id and span id."""


def key_of(span: ReadableSpan) -> SpanKey:
    """Return the identity of a span."""
    context = span.get_span_context()
    return (context.trace_id, context.span_id) if context is not None else (0, 0)


def view_of(span: ReadableSpan) -> SpanView:
    """Return an ended or still open span as a ``SpanView``."""
    trace_id, span_id = key_of(span)
    scope = span.instrumentation_scope
    return SpanView(
        trace_id=format_trace_id(trace_id),
        span_id=format_span_id(span_id),
        parent_id=None if span.parent is None else format_span_id(span.parent.span_id),
        name=span.name,
        kind=span.kind.value + 1,  # the protocol's 0 is UNSPECIFIED
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status_error=span.status.status_code is StatusCode.ERROR,
        trace_state="" if span.context is None else span.context.trace_state.to_header(),
        attributes=dict(span.attributes or {}),
        dropped_attributes=span.dropped_attributes,
        scope="" if scope is None else scope.name,
        scope_version="" if scope is None else scope.version or "",
        resource=dict(span.resource.attributes),
    )
