"""``POST`` over kept-alive HTTP/1.1 connections to one server.

h11 speaks the protocol; this moves its bytes. A general client would do, but costs the event
loop several times as much for each request, and forwarding makes one for every request taken.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

from otel_turnavoid.forward.target import RESPONSE_LIMIT

_PIECE: Final = 1 << 16
_PORTS: Final = {"http": 80, "https": 443}

Headers = Sequence[tuple[str, str]]


class Response(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    """Empty where it was longer than ``RESPONSE_LIMIT``."""


class HttpClient:
    """Connections to one server; as many as there are requests at once."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        """Prepare, without a connection yet.

        Args:
            url: ``http`` or ``https``, host, and perhaps port and path.
            tls: How to speak TLS, for ``https``.
        """
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._tls = tls if parts.scheme == "https" else None
        self._authority = parts.netloc.rpartition("@")[2]
        self._idle: list[_Connection] = []

    async def post(self, target: str, headers: Headers, body: bytes) -> Response:
        """Send a request and return the answer.

        Args:
            target: Path and query.
            headers: All but ``Host`` and ``Content-Length``.
            body: As it goes over the wire.

        Raises:
            OSError: There is no connection, or it broke.
            h11.RemoteProtocolError: The other side does not speak HTTP, or broke off.
        """
        request = h11.Request(
            method="POST",
            target=target,
            headers=[("host", self._authority), ("content-length", str(len(body))), *headers],
        )
        while True:
            kept = self._idle.pop() if self._idle else None
            if kept is not None and kept.ended:
                kept.close()
                continue
            connection = kept or await _Connection.opened(self._host, self._port, self._tls)
            try:
                response = await connection.exchange(request, body)
            except (OSError, h11.RemoteProtocolError):
                connection.close()
                if kept is None:
                    raise
                continue  # it was kept too long; a new one tells what is really wrong
            except BaseException:
                connection.close()
                raise
            if connection.ready():
                self._idle.append(connection)
            else:
                connection.close()
            return response

    async def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # transports end with the next round of the event loop


class _Connection:
    """One connection, for one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def opened(cls, host: str, port: int, tls: ssl.SSLContext | None) -> _Connection:
        return cls(*await asyncio.open_connection(host, port, ssl=tls))

    @property
    def ended(self) -> bool:
        """Whether the other side closed it."""
        return self._reader.at_eof()

    async def exchange(self, request: h11.Request, body: bytes) -> Response:
        parts = [self._http.send(request)]
        if body:
            parts.append(self._http.send(h11.Data(body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        # Not waiting until all of it is gone: a server may refuse what it has not read yet.
        self._writer.write(b"".join(part for part in parts if part))
        status, headers, answer = 0, {}, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_PIECE))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
            elif isinstance(event, h11.Data):
                answer += event.data
                if len(answer) > RESPONSE_LIMIT:
                    return Response(status, headers, b"")
            elif isinstance(event, h11.EndOfMessage):
                return Response(status, headers, bytes(answer))
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the connection ended without an answer")

    def ready(self) -> bool:
        """Make ready for another request; return whether it can be."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        self._writer.transport.abort()
