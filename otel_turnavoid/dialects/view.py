"""What a dialect looks at: one span, with the attributes that any dialect wants."""

from __future__ import annotations

from typing import Any, Final

import msgspec

LATEST_NS: Final = 2**63 - 1
"""The latest time that a ledger can hold, in the year 2262."""


class SpanView(msgspec.Struct, frozen=True, kw_only=True):
    """One span as the sender told it; attribute values are plain Python values.

    Only attributes in ``Reader.wanted`` need to be there; the others are not read. A value is a
    str, bool, int, float, bytes, list, dict, or None where the sender left it empty.
    """

    trace_id: str
    """32 lowercase hex digits, not all zero."""
    span_id: str
    """16 lowercase hex digits, not all zero."""
    parent_id: str | None = None
    name: str = ""
    kind: int = 0
    """Number of ``opentelemetry.proto.trace.v1.Span.SpanKind``."""
    start_ns: int = 0
    end_ns: int = 0
    status_error: bool = False
    trace_state: str = ""
    attributes: dict[str, Any] = {}
    evaluations: tuple[dict[str, Any], ...] = ()
    """Attributes of the feature flag evaluations among its events, if ``Reader.flags``."""
    dropped_attributes: int = 0
    """How many the sender's span limits left out."""
    scope: str = ""
    scope_version: str = ""
    resource: dict[str, Any] = {}
    dropped_resource_attributes: int = 0
    """How many its sender left out of the resource."""


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One log record as the sender told it, with the attributes that any reader wants."""

    event_name: str = ""
    time_ns: int = 0
    """When it happened, else when it was seen."""
    trace_id: str = ""
    """32 lowercase hex digits; empty where the record names no trace."""
    span_id: str | None = None
    """16 lowercase hex digits of the span in which it happened."""
    attributes: dict[str, Any] = {}
    dropped_attributes: int = 0
    """How many the sender's limits left out."""
    body: Any = None
    scope: str = ""
    resource: dict[str, Any] = {}
    dropped_resource_attributes: int = 0
    """How many its sender left out of the resource."""


class Refusal(msgspec.Struct, frozen=True):
    """A span or record that cannot be taken at all, and why, for its sender to read."""

    problem: str
