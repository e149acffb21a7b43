"""Decisions taken from bytes, so that a fuzzer, hypothesis and seeded chance steer alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Choices:
    """Numbers read off bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        """Whether anything is left to decide by."""
        return self._at < len(self._data)

    def number(self, below: int) -> int:
        """Return a number from 0 on and below ``below``."""
        size = max((below - 1).bit_length() + 7, 8) // 8
        piece = self.piece(size)
        return int.from_bytes(piece, "little") % max(below, 1)

    def one(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[self.number(len(options))]

    def piece(self, size: int) -> bytes:
        """Return the next bytes, as many as are left."""
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece
