"""Forwarding: requests unchanged to any OTLP backend, from bounded queues on disk.

``Forwarder`` is the room's front. It stands on queues (``queue``, ``queue_file``), one for each
exporter (``exporter``), whose sender (``sender_grpc``, ``sender_http``) speaks to the backend.
Senders are imported by whoever makes them: gRPC and HTTP clients are heavy.
"""

from __future__ import annotations

from otel_turnavoid.forward.backoff import RetryPolicy
from otel_turnavoid.forward.exporter import Delivery, Exporter, Fate
from otel_turnavoid.forward.forwarder import Forwarder
from otel_turnavoid.forward.queue import Queue, QueueFullError
from otel_turnavoid.forward.queue_file import QueueError, QueueFile
from otel_turnavoid.forward.request import Encoding, Request, Signal
from otel_turnavoid.forward.target import Target

__all__ = [
    "Delivery",
    "Encoding",
    "Exporter",
    "Fate",
    "Forwarder",
    "Queue",
    "QueueError",
    "QueueFile",
    "QueueFullError",
    "Request",
    "RetryPolicy",
    "Signal",
    "Target",
]
