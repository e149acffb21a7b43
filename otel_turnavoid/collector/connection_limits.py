"""What HTTP connections may cost; apart from them, so that a configuration needs no web server."""

from __future__ import annotations

import msgspec


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What connections to one endpoint may cost."""

    most: int = 1024
    """Connections; to requests on more of them the answer is to come back."""
    headers_s: float = 60.0
    """How long a request's headers may take to arrive, and a new connection to send any."""
    write_s: float = 30.0
    """How long the other side may take to make room for more of an answer."""
    idle_s: float = 60.0
    """How long a connection may wait for another request."""
