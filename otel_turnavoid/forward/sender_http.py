"""OTLP over HTTP: ``POST`` of the body as it is."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import h11

from otel_turnavoid.errors import ConfigurationError, InputError
from otel_turnavoid.forward.as_json import as_json
from otel_turnavoid.forward.http_client import HttpClient, Response
from otel_turnavoid.forward.outcome import Delivered, Failed, Outcome, Retry
from otel_turnavoid.forward.partial_success import rejected_items
from otel_turnavoid.forward.request import Encoding, Signal, Stored
from otel_turnavoid.forward.target import Target

_PATHS: Final = {Signal.TRACES: "v1/traces", Signal.LOGS: "v1/logs"}
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_SUCCESSES: Final = range(200, 300)
_OFFLOAD_BYTES: Final = 16 * 1024
_FAST: Final = 1
"""gzip level: spans repeat themselves so much that more effort buys little."""


class HttpSender:
    """Kept-alive connections to one backend."""

    def __init__(self, target: Target) -> None:
        """Prepare; connects at the first request.

        Raises:
            ConfigurationError: The endpoint, a certificate, key or header cannot be used.
        """
        path = urlsplit(target.endpoint).path.rstrip("/")
        self._targets = {signal: f"{path}/{name}" for signal, name in _PATHS.items()}
        _check(target.endpoint, self._targets[Signal.TRACES])
        self._headers = [("user-agent", target.user_agent), *target.checked_headers()]
        self._timeout_s = target.timeout_s
        self._gzip = target.gzip
        self._json = target.encoding is Encoding.JSON
        self._client = HttpClient(target.endpoint, target.ssl_context())

    async def send(self, request: Stored) -> Outcome:
        """Make one attempt."""
        try:
            return await asyncio.wait_for(self._send(request), self._timeout_s)
        except asyncio.TimeoutError:
            return Retry("timeout")
        except (OSError, h11.RemoteProtocolError) as error:
            return Retry(type(error).__name__)
        except InputError as error:
            return Failed(str(error))

    async def _send(self, request: Stored) -> Outcome:
        encoding, body = await self._written(request)
        headers = [*self._headers, ("content-type", encoding.value)]
        if self._gzip:
            headers.append(("content-encoding", "gzip"))
        response = await self._client.post(self._targets[request.signal], headers, body)
        return classified(response, request.signal, encoding)

    async def _written(self, request: Stored) -> tuple[Encoding, bytes]:
        """Return the encoding and the body as it goes over the wire."""
        convert = self._json and request.encoding is Encoding.PROTOBUF

        def write() -> bytes:
            body = as_json(request.body, request.signal) if convert else request.body
            return gzip.compress(body, _FAST, mtime=0) if self._gzip else body

        encoding = Encoding.JSON if convert else request.encoding
        if len(request.body) <= _OFFLOAD_BYTES:
            return encoding, write()
        return encoding, await asyncio.to_thread(write)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _check(endpoint: str, path: str) -> None:
    """Raise ConfigurationError where an endpoint cannot stand in a request."""
    try:
        h11.Request(method="POST", target=path, headers=[("host", urlsplit(endpoint).netloc)])
    except (h11.LocalProtocolError, UnicodeError):
        raise ConfigurationError("endpoint", "holds characters that a URL cannot have") from None


def classified(response: Response, signal: Signal, encoding: Encoding) -> Outcome:
    """Return what an answer means, by OTLP's table."""
    if response.status in _SUCCESSES:
        return Delivered(rejected_items(response.body, signal, encoding))
    reason = f"HTTP {response.status}"
    if response.status in _RETRYABLE:
        return Retry(reason, retry_after_s(response.headers.get("retry-after"), time.time))
    return Failed(reason)


def retry_after_s(header: str | None, now_s: Callable[[], float]) -> float | None:
    """Return the seconds that ``Retry-After`` asks for (seconds or a date); None without it."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now_s())
    except (TypeError, ValueError, OverflowError):
        return None
