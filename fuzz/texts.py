"""OTLP/JSON against protobuf's own JSON mapping; configuration files."""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from fuzz.finding import Finding, check_refusal, hold
from otel_turnavoid.collector.config import Config, parse
from otel_turnavoid.errors import ConfigurationError, InputError
from otel_turnavoid.otlp import check_json, logs_from_json, traces_from_json

_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})


def traces_json(body: bytes) -> None:
    """Check a trace request in JSON."""
    _check(body, traces_from_json, ExportTraceServiceRequest)


def logs_json(body: bytes) -> None:
    """Check a log request in JSON."""
    _check(body, logs_from_json, ExportLogsServiceRequest)


def _check(body: bytes, convert: Callable[[bytes], bytes], request: Any) -> None:
    try:
        check_json(body)
        found = request.FromString(convert(body))
    except InputError as error:
        check_refusal(error)
        return
    standard = _as_standard(msgspec.json.decode(body), request.DESCRIPTOR)
    try:
        wanted = json_format.ParseDict(standard, request())
    except json_format.ParseError as error:
        raise Finding(f"protobuf's own JSON mapping refuses it: {error}") from error
    same = found.SerializeToString(deterministic=True) == wanted.SerializeToString(
        deterministic=True
    )
    hold(same, "protobuf's own JSON mapping reads something else")


def _as_standard(value: Any, message: Descriptor) -> Any:
    """Return OTLP/JSON in the standard mapping: known keys alone, and ids in base64."""
    fields: dict[str, FieldDescriptor] = {field.json_name: field for field in message.fields}
    written: dict[str, Any] = {}
    for key, item in value.items():
        field = fields.get(key)
        if field is None or item is None:
            continue
        if field.message_type is not None:
            parts = item if isinstance(item, list) else [item]
            each = [_as_standard(part, field.message_type) for part in parts]
            written[key] = each if isinstance(item, list) else each[0]
        elif key in _IDS:
            written[key] = b64encode(binascii.unhexlify(item)).decode()
        else:
            written[key] = item
    return written


def configuration(body: bytes) -> None:
    """Check a configuration file; equal text, equal configuration."""
    text = body.decode(errors="replace")
    found = _parsed(text)
    if found is not None:
        hold(_parsed(text) == found, "read twice, the same text says two things")


def _parsed(text: str) -> Config | None:
    try:
        return parse(text, env={"NAME": "value"})
    except ConfigurationError as error:
        check_refusal(error)
        return None
