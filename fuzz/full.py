"""The plain way to read a request: all of it decoded first, then every attribute looked at.

Slow and obvious, for the lazy view of ``otel_turnavoid.otlp`` to agree with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.dialects import Reader, RecordView, Refusal, SpanView, flags
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.otlp import Batch

_TRACE_ID, _SPAN_ID, _ERROR = 16, 8, 2
_LATEST_NS: Final = 2**63 - 1


def plain(value: AnyValue) -> Any:
    """Return a decoded value as plain Python."""
    kind = value.WhichOneof("value")
    if kind is None or kind.endswith("_strindex"):
        return None
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {item.key: plain(item.value) for item in value.kvlist_value.values}
    return getattr(value, kind)


def traces(body: bytes, reader: Reader) -> Batch:
    """Read a trace request; raises DecodeError where protobuf does."""
    found: list[Any] = []
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _wanted(resource_spans.resource.attributes, reader.wanted)
        resource_dropped = resource_spans.resource.dropped_attributes_count
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                view = SpanView(
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
                    name=span.name,
                    kind=span.kind,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    status_error=span.status.code == _ERROR,
                    trace_state=span.trace_state,
                    attributes=_wanted(span.attributes, reader.wanted),
                    evaluations=_evaluations(span) if reader.flags else (),
                    dropped_attributes=span.dropped_attributes_count,
                    scope=scope_spans.scope.name,
                    scope_version=scope_spans.scope.version,
                    resource=resource,
                    dropped_resource_attributes=resource_dropped,
                )
                found.append(_refusal(span, reader) or reader.read(view))
    return _batch(found, spans=len(found))


def logs(body: bytes, reader: Reader) -> Batch:
    """Read a log request; raises DecodeError where protobuf does."""
    found: list[Any] = []
    for resource_logs in ExportLogsServiceRequest.FromString(body).resource_logs:
        resource = _wanted(resource_logs.resource.attributes, reader.wanted_in_records)
        resource_dropped = resource_logs.resource.dropped_attributes_count
        for scope_logs in resource_logs.scope_logs:
            for record in scope_logs.log_records:
                view = RecordView(
                    event_name=record.event_name,
                    time_ns=record.time_unix_nano or record.observed_time_unix_nano,
                    trace_id=_id(record.trace_id, _TRACE_ID) or "",
                    span_id=_id(record.span_id, _SPAN_ID),
                    attributes=_wanted(record.attributes, reader.wanted_in_records),
                    dropped_attributes=record.dropped_attributes_count,
                    body=plain(record.body) if reader.flags else None,
                    scope=scope_logs.scope.name,
                    resource=resource,
                    dropped_resource_attributes=resource_dropped,
                )
                named = _mentions(record, reader.record_needles)
                found.append(reader.read_record(view) if named else None)
    return _batch(found, records=len(found))


def _batch(found: list[Any], *, spans: int = 0, records: int = 0) -> Batch:
    return Batch(
        facts=[each for each in found if isinstance(each, SpanFact)],
        observations=[
            each for each in found if not isinstance(each, (SpanFact, Refusal, type(None)))
        ],
        ignored=sum(each is None for each in found),
        rejected=sum(isinstance(each, Refusal) for each in found),
        spans=spans,
        records=records,
    )


def _wanted(attributes: Iterable[KeyValue], wanted: frozenset[str]) -> dict[str, Any]:
    return {item.key: plain(item.value) for item in attributes if item.key in wanted}


def _evaluations(span: Span) -> tuple[dict[str, Any], ...]:
    return tuple(
        _wanted(event.attributes, flags.KEYS) for event in span.events if event.name in flags.EVENTS
    )


def _mentions(message: Span | LogRecord, needles: Iterable[bytes]) -> bool:
    body = message.SerializeToString()
    return any(needle in body for needle in needles)


def _refusal(span: Span, reader: Reader) -> Refusal | None:
    if _id(span.trace_id, _TRACE_ID) is None or _id(span.span_id, _SPAN_ID) is None:
        return Refusal("an id names nothing")
    if not _mentions(span, reader.prefixes):
        return None
    if len(span.parent_span_id) not in (0, _SPAN_ID):
        return Refusal("the parent's id has another length")
    late = max(span.start_time_unix_nano, span.end_time_unix_nano) > _LATEST_NS
    return Refusal("a time is beyond what a ledger holds") if late else None


def _id(raw: bytes, size: int) -> str | None:
    return raw.hex() if len(raw) == size and any(raw) else None
