"""Common to records of one conversation each: their names, and their plain values."""

from __future__ import annotations

from typing import Any, Final

FILE: Final = "conversation.file"
"""Key by which the configuration can look at the name of the file, without its endings."""


def plain(record: dict[str, Any], file: str) -> dict[str, Any]:
    """Return the plain values of a record, for the configuration to look at.

    Beside texts, numbers and booleans those are all values of keys with a dot, which are
    attributes (``turnavoid.arm``), and the name of the file.
    """
    return {FILE: file} | {
        key: value
        for key, value in record.items()
        if isinstance(value, (str, bool, int, float)) or ("." in key and value is not None)
    }


def run_id(record: dict[str, Any], file: str, number: int) -> str:
    """Return the name of a record's run: what the record gives, or else its place in the file.

    That is the run's set (or the file), task and trial, as far as they are there.
    """
    for key in ("turnavoid.run.id", "run_id"):
        given = text(record, key)
        if given is not None:
            return given
    if "task_id" not in record:
        return text(record, "id") or f"{file}/{number}"
    parts = [text(record, "run") or file, *(record[key] for key in _PLACE if key in record)]
    return "/".join(map(str, parts))


_PLACE: Final = ("task_id", "trial")
_LARGEST: Final = 2**63 - 1
_MOST: Final = 1e15


def unit(record: dict[str, Any]) -> str | None:
    """Return the task's name, if it has one."""
    task = record.get("task_id")
    return str(task) if isinstance(task, (str, int)) and str(task) else None


def text(record: Any, key: str) -> str | None:
    """Return a value that is a non-empty text, or None."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) and value else None


def count(record: Any, key: str) -> int | None:
    """Return a value that is a whole number of at least 0 and has 64 bits at most, or None."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def amount(record: Any, key: str) -> float | None:
    """Return a value that is a number of at least 0 that somebody can have measured, or None."""
    value = record.get(key) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= _MOST else None


def dicts(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, and nothing of what is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
