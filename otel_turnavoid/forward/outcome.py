"""What one attempt to send a request came to, and who makes attempts."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from otel_turnavoid.forward.request import Stored


class Delivered(NamedTuple):
    """The backend has it."""

    rejected: int = 0
    """Spans or log records that it refused singly; OTLP forbids to send those again."""


class Retry(NamedTuple):
    """Nobody has it yet: a passing trouble."""

    reason: str
    """A status or a kind of error; never the backend's own words, which may quote content."""
    after_s: float | None = None
    """When the backend asked to come back, in seconds from now."""


class Failed(NamedTuple):
    """The backend will never take it."""

    reason: str


Outcome = Delivered | Retry | Failed


class Sender(Protocol):
    """Speaks OTLP to one backend."""

    async def send(self, request: Stored) -> Outcome:
        """Make one attempt, within the sender's timeout. Raises nothing but cancellation."""

    async def close(self) -> None:
        """Close connections; safe twice."""
