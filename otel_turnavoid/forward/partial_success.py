"""How much of a request a backend took, as its answer says."""

from __future__ import annotations

import json
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_turnavoid.forward.request import Encoding, Signal

_JSON_KEYS: Final = {Signal.TRACES: "rejectedSpans", Signal.LOGS: "rejectedLogRecords"}


def rejected_items(body: bytes, signal: Signal, encoding: Encoding) -> int:
    """Return how many spans or log records a success says were refused.

    A body that cannot be read is 0: the backend said that it succeeded.
    """
    if not body:
        return 0
    if encoding is Encoding.JSON:
        return _from_json(body, _JSON_KEYS[signal])
    try:
        if signal is Signal.TRACES:
            traces = ExportTraceServiceResponse.FromString(body)
            return max(0, traces.partial_success.rejected_spans)
        logs = ExportLogsServiceResponse.FromString(body)
        return max(0, logs.partial_success.rejected_log_records)
    except DecodeError:
        return 0


def _from_json(body: bytes, key: str) -> int:
    try:
        answer: Any = json.loads(body)
        return max(0, int(answer["partialSuccess"][key]))  # a number or a decimal string
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
