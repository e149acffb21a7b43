"""Protobuf messages with places to fill in: made once, filled a thousand times a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from otel_turnavoid.errors import UsageError

_MORE: Final = 0x80
_BYTES: Final = 2


class Template:
    """A serialized message, cut at the values that change; new ones must be as long."""

    def __init__(self, message: bytes, places: Mapping[str, bytes]) -> None:
        """Cut a message.

        Args:
            message: As serialized, with a value in each place.
            places: The value that stands in each place now. It may stand there several times.

        Raises:
            UsageError: A value is not in the message.
        """
        pieces: list[bytes | str] = [message]
        for name, value in places.items():
            cut = [part for piece in pieces for part in _cut(piece, name, value)]
            if cut == pieces:
                raise UsageError(f"the message has no place for {name}")
            pieces = cut
        self._pieces = [piece if isinstance(piece, bytes) else b"" for piece in pieces]
        self._places = [
            (index, piece) for index, piece in enumerate(pieces) if isinstance(piece, str)
        ]

    def fill(self, values: Mapping[str, bytes]) -> bytes:
        """Return the message with these values in its places; others are ignored."""
        pieces = self._pieces.copy()
        for index, name in self._places:
            pieces[index] = values[name]
        return b"".join(pieces)


def field(number: int, *parts: bytes) -> bytes:
    """Return a length-delimited field of a message, tag and length before its content."""
    content = b"".join(parts)
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    written = bytearray()
    while value >= _MORE:
        written.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    written.append(value)
    return bytes(written)


def _cut(piece: bytes | str, name: str, value: bytes) -> Sequence[bytes | str]:
    if isinstance(piece, str) or value not in piece:
        return (piece,)
    first, *others = piece.split(value)
    parts: list[bytes | str] = [first]
    for other in others:
        parts += (name, other)
    return parts
