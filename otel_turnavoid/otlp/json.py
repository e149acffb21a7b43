"""OTLP/JSON -> the same request as protobuf, driven by the schema (OTLP specification 1.11).

OTLP/JSON is the proto3 JSON mapping with differences that a stock decoder gets wrong without a
word: ids are hex, keys are lowerCamelCase only, enumerations are numbers only. So this walks the
descriptors itself. Unknown keys are ignored and ``null`` is absent. Anything else that does not
fit is an ``InputError`` whose ``place`` is the path of the field, such as
``resourceSpans[0].scopeSpans[0].spans[2].traceId``.
"""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64decode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.dialects.attributes import described
from otel_turnavoid.errors import InputError

if TYPE_CHECKING:
    from google.protobuf.message import Message

_HEX_FIELDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN: Final = 60
_DEPTH: Final = 100
"""Messages within messages that protobuf decoders accept."""

_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def traces_from_json(body: bytes) -> bytes:
    """Return an ``ExportTraceServiceRequest`` in OTLP/JSON as protobuf.

    Raises:
        InputError: The body is not JSON, or a field in it does not fit the schema.
    """
    return traces_request(decode(body))


def logs_from_json(body: bytes) -> bytes:
    """Return an ``ExportLogsServiceRequest`` in OTLP/JSON as protobuf.

    Raises:
        InputError: The body is not JSON, or a field in it does not fit the schema.
    """
    return logs_request(decode(body))


def decode(body: bytes) -> Any:
    """Decode strict JSON.

    Raises:
        InputError: It is none.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("", f"not readable as JSON: {error}") from error


def traces_request(value: Any) -> bytes:
    """Return decoded OTLP/JSON traces as protobuf; raises as ``traces_from_json``."""
    return _request(ExportTraceServiceRequest(), value)


def logs_request(value: Any) -> bytes:
    """Return decoded OTLP/JSON logs as protobuf; raises as ``logs_from_json``."""
    return _request(ExportLogsServiceRequest(), value)


def _request(message: Message, value: Any) -> bytes:
    _fill(message, value, "", _DEPTH)
    return message.SerializeToString()


@lru_cache(maxsize=128)
def _fields(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    return {field.json_name: field for field in descriptor.fields}


def _fill(message: Message, value: Any, path: str, depth: int) -> None:
    if depth == 0:
        raise InputError(path, f"nested deeper than {_DEPTH} messages")
    if not isinstance(value, dict):
        raise _misfit(path, "an object", value)
    fields = _fields(message.DESCRIPTOR)
    for key, item in value.items():
        field = fields.get(key)
        if field is None or item is None:
            continue
        here = f"{path}.{key}" if path else key
        union = field.containing_oneof
        if union is not None and message.WhichOneof(union.name) is not None:
            raise InputError(here, f"a second value beside {message.WhichOneof(union.name)}")
        if field.is_repeated:
            _extend(getattr(message, field.name), field, item, here, depth)
        elif field.message_type is not None:
            part = getattr(message, field.name)
            part.SetInParent()
            _fill(part, item, here, depth - 1)
        else:
            setattr(message, field.name, _scalar(field, item, here))


def _extend(container: Any, field: FieldDescriptor, value: Any, path: str, depth: int) -> None:
    if not isinstance(value, list):
        raise _misfit(path, "an array", value)
    for index, item in enumerate(value):
        here = f"{path}[{index}]"
        if field.message_type is not None:
            _fill(container.add(), item, here, depth - 1)
        else:
            container.append(_scalar(field, item, here))


def _scalar(field: FieldDescriptor, value: Any, path: str) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return _bytes(field, value, path)
        if isinstance(value, str):
            return value
        raise _misfit(path, "a string", value)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        if isinstance(value, bool):
            return value
        raise _misfit(path, "true or false", value)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        if type(value) is int:
            return _within(value, FieldDescriptor.CPPTYPE_INT32, path)
        raise _misfit(path, "the number of an enumeration value", value)
    if kind in _RANGES:
        return _integer(value, kind, path)
    return _double(value, path)


def _bytes(field: FieldDescriptor, value: Any, path: str) -> bytes:
    if field.name in _HEX_FIELDS:
        try:
            # unhexlify alone: bytes.fromhex would skip spaces.
            return binascii.unhexlify(value)
        except (TypeError, ValueError) as error:
            raise _misfit(path, "hex digits", value) from error
    try:
        text = value.replace("-", "+").replace("_", "/").rstrip("=")
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, ValueError) as error:
        raise _misfit(path, "base64", value) from error


def _integer(value: Any, kind: int, path: str) -> int:
    if type(value) is int:
        return _within(value, kind, path)
    if isinstance(value, float) and value.is_integer():
        return _within(int(value), kind, path)
    if isinstance(value, str) and len(value) <= _SHOWN and _INTEGER.fullmatch(value):
        return _within(int(value), kind, path)
    raise _misfit(path, "an integer, as a number or a decimal string", value)


def _within(value: int, kind: int, path: str) -> int:
    low, high = _RANGES[kind]
    if low <= value <= high:
        return value
    raise _misfit(path, f"an integer from {low} to {high}", value)


def _double(value: Any, path: str) -> float:
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError as error:
            raise _misfit(path, "a number in the range of a double", value) from error
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        if _NUMBER.fullmatch(value):
            return float(value)
    raise _misfit(path, "a number", value)


def _misfit(path: str, wanted: str, value: Any) -> InputError:
    return InputError(path, f"want {wanted}, got {described(value)}")
