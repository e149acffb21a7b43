"""The little of the protobuf wire format that is read by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

SHORT: Final = 0x80
"""Varints below this take a single byte."""

_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_LONGEST: Final = 10
"""Bytes of a varint; reading on would take time that grows with the square of what follows."""


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Read the varint at ``at``: its value (-1 where it does not end), and where it ends."""
    value = shift = 0
    for index in range(at, min(at + _LONGEST, len(message))):
        byte = message[index]
        value |= (byte & 0x7F) << shift
        if byte < SHORT:
            return value, index + 1
        shift += 7
    return -1, len(message)


def fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Yield field number and wire type of each field, as far as the message is well-formed."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        yield number, kind
        if kind == VARINT:
            _, at = varint(message, at)
        elif kind == BYTES:
            length, at = varint(message, at)
            if length < 0:
                return
            at += length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return
