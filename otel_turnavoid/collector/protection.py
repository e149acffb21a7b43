"""What stands before the endpoints of a processor: TLS and gates, kept fresh while it runs."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Protocol

from otel_turnavoid.collector.auth import READERS, SENDERS, Authenticator
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.gates import GrpcGate, HttpGate
from otel_turnavoid.collector.grpc_receiver import abort
from otel_turnavoid.collector.grpc_server import GrpcGuard, roles_of
from otel_turnavoid.collector.http_receiver import turned_away
from otel_turnavoid.collector.kept import Kept
from otel_turnavoid.collector.page_door import PageDoor
from otel_turnavoid.collector.securing import Auth, BearerTokenAuth, ServerTls
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.tls import Material, grpc_credentials, server_tls, web_context

_logger = logging.getLogger(__name__)


class Guarded(Protocol):
    """The section of an endpoint."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""

    @property
    def tls(self) -> ServerTls | None:
        """None speaks in plain text."""

    @property
    def auth(self) -> Auth | None:
        """None asks nobody who they are."""


class WebGuard(NamedTuple):
    """What a web server is given."""

    app: Any
    """The application, behind its gate."""
    tls: ssl.SSLContext | None
    scheme: str
    """``https`` or ``http``."""


class Protection:
    """Makes guards for endpoints; their files are read again until the stack of parts ends."""

    def __init__(
        self,
        authenticators: Mapping[str, BearerTokenAuth],
        own: Telemetry,
        parts: AsyncExitStack,
    ) -> None:
        """Prepare.

        Args:
            authenticators: Extensions by id.
            own: Counts who is refused.
            parts: Ends the reading.
        """
        self._sections = authenticators
        self._authenticators: dict[str, Authenticator] = {}
        self._own = own
        self._parts = parts

    async def sending(
        self, app: Any, section: Guarded, key: str, pages: PageDoor | None = None
    ) -> WebGuard:
        """Return the guard of an OTLP/HTTP receiver, with pages beside it where there are any."""
        authenticator = await self._authenticator(section)
        if authenticator is not None:
            app = HttpGate(app, authenticator, SENDERS, self._own, turned_away)
        if pages is not None:
            # Finding a host's addresses may ask a name server.
            near = await asyncio.to_thread(local, section.endpoint.host)
            secret = near or section.tls is not None
            app = pages.beside(app, authenticator, self._own, passwords=secret)
        return await self._web(app, section, key)

    async def reading(self, app: Any, section: Guarded, key: str) -> WebGuard:
        """Return the guard of an endpoint with accounts to read."""
        authenticator = await self._authenticator(section)
        if authenticator is not None:
            app = HttpGate(app, authenticator, READERS, self._own)
        return await self._web(app, section, key)

    async def calls(self, section: Guarded, key: str) -> GrpcGuard:
        """Return the guard of the gRPC server."""
        authenticator = await self._authenticator(section)
        tls = await self._tls(section, key)
        await _warn_if_open(section, key)
        return GrpcGuard(
            tls and grpc_credentials(tls),
            authenticator and GrpcGate(authenticator, roles_of, self._own, abort),
        )

    async def _web(self, app: Any, section: Guarded, key: str) -> WebGuard:
        tls = await self._tls(section, key)
        await _warn_if_open(section, key)
        if tls is None:
            return WebGuard(app, None, "http")
        return WebGuard(app, web_context(tls), "https")

    async def _tls(self, section: Guarded, key: str) -> Kept[Material] | None:
        if section.tls is None:
            return None
        kept = server_tls(section.tls, f"{key}.tls")
        await self._parts.enter_async_context(kept.fresh(section.tls.reload_interval.seconds))
        return kept

    async def _authenticator(self, section: Guarded) -> Authenticator | None:
        """Return the authenticator of a section; endpoints may share one."""
        if section.auth is None:
            return None
        name = section.auth.authenticator
        if name not in self._authenticators:
            made = Authenticator(self._sections[name], f"extensions.{name}")
            await self._parts.enter_async_context(made.tokens.fresh(made.refresh_s))
            self._authenticators[name] = made
        return self._authenticators[name]


async def _warn_if_open(section: Guarded, key: str) -> None:
    # Finding a host's addresses may ask a name server.
    warning = await asyncio.to_thread(exposure, section)
    if warning is not None:
        _logger.warning("%s.endpoint: %s", key, warning)


def exposure(section: Guarded) -> str | None:
    """Return what to warn of, where an endpoint is open to other machines; else None."""
    if local(section.endpoint.host):
        return None
    mutual = section.tls is not None and section.tls.client_ca_file is not None
    lacks = []
    if section.tls is None:
        lacks.append("without TLS: what is sent, tokens too, can be read on the way")
    if section.auth is None and not mutual:
        lacks.append("without auth: whoever reaches it is let in")
    return f"listens on {section.endpoint} {', and '.join(lacks)}" if lacks else None


def local(host: str) -> bool:
    """Whether only this machine can reach a host's addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # listening there will say what is wrong
    # An IPv6 address may carry a zone.
    addresses = [str(address[0]).split("%")[0] for *_, address in found]
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
