"""Opening what is to be read: a file or standard input, gzipped or not, and how much was read."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT: Final = "-"
_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 1 << 16

Watch = Callable[[int], object]
"""Is told how many more bytes of a file were read, as they lie there: before unzipping."""


@contextmanager
def opened(path: str | Path, watch: Watch | None = None) -> Iterator[BufferedReader]:
    """Open a file, or standard input for ``-``, and unzip it where it is gzipped.

    Raises OSError, also while it is read; EOFError and ``zlib.error`` for what is badly zipped.
    """
    if str(path) == STANDARD_INPUT:
        yield _unzipped(_watched(sys.stdin.buffer, watch))
        return
    with Path(path).open("rb") as stream:
        yield _unzipped(_watched(stream, watch))


def _watched(stream: Any, watch: Watch | None) -> BufferedReader:
    if watch is None:
        return cast("BufferedReader", stream)
    return BufferedReader(_Watched(stream, watch), _CHUNK)


def _unzipped(stream: BufferedReader) -> BufferedReader:
    if stream.peek(2)[:2] == _GZIP:
        return BufferedReader(cast("Any", gzip.GzipFile(fileobj=stream)))
    return stream


class _Watched(RawIOBase):
    """A stream that says how much of it was read."""

    def __init__(self, stream: BufferedIOBase, watch: Watch) -> None:
        self._stream = stream
        self._watch = watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self._stream.readinto1(buffer)
        self._watch(count)
        return count
