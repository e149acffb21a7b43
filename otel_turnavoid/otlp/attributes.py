"""Attributes off the wire: serialized ``KeyValue`` -> key and plain Python value, if wanted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_turnavoid._proto.turnavoid.v1.otlp_view_pb2 import ResourceView
from otel_turnavoid.errors import TooLargeError
from otel_turnavoid.otlp.limits import RESOURCE, Limits, bloated
from otel_turnavoid.otlp.wire import SHORT, varint

_log = logging.getLogger(__name__)

_KEY: Final = 0x0A
"""Tag of ``KeyValue.key``: field 1, length-delimited."""
_VALUE: Final = 0x12
"""Tag of ``KeyValue.value``: field 2, length-delimited."""
_STRING: Final = 0x0A
"""Tag of ``AnyValue.string_value``: field 1, length-delimited."""
_REMEMBERED: Final = 8192
_LONG: Final = 128
"""Attributes from this size on (in bytes) are not remembered."""


class ResourceRead(NamedTuple):
    """What is wanted of a resource."""

    attributes: dict[str, Any]
    dropped: int
    """How many attributes its sender left out."""


class AttributeReader:
    """Decodes the wanted ones of serialized attributes.

    The key's bytes are compared before anything is decoded, so that contents (prompts, answers)
    cost next to nothing. The usual form, key then value, is read by hand and every other left
    to protobuf. Short attributes are remembered as a whole: most of them (entries, models, the
    run's id) come again and again. Safe to use from any thread.
    """

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = {key.encode(): key for key in wanted}
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._one)

    def read(self, raws: Iterable[bytes]) -> dict[str, Any]:
        """Return the wanted of serialized ``KeyValue`` messages; the last of a key counts.

        Lists and dicts among the values may be shared with other results: not to be changed.

        Raises:
            DecodeError, UnicodeDecodeError: A message that had to be decoded is broken.
        """
        found: dict[str, Any] = {}
        remembered, one = self._remembered, self._one
        for raw in raws:
            pair = remembered(raw) if len(raw) < _LONG else one(raw)
            if pair is not None:
                found[pair[0]] = pair[1]
        return found

    def resource(self, parts: Iterable[bytes], limits: Limits | None = None) -> ResourceRead:
        """Return what is wanted of a resource, which may come in several parts.

        Raises:
            DecodeError, UnicodeDecodeError: A message that had to be decoded is broken.
            TooLargeError: It has too many.
        """
        whole = b"".join(parts)
        problem = bloated(whole, RESOURCE) if limits is not None else ""
        view = ResourceView.FromString(b"" if problem else whole)
        if limits is not None:
            problem = problem or limits.many(len(view.attributes))
        if problem:
            raise TooLargeError("", f"a resource with {problem}")
        return ResourceRead(self.read(view.attributes), view.dropped_attributes_count)

    def _one(self, raw: bytes) -> tuple[str, Any] | None:
        end = 2 + raw[1] if len(raw) > 1 and raw[0] == _KEY and raw[1] < SHORT else 0
        if not end or end >= len(raw) or raw[end] != _VALUE:
            return self._unusual(raw)
        length, start = varint(raw, end + 1)
        if start + length != len(raw):
            return self._unusual(raw)
        key = self._wanted.get(raw[2:end])
        return None if key is None else (key, _value(raw[start:]))

    def _unusual(self, raw: bytes) -> tuple[str, Any] | None:
        pair = KeyValue.FromString(raw)
        key = self._wanted.get(pair.key.encode())
        return None if key is None else (key, plain(pair.value))


@lru_cache(maxsize=16)
def attribute_reader(wanted: frozenset[str]) -> AttributeReader:
    """Return the reader for a set of keys, the same one for the same keys."""
    return AttributeReader(wanted)


def plain(value: AnyValue) -> Any:
    """Return an attribute value as plain Python; None for an empty one."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {item.key: plain(item.value) for item in value.kvlist_value.values}
    if kind.endswith("_strindex"):
        _warn_of_references()
        return None
    return getattr(value, kind)


@lru_cache(maxsize=1)
def _warn_of_references() -> None:
    """Say once that there are references into a string table: to be taken as absent (OTLP)."""
    _log.warning("attribute values refer to a string table, which only profiles have; left out")


def _value(raw: bytes) -> Any:
    if len(raw) > 1 and raw[0] == _STRING and raw[1] < SHORT and raw[1] + 2 == len(raw):
        return raw[2:].decode()
    return plain(AnyValue.FromString(raw))
