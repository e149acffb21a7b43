"""Files that a command writes."""

from __future__ import annotations

from pathlib import Path

from otel_turnavoid.errors import InputError


def write_file(path: Path, body: bytes) -> None:
    """Write a whole file.

    Raises:
        InputError: The path cannot be written; says why in one line.
    """
    try:
        path.write_bytes(body)
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}") from error
