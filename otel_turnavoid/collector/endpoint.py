"""``host:port``, and sockets that listen there."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
from typing import Final, NamedTuple

from otel_turnavoid.errors import ConfigurationError

WANTED: Final = "host:port, such as localhost:4317 or 0.0.0.0:4317"

_SPELLED: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", re.ASCII)
_HIGHEST: Final = 65535
_BACKLOG: Final = 1024
_ATTEMPTS: Final = 10
_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class Endpoint(NamedTuple):
    """Where a server listens; port 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: object) -> Endpoint | None:
        """Return the endpoint that ``text`` spells, or None where it spells none."""
        found = _SPELLED.fullmatch(text) if isinstance(text, str) else None
        if found is None or int(found[3]) > _HIGHEST:
            return None
        return cls(found[1] or found[2], int(found[3]))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def listen(endpoint: Endpoint, key: str) -> list[socket.socket]:
    """Return listening sockets, one for each address of the host, all on the same port.

    Args:
        endpoint: Where to listen.
        key: The configuration key that says so, for the error.

    Raises:
        ConfigurationError: The port is taken, the host unknown, or the address not ours.
    """
    attempts = _ATTEMPTS if endpoint.port == 0 else 1
    while True:
        attempts -= 1
        try:
            return _listen(endpoint)
        except OSError as error:
            # A port that is free in one address family may be taken in the other: draw again.
            if not attempts:
                problem = f"cannot listen on {endpoint}: {reason(error)}"
                raise ConfigurationError(key, problem) from None


def reason(error: OSError) -> str:
    """Return the system's words for an error, without numbers and addresses."""
    if isinstance(error, socket.gaierror):
        return "unknown host"
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


def _listen(endpoint: Endpoint) -> list[socket.socket]:
    addresses = socket.getaddrinfo(
        endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    problem: OSError | None = None
    port = endpoint.port
    with contextlib.ExitStack() as opened:
        sockets = []
        # IPv4 first: it is what clients of "localhost" try where only one family works.
        for family, kind, protocol, _, address in sorted(
            set(addresses), key=lambda entry: (entry[0] != socket.AF_INET, entry[4])
        ):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:  # the family is switched off
                problem = error
                continue
            opened.push(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind((address[0], port, *address[2:]))
            except OSError as error:
                if error.errno in _NO_SUCH_ADDRESS and len(addresses) > 1:
                    problem = error
                    continue
                raise
            sock.listen(_BACKLOG)
            sock.setblocking(False)  # noqa: FBT003 - the socket module's own signature
            port = sock.getsockname()[1]
            sockets.append(sock)
        if not sockets:
            raise problem or OSError("the host has no address")
        opened.pop_all()
        return sockets
