"""An ASGI application on sockets of our own, inside a running event loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn

from otel_turnavoid.collector.endpoint import Endpoint, listen

KEEP_ALIVE_S = 60


class WebServer:
    """Serves from ``start`` to ``stop``."""

    def __init__(self, app: Any, endpoint: Endpoint, key: str) -> None:
        """Prepare.

        Args:
            app: ASGI application.
            endpoint: Where to listen.
            key: Configuration key of the endpoint, for errors.
        """
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
            timeout_keep_alive=KEEP_ALIVE_S,
        )
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
