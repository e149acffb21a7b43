"""What one export request comes to, in no protocol's words yet."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from otel_turnavoid.forward.request import Encoding, Signal

__all__ = [
    "MESSAGE_LIMIT",
    "RETRY_AFTER_S",
    "Accepted",
    "Answer",
    "Encoding",
    "Refused",
    "Signal",
    "Trouble",
    "shortened",
]

RETRY_AFTER_S: Final = 1
"""When to come back after a passing trouble. Senders give up after some seconds in all (the
Python SDK after ten), so asking for more would make them drop what they hold."""

MESSAGE_LIMIT: Final = 300
"""Characters of a message. gRPC carries it three times in trailing metadata, for which clients
have room for 8 KiB in all."""


class Trouble(Enum):
    """Why a whole request was refused."""

    BAD_DATA = "bad data"
    """It will never be readable: do not send it again."""
    TOO_LARGE = "too large"
    """Above the limit, as sent or after decompression: do not send it again."""
    UNAUTHENTICATED = "unauthenticated"
    """No known credential came with it."""
    FORBIDDEN = "forbidden"
    """The role of its credential may not do that."""
    UNAVAILABLE = "unavailable"
    """A passing trouble of ours: send it again."""
    INTERNAL = "internal"
    """A bug of ours that this request runs into each time: do not send it again."""


class Accepted(NamedTuple):
    """Everything was committed, but for what was refused singly."""

    rejected: int = 0
    """Spans or log records that were refused."""
    message: str = ""
    """Why; or, where nothing was refused, a warning."""


class Refused(NamedTuple):
    """Nothing was committed."""

    trouble: Trouble
    message: str


Answer = Accepted | Refused


def shortened(message: str) -> str:
    """Return a message in a length that fits any answer."""
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…"
