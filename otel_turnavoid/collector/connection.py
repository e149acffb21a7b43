"""HTTP connections that cost no more than configured, however slow the other side is.

uvicorn waits for ever for the first request of a connection, for the rest of a request's headers,
and for a client that does not read its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from otel_turnavoid.collector.answer import RETRY_AFTER_S
from otel_turnavoid.collector.connection_limits import ConnectionLimits

_CUT_OFF_AT: Final = 2
"""Connections above this many times the limit are closed at once, with no answer."""


async def busy(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer one ASGI request: come back later, in no protocol's words."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"retry-after", str(RETRY_AFTER_S).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b"too many connections\n"})


class Connection(H11Protocol):
    """uvicorn's connection, with the deadlines that it lacks."""

    def __init__(self, *given: Any, limits: ConnectionLimits, busy: Any, **named: Any) -> None:
        """Prepare; what uvicorn gives is passed on.

        Args:
            given: See uvicorn.
            limits: What it may cost.
            busy: ASGI application that answers where there are too many connections.
            named: See uvicorn.
        """
        super().__init__(*given, **named)
        self._limits = limits
        self._busy = busy
        self._headers_due: asyncio.TimerHandle | None = None
        self._write_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Take a connection, or close it where there are far too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.most * _CUT_OFF_AT:
            transport.abort()
            return
        if len(self.connections) > self._limits.most:
            self.app = self._busy
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the deadline of headers goes on until they are whole."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._expect_headers()
        else:
            self._headers_due = _stopped(self._headers_due)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._headers_due = _stopped(self._headers_due)
        self._write_due = _stopped(self._write_due)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Go on, or end; for which TLS has to read what the other side says last."""
        super().on_response_complete()
        self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Wait for the other side to read, but not for ever."""
        super().pause_writing()
        if self._write_due is None:
            self._write_due = self._later(self._limits.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it has read."""
        self._write_due = _stopped(self._write_due)
        super().resume_writing()

    def _expect_headers(self) -> None:
        if self._headers_due is None:
            self._headers_due = self._later(self._limits.headers_s, self._give_up)

    def _give_up(self) -> None:
        self.transport.close()

    def _later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_s, call)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
