"""Log export requests -> observations, and feature flags that name arms.

Other records are counted and left undecoded.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from otel_turnavoid._proto.turnavoid.v1.otlp_view_pb2 import LogRecordView, LogsView, ScopeView
from otel_turnavoid.dialects import Reader, RecordView, Refusal
from otel_turnavoid.errors import InputError, TooLargeError
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.otlp.attributes import (
    AttributeReader,
    ResourceRead,
    attribute_reader,
    plain,
)
from otel_turnavoid.otlp.batch import Batch, Intake
from otel_turnavoid.otlp.limits import LOG_RECORD, Limits, bloated

_TRACE_ID: Final = 16
_SPAN_ID: Final = 8


def read_logs(
    body: bytes, reader: Reader, *, role: str | None = None, limits: Limits | None = None
) -> Batch:
    """Read a serialized ``ExportLogsServiceRequest``.

    An observation is bound to its run by the run's id, and its trace and span are not looked
    at; a feature flag's evaluation is bound to the span in which it happened.

    Args:
        body: The request; empty means one without telemetry.
        reader: The dialects, with the operator's configuration.
        role: Role of the credential that the request came with, if authentication is on.
        limits: What one request may hold; anything where left out.

    Raises:
        InputError: The body, or an observation in it, cannot be decoded.
        TooLargeError: It has too many records.
    """
    intake = Intake(role)
    if limits is not None:
        limits.check_request(body)
    try:
        records = _read(LogsView.FromString(body), reader, intake, limits)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError("logs request", f"not readable as OTLP protobuf: {error}") from error
    return Batch(
        facts=intake.facts,
        observations=intake.observations,
        records=records,
        ignored=intake.ignored,
        rejected=intake.rejected,
        problem=intake.problem("log records"),
    )


def _read(view: LogsView, reader: Reader, intake: Intake, limits: Limits | None) -> int:
    """Read every record; return how many there were."""
    records = sum(
        len(scope.log_records) for each in view.resource_logs for scope in each.scope_logs
    )
    if limits is not None:
        limits.check_items(records)
    attributes = attribute_reader(reader.wanted_in_records)
    needles = reader.record_needles
    for resource_logs in view.resource_logs:
        resource: ResourceRead | None = None
        for scope_logs in resource_logs.scope_logs:
            for raw in scope_logs.log_records:
                if not any(needle in raw for needle in needles):
                    intake.ignored += 1
                    continue
                if resource is None:
                    try:
                        resource = attributes.resource(resource_logs.resource, limits)
                    except TooLargeError as error:
                        intake.refuse(error.problem)
                        continue
                scope = ScopeView.FromString(b"".join(scope_logs.scope)).name
                problem = bloated(raw, LOG_RECORD) if limits is not None else ""
                record = LogRecordView.FromString(b"" if problem else raw)
                if limits is not None:
                    problem = problem or limits.many(len(record.attributes))
                intake.take(
                    Refusal(problem)
                    if problem
                    else _record(record, scope, resource, attributes, reader)
                )
    return records


def _record(
    record: LogRecordView,
    scope: str,
    resource: ResourceRead,
    attributes: AttributeReader,
    reader: Reader,
) -> SpanFact | Observation | Refusal | None:
    view = RecordView(
        event_name=record.event_name,
        time_ns=record.time_unix_nano or record.observed_time_unix_nano,
        trace_id=_id(record.trace_id, _TRACE_ID) or "",
        span_id=_id(record.span_id, _SPAN_ID),
        attributes=attributes.read(record.attributes),
        body=plain(AnyValue.FromString(b"".join(record.body))) if reader.flags else None,
        dropped_attributes=record.dropped_attributes_count,
        scope=scope,
        resource=resource.attributes,
        dropped_resource_attributes=resource.dropped,
    )
    return reader.read_record(view)


def _id(raw: bytes, size: int) -> str | None:
    """Return an id in hex; None for one that is missing or malformed: it names nothing."""
    return raw.hex() if len(raw) == size and any(raw) else None
