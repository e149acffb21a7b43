"""What one look at the outside world showed, and what changed between two looks."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from otel_turnavoid.errors import InputError

VERSION: Final = 1

_PRIVATE: Final = 0o600


class Thing(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing in the outside world: a row, a file, a value."""

    label: str
    """The effect if it is there now and was not before, such as ``order:42=cancelled``."""
    gone: str = ""
    """The effect if no thing with this text is there any more, such as ``order:42=deleted``;
    empty where its going is no effect of its own."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one look showed, in any order; what is there twice counts twice."""

    source: str
    """What was looked for, so that only answers to one question are compared."""
    things: tuple[Thing, ...]
    version: int = VERSION


def labels(before: Snapshot | None, after: Snapshot) -> Counter[str]:
    """Return the effects between two looks: what is new, then what is gone, as a multiset.

    Without a look before, everything that is there now is an effect.

    >>> before = Snapshot(source="shop", things=(Thing("order:42=open", "order:42=deleted"),))
    >>> after = Snapshot(source="shop", things=(Thing("order:42=sent", "order:42=deleted"),))
    >>> dict(labels(before, after))
    {'order:42=sent': 1}

    Raises:
        InputError: The two looks were for different things.
    """
    if before is None:
        return Counter(thing.label for thing in after.things)
    if before.source != after.source:
        raise InputError(
            "", f"the snapshot is of {before.source}, and this look is for {after.source}"
        )
    effects = Counter(thing.label for thing in after.things)
    effects -= Counter(thing.label for thing in before.things)
    gone = Counter(thing.gone for thing in before.things if thing.gone)
    gone -= Counter(thing.gone for thing in after.things if thing.gone)
    return effects + gone


def save(snapshot: Snapshot, path: Path) -> None:
    """Write a snapshot to a file that only its owner can read.

    Raises:
        InputError: The file cannot be written.
    """
    body = msgspec.json.format(msgspec.json.encode(snapshot), indent=1)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(body + b"\n")
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}") from error


def load(path: Path) -> Snapshot:
    """Read a snapshot that ``save`` wrote.

    Raises:
        InputError: There is no such file, or it holds something else.
    """
    try:
        body = path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error
    try:
        snapshot = msgspec.json.decode(body, type=Snapshot)
    except msgspec.MsgspecError as error:
        raise InputError(str(path), f"is not a snapshot: {error}") from error
    if snapshot.version != VERSION:
        raise InputError(str(path), f"is a snapshot of version {snapshot.version}, not {VERSION}")
    return snapshot
