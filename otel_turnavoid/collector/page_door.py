"""The door between OTLP/HTTP and the pages on one port, and who may come through it.

Whoever only asks (GET, HEAD) for something that is no signal's path gets the pages; everything
else is an export and goes where it always went. Where tokens are asked for, the pages want one
of role ``reader``; browsers, which cannot send a bearer token by themselves, may send it as the
password of HTTP Basic, if nobody else can read that on the way. Where nobody is asked, a page
is given only under names that are ours: a stranger's web site could otherwise let its own name
point here and read along in its visitors' browsers (DNS rebinding).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import Response

from otel_turnavoid.collector.answer import Refused, Trouble
from otel_turnavoid.collector.auth import READERS, Authenticator
from otel_turnavoid.collector.gates import HTTP_STATUSES, HttpGate
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.pages.site import refused_page

_ASKING: Final = frozenset({"GET", "HEAD"})
_AUTHORIZATION: Final = b"authorization"
_BASIC: Final = b"basic "
_REALM: Final = 'realm="turnavoid"'
_CHALLENGE: Final = f'Basic {_REALM}, charset="UTF-8"'
_UNAUTHENTICATED: Final = 401
_FORBIDDEN: Final = 403
_MISDIRECTED: Final = 421

_App = Callable[[Any, Any, Any], Awaitable[None]]


class PageDoor:
    """What leads to the pages of one site."""

    def __init__(self, site: _App, exports: Collection[str], hosts: Collection[str]) -> None:
        """Prepare.

        Args:
            site: The pages, an ASGI application.
            exports: Paths of signals, which are no pages.
            hosts: Names under which pages may be asked for, beside ``localhost`` and addresses.
        """
        self._site = site
        self._exports = frozenset(exports)
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}

    def beside(
        self, exports: _App, authenticator: Authenticator | None, own: Telemetry, *, passwords: bool
    ) -> _App:
        """Return an application that is both.

        Args:
            exports: Takes exports, behind a gate of its own where there is one.
            authenticator: Who knows the credentials; None where nobody is asked.
            own: Counts those who may not come in.
            passwords: Whether nobody else can read what a browser sends.
        """
        if authenticator is None:
            site = self._under_own_names(self._site)
        else:
            answer = _refused_with_passwords if passwords else _refused
            site = HttpGate(self._site, authenticator, READERS, own, answer)
            if passwords:
                site = _with_passwords(site, authenticator.scheme)

        async def both(scope: Any, receive: Any, send: Any) -> None:
            page = (
                scope["type"] == "http"
                and scope["method"] in _ASKING
                and scope["path"] not in self._exports
            )
            await (site if page else exports)(scope, receive, send)

        return both

    def ours(self, host: str) -> bool:
        """Whether a ``Host`` header has a name that no stranger can let point here."""
        name = _without_port(host).lower()
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _under_own_names(self, site: _App) -> _App:
        async def checked(scope: Any, receive: Any, send: Any) -> None:
            host = Headers(scope=scope).get("host", "")
            if self.ours(host):
                await site(scope, receive, send)
                return
            refused = refused_page(
                _MISDIRECTED,
                "Another name",
                f"Pages are not shown under the name {host[:100]!r}. Ask for localhost or an"
                " address, or let extensions.pages.hosts name it.",
            )
            await refused(scope, receive, send)

        return checked


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _refused(refused: Refused, _headers: Mapping[str, str]) -> Response:
    return _turned_away(
        refused,
        "Send it as a bearer token; a browser, which cannot, would send it as a password, and that"
        " is taken over TLS or on this machine only.",
    )


def _refused_with_passwords(refused: Refused, _headers: Mapping[str, str]) -> Response:
    return _turned_away(
        refused, "Send it as a bearer token, or type it as the password under any user name."
    )


def _turned_away(refused: Refused, how: str) -> Response:
    forbidden = refused.trouble is Trouble.FORBIDDEN
    return refused_page(
        HTTP_STATUSES[refused.trouble],
        "Not with this token" if forbidden else "A token is wanted",
        f"These pages want a token of role reader. {how}",
    )


def _with_passwords(site: _App, scheme: str) -> _App:
    """Return a site that takes a token as the password of HTTP Basic too."""

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        given = scope["headers"]
        if all(name != _AUTHORIZATION for name, _ in given):
            # How every browser begins: no attempt that anybody should be told of.
            await _first_asked(scheme)(scope, receive, send)
            return
        headers = [
            (name, _as_token(value, scheme) if name == _AUTHORIZATION else value)
            for name, value in given
        ]

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = _asking_again(message, by_password=headers != list(given))
            await send(message)

        await site({**scope, "headers": headers}, receive, answer)

    return asked


def _first_asked(scheme: str) -> Response:
    wanted = _refused_with_passwords(Refused(Trouble.UNAUTHENTICATED, ""), {})
    for challenge in (_CHALLENGE, f"{scheme} {_REALM}"):
        wanted.headers.append("www-authenticate", challenge)
    return wanted


def _as_token(value: bytes, scheme: str) -> bytes:
    """Return a bearer token for the password of HTTP Basic; anything else as it is."""
    if value[: len(_BASIC)].lower() != _BASIC:
        return value
    try:
        plain = base64.b64decode(value[len(_BASIC) :].strip(), validate=True)
    except binascii.Error:
        return value
    return scheme.encode() + b" " + plain.partition(b":")[2]


def _asking_again(message: Any, *, by_password: bool) -> Any:
    """Let a browser ask for a password, again where the one it keeps is of no use here."""
    status = message["status"]
    if status != _UNAUTHENTICATED and not (by_password and status == _FORBIDDEN):
        return message
    headers = [(b"www-authenticate", _CHALLENGE.encode()), *message["headers"]]
    return {**message, "status": _UNAUTHENTICATED, "headers": headers}
