"""One export request on its way to a backend."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from otel_turnavoid.vocabulary import Word


class Signal(Word):
    """What an export carries."""

    TRACES = "traces"
    LOGS = "logs"


class Encoding(Enum):
    """How a body is written; the value is the media type."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


class Request(NamedTuple):
    """A request as it arrived, whole, with what is not about agents or was refused."""

    signal: Signal
    body: bytes
    """``Export…ServiceRequest`` in protobuf: as received, or made from the JSON received."""
    items: int
    """Spans or log records."""
    json: bytes | None = None
    """The body as received, where that is JSON."""

    def written(self, encoding: Encoding) -> tuple[Encoding, bytes]:
        """Return the body for a backend that takes ``encoding``, and how it is written.

        What arrived as protobuf stays protobuf here: the way to JSON loses unknown fields, so
        it is taken as late as possible, at sending.
        """
        if encoding is Encoding.JSON and self.json is not None:
            return Encoding.JSON, self.json
        return Encoding.PROTOBUF, self.body


class Stored(NamedTuple):
    """A request in the queue of one exporter."""

    id: int
    signal: Signal
    encoding: Encoding
    items: int
    body: bytes
