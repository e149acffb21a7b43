"""Log export requests -> observations; other records are counted and left undecoded."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from otel_turnavoid._proto.turnavoid.v1.otlp_view_pb2 import LogRecordView, LogsView
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp.attributes import attribute_reader
from otel_turnavoid.otlp.batch import Batch, Intake


def read_logs(body: bytes, reader: Reader, *, role: str | None = None) -> Batch:
    """Read a serialized ``ExportLogsServiceRequest``.

    Trace and span ids of records are not looked at: an observation is bound to its run by the
    run's id.

    Args:
        body: The request; empty means one without telemetry.
        reader: The dialects, with the operator's configuration.
        role: Role of the credential that the request came with, if authentication is on.

    Raises:
        InputError: The body, or an observation in it, cannot be decoded.
    """
    intake = Intake(role)
    try:
        records = _read(LogsView.FromString(body), reader, intake)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError("logs request", f"not readable as OTLP protobuf: {error}") from error
    return Batch(
        observations=intake.observations,
        records=records,
        ignored=intake.ignored,
        rejected=intake.rejected,
        problem=intake.problem("log records"),
    )


def _read(view: LogsView, reader: Reader, intake: Intake) -> int:
    """Read every record; return how many there were."""
    records = 0
    attributes = attribute_reader(reader.wanted)
    for resource_logs in view.resource_logs:
        resource: dict[str, Any] | None = None
        for scope_logs in resource_logs.scope_logs:
            records += len(scope_logs.log_records)
            for raw in scope_logs.log_records:
                if reader.record_needle not in raw:
                    intake.ignored += 1
                    continue
                if resource is None:
                    resource = attributes.resource(resource_logs.resource)
                record = LogRecordView.FromString(raw)
                intake.take(
                    reader.read_record(
                        record.event_name,
                        attributes.read(record.attributes),
                        resource,
                        record.time_unix_nano or record.observed_time_unix_nano,
                    )
                )
    return records
