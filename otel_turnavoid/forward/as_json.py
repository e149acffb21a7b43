"""Protobuf request -> OTLP/JSON, for backends that read nothing else.

The stock JSON mapping with OTLP's two differences: ids in hex, enumerations as numbers. Unknown
fields are lost on this way.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.errors import InputError
from otel_turnavoid.forward.request import Signal

_REQUESTS: Final[dict[Signal, type[Message]]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}
_PATHS: Final = {
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
}
_IDS: Final = ("traceId", "spanId", "parentSpanId")


def as_json(body: bytes, signal: Signal) -> bytes:
    """Return a request that was decoded before, as OTLP/JSON.

    Raises:
        InputError: JSON cannot hold it.
    """
    try:
        request = _REQUESTS[signal].FromString(body)
        document = json_format.MessageToDict(request, use_integers_for_enums=True)
    except (DecodeError, json_format.Error, RecursionError):
        raise InputError("", "cannot be written as JSON") from None
    resources, scopes, items = _PATHS[signal]
    for resource in document.get(resources, ()):
        for scope in resource.get(scopes, ()):
            for item in scope.get(items, ()):
                _write_ids(item)
                for link in item.get("links", ()):
                    _write_ids(link)
    return msgspec.json.encode(document)


def _write_ids(holder: dict[str, Any]) -> None:
    for key in _IDS:
        if key in holder:
            holder[key] = b64decode(holder[key]).hex()
