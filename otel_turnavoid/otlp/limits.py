"""How much one request may hold, found out on its bytes, before anything of it is decoded.

A request of some megabytes can hold millions of spans, attributes or values within values, each
of which takes many times its size on the wire once it is decoded. So they are counted first, and
no further than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from otel_turnavoid.errors import TooLargeError
from otel_turnavoid.otlp.wire import BYTES, FIXED32, FIXED64, SHORT, VARINT, varint

PARTS: Final = 1 << 18
"""Fields, those of values within values included, that a span, record or resource may have."""

VALUES: Final = 1 << 21
"""Values that a JSON body may have. Decoded, each takes up to some 200 bytes."""

Shape = Mapping[int, "Shape"]
"""Numbers of the fields to look into, and the shape of what is in them."""

_PARTS_PER_ITEM: Final = 8
"""Where each item has a resource and a scope of its own: these, and their schema URLs."""

_TEXTS_PER_VALUE: Final = 3
_GROUP: Final = 3
_END_OF_GROUP: Final = 4
_SIZES: Final = {FIXED64: 8, FIXED32: 4, _GROUP: 0, _END_OF_GROUP: 0}
"""Bytes after the tag; what is in a group is counted as if it stood beside it."""

_any_value: dict[int, Shape] = {}
_key_value: Final[Shape] = {2: _any_value}
_any_value.update({5: {1: _any_value}, 6: {1: _key_value}})

_REQUEST: Final[Shape] = {1: {2: {}}}
"""Both kinds of requests: resources, scopes, and items that are not looked into."""
RESOURCE: Final[Shape] = {1: _key_value}
"""``Resource``."""
SPAN: Final[Shape] = {9: _key_value, 11: {3: _key_value}}
"""``Span``: its attributes, and those of its events."""
LOG_RECORD: Final[Shape] = {5: _any_value, 6: _key_value}
"""``LogRecord``: its body and its attributes."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may hold."""

    items: int = 100_000
    """Spans or log records."""
    attributes: int = 1_000
    """Attributes of one span, log record or resource."""

    def check_request(self, body: bytes) -> None:
        """Raise TooLargeError for a request that has more parts than its items account for."""
        if exceeds(body, _REQUEST, self.items * _PARTS_PER_ITEM):
            raise self._too_many_items()

    def check_items(self, count: int) -> None:
        """Raise TooLargeError for more items than a request may have."""
        if count > self.items:
            raise self._too_many_items()

    def many(self, attributes: int) -> str:
        """Return what is wrong with so many attributes, or nothing."""
        return f"more than {self.attributes} attributes" if attributes > self.attributes else ""

    def _too_many_items(self) -> TooLargeError:
        return TooLargeError("request", f"more than {self.items} spans or log records")


def bloated(message: bytes, shape: Shape) -> str:
    """Return what is wrong with a message that has too many values, or nothing."""
    if exceeds(message, shape, PARTS):
        return f"more than {PARTS} values"
    # Dialects decode JSON that stands in texts. What is no JSON has far fewer of these signs.
    if len(message) > VALUES and _punctuation(message, 0, len(message)) > VALUES:
        return f"more than {VALUES} JSON values"
    return ""


def exceeds(message: bytes, shape: Shape, limit: int) -> bool:
    """Return whether a message has more than ``limit`` fields, with those inside of ``shape``.

    What is no protobuf is left to those who decode it.
    """
    # No field takes less than two bytes.
    if len(message) // 2 <= limit:
        return False
    around: list[tuple[int, Shape]] = []
    count = at = 0
    end = len(message)
    while count <= limit:
        if at < end:
            count += 1
            tag, start, at = _field(message, at)
            if at > end:
                return False
            inner = shape.get(tag >> 3) if tag & 7 == BYTES else None
            if inner is not None:
                around.append((end, shape))
                at, end, shape = start, at, inner
        elif around:
            end, shape = around.pop()
        else:
            return False
    return True


def _field(message: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag at ``at``, and where what it announces starts and ends.

    The end lies behind the message where the field is broken.
    """
    tag = message[at]
    start = at + 1
    if tag >= SHORT:
        tag, start = varint(message, at)
    kind = tag & 7
    if kind == BYTES:
        length, start = varint(message, start)
        return tag, start, start + length if length >= 0 else len(message) + 1
    if kind == VARINT:
        value, end = varint(message, start)
        return tag, start, end if value >= 0 else len(message) + 1
    return tag, start, start + _SIZES.get(kind, len(message) + 1)


def check_json(body: bytes) -> None:
    """Raise TooLargeError for JSON with more than ``VALUES`` values."""
    if _punctuation(body, 0, len(body)) <= VALUES:
        return
    # Some of it may stand in texts: count what stands between them.
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    count = at = 0
    # An object's member is two texts at one comma; what has more texts than that is no JSON.
    for _ in range(_TEXTS_PER_VALUE * VALUES):
        quote = body.find(b'"', at)
        count += _punctuation(body, at, len(body) if quote < 0 else quote)
        at = body.find(b'"', quote + 1) + 1
        if quote < 0 or at == 0 or count > VALUES:
            break
    else:
        count = VALUES + 1
    if count > VALUES:
        raise TooLargeError("", f"more than {VALUES} JSON values in one request")


def _punctuation(text: bytes, start: int, end: int) -> int:
    return sum(text.count(sign, start, end) for sign in (b",", b"{", b"["))
