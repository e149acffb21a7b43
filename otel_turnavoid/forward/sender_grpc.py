"""OTLP over gRPC: the body goes out as it is, no message is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # no stubs
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # no stubs

from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward.outcome import Delivered, Failed, Outcome, Retry
from otel_turnavoid.forward.partial_success import rejected_items
from otel_turnavoid.forward.request import Encoding, Signal, Stored
from otel_turnavoid.forward.target import RESPONSE_LIMIT, Target

METHODS: Final = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_RETRYABLE: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""Codes that OTLP lets a client retry; RESOURCE_EXHAUSTED too, where RetryInfo comes with it."""

_PORT: Final = 4317
"""Where an endpoint names none; gRPC would take the one of the web."""

_RECONNECT_S: Final = 5.0
"""gRPC's own two minutes between connections would keep a backend waiting that is back."""


class GrpcSender:
    """One channel to one backend."""

    def __init__(self, target: Target) -> None:
        """Prepare, inside a running event loop; connects at the first request.

        Raises:
            ConfigurationError: A certificate cannot be read, or a header not be sent.
        """
        self._timeout_s = target.timeout_s
        self._metadata = tuple(target.checked_headers())
        self._channel = _channel(target)
        self._exports = {
            signal: self._channel.unary_unary(method, None, None)
            for signal, method in METHODS.items()
        }

    async def send(self, request: Stored) -> Outcome:
        """Make one attempt."""
        try:
            answer: bytes = await self._exports[request.signal](
                request.body, timeout=self._timeout_s, metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            return classified(error.code(), error.trailing_metadata() or ())
        return Delivered(rejected_items(answer, request.signal, Encoding.PROTOBUF))

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close(None)


def classified(code: grpc.StatusCode, metadata: Iterable[Any]) -> Retry | Failed:
    """Return what an error means, by OTLP's table."""
    after_s = _retry_delay_s(metadata)
    exhausted = code is grpc.StatusCode.RESOURCE_EXHAUSTED
    if code in _RETRYABLE or (exhausted and after_s is not None):
        return Retry(code.name, after_s)
    return Failed(code.name)


def _retry_delay_s(metadata: Iterable[Any]) -> float | None:
    """Return the delay in RetryInfo, or None without it."""
    for key, value in metadata:
        if key != "grpc-status-details-bin":
            continue
        try:
            status = Status.FromString(value)
            for detail in status.details:
                info = RetryInfo()
                if detail.Unpack(info):
                    delay = info.retry_delay
                    return max(0.0, float(delay.seconds) + float(delay.nanos) / 1e9)
        except DecodeError:
            return None
    return None


def _channel(target: Target) -> grpc.aio.Channel:
    scheme, _, rest = target.endpoint.rpartition("://")
    address = rest.partition("/")[0]
    if urlsplit(f"//{address}").port is None:
        address = f"{address}:{_PORT}"
    plain = scheme == "http" if scheme else target.insecure
    reconnect_ms = int(_RECONNECT_S * 1000)
    options = [
        ("grpc.primary_user_agent", target.user_agent),
        ("grpc.max_receive_message_length", RESPONSE_LIMIT),
        ("grpc.max_send_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", min(1000, reconnect_ms)),
        ("grpc.max_reconnect_backoff_ms", reconnect_ms),
        # A machine that vanished without a word is noticed; a quiet connection is left alone.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 0),
    ]
    compression = grpc.Compression.Gzip if target.gzip else grpc.Compression.NoCompression
    if plain:
        return grpc.aio.insecure_channel(address, options=options, compression=compression)
    authorities, key, certificate = map(target.file_bytes, ("ca_file", "key_file", "cert_file"))
    if (key is None) != (certificate is None):
        raise ConfigurationError("tls", "wants both of cert_file and key_file, or neither")
    credentials = grpc.ssl_channel_credentials(authorities, key, certificate)
    return grpc.aio.secure_channel(address, credentials, options=options, compression=compression)
