"""An ASGI application on sockets of our own, inside a running event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import Any, cast

import uvicorn

from otel_turnavoid.collector.connection import Connection, busy
from otel_turnavoid.collector.connection_limits import ConnectionLimits
from otel_turnavoid.collector.endpoint import Endpoint, listen


class WebServer:
    """Serves from ``start`` to ``stop``."""

    def __init__(  # noqa: PLR0913 - the rest have defaults
        self,
        app: Any,
        endpoint: Endpoint,
        key: str,
        tls: ssl.SSLContext | None = None,
        *,
        limits: ConnectionLimits | None = None,
        busy: Any = busy,
    ) -> None:
        """Prepare.

        Args:
            app: ASGI application.
            endpoint: Where to listen.
            key: Configuration key of the endpoint, for errors.
            tls: Plain text where left out.
            limits: What connections may cost.
            busy: ASGI application that answers where there are too many connections.
        """
        self._limits = limits or ConnectionLimits()
        self._busy = busy
        self._tls = tls
        self._app = app
        self._endpoint = endpoint
        self._key = key
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = 0
        """The real port, once started."""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The endpoint cannot be listened on.
        """
        sockets = listen(self._endpoint, self._key)
        self.port = int(sockets[0].getsockname()[1])
        config = uvicorn.Config(
            self._app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=self._limits.idle_s,  # type: ignore[arg-type]  # a delay, any number
            http=cast(
                "type[asyncio.Protocol]",
                partial(Connection, limits=self._limits, busy=self._busy),
            ),
        )
        config.load()
        config.ssl = self._tls
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets))
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait({ready, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._serving

    async def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those in flight ``grace_s`` seconds."""
        if self._server is None or self._serving is None:
            return
        server, self._server = self._server, None
        server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        server.should_exit = True
        await self._serving


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self.ready.set()
