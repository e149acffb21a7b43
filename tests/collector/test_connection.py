"""Connections whose other side is slow, one by one; as senders see them in ``tests/protocol``."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from otel_turnavoid.collector.connection_limits import ConnectionLimits
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.web_server import WebServer

LARGE = bytes(64 << 20)


async def large(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer with more than any buffer on the way holds."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": LARGE})


async def served(limits: ConnectionLimits, talk: Any) -> Any:
    """Return what ``talk`` returns, given the address of a server with the limits."""
    server = WebServer(large, Endpoint("127.0.0.1", 0), "key", limits=limits)
    await server.start()
    try:
        return await asyncio.wait_for(
            asyncio.to_thread(talk, ("127.0.0.1", server.port)), timeout=20
        )
    finally:
        await server.stop(0)


def read_late(address: tuple[str, int]) -> int:
    """Ask, read nothing until the other side gave up, and return how much there is to read."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        # An error of the socket is what the other side's giving up looks like.
        try:
            while True:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        except OSError:
            pass
        read = 0
        try:
            while piece := connection.recv(1 << 20):
                read += len(piece)
        except OSError:
            return read
        return read


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    limits = ConnectionLimits(write_s=0.2)

    assert asyncio.run(served(limits, read_late)) < len(LARGE)


def test_an_answer_that_is_read_slowly_is_whole() -> None:
    """The deadline is for each time that nothing moves, not for the answer as a whole."""

    def read(address: tuple[str, int]) -> int:
        read = 0
        with socket.create_connection(address, timeout=60) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while piece := connection.recv(1 << 16):
                read += len(piece)
        return read

    assert asyncio.run(served(ConnectionLimits(write_s=5.0), read)) > len(LARGE)


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
def test_a_connection_that_asks_nothing_is_closed(sent: bytes) -> None:
    def wait(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address, timeout=60) as connection:
            connection.sendall(sent)
            return connection.recv(100)

    assert asyncio.run(served(ConnectionLimits(headers_s=0.2), wait)) == b""
