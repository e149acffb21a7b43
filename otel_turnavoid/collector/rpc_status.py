"""Answers as protobuf: export responses, and ``google.rpc.Status`` for what was refused."""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2  # type: ignore[import-untyped]  # it has no stubs
from google.rpc.error_details_pb2 import BadRequest, RetryInfo  # type: ignore[import-untyped]  # it has no stubs
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it has no stubs
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from otel_turnavoid.collector.answer import (
    RETRY_AFTER_S,
    Accepted,
    Refused,
    Signal,
    Trouble,
)

ExportResponse = ExportTraceServiceResponse | ExportLogsServiceResponse

CODES: Final = {
    Trouble.BAD_DATA: code_pb2.INVALID_ARGUMENT,
    # Not to be retried: RESOURCE_EXHAUSTED is a passing trouble only where RetryInfo says so.
    Trouble.TOO_LARGE: code_pb2.RESOURCE_EXHAUSTED,
    Trouble.UNAUTHENTICATED: code_pb2.UNAUTHENTICATED,
    Trouble.FORBIDDEN: code_pb2.PERMISSION_DENIED,
    Trouble.UNAVAILABLE: code_pb2.UNAVAILABLE,
    Trouble.INTERNAL: code_pb2.INTERNAL,
}


def export_response(accepted: Accepted, signal: Signal) -> ExportResponse:
    """Return the response of an export; ``partial_success`` is unset on full success."""
    if signal is Signal.TRACES:
        traces = ExportTraceServiceResponse()
        if accepted.rejected or accepted.message:
            traces.partial_success.CopyFrom(
                ExportTracePartialSuccess(
                    rejected_spans=accepted.rejected, error_message=accepted.message
                )
            )
        return traces
    logs = ExportLogsServiceResponse()
    if accepted.rejected or accepted.message:
        logs.partial_success.CopyFrom(
            ExportLogsPartialSuccess(
                rejected_log_records=accepted.rejected, error_message=accepted.message
            )
        )
    return logs


def retry_info() -> RetryInfo:
    """Return when to come back."""
    return RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S))


def status(refused: Refused) -> Status:
    """Return a refusal with the details that fit its kind."""
    found = Status(code=CODES[refused.trouble], message=refused.message)
    if refused.trouble is Trouble.UNAVAILABLE:
        found.details.add().Pack(retry_info())
    elif refused.trouble is Trouble.BAD_DATA:
        violation = BadRequest.FieldViolation(field="body", description=refused.message)
        found.details.add().Pack(BadRequest(field_violations=[violation]))
    return found
