"""Before a request is read: does it come with a credential that may do this?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NoReturn

import grpc
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.answer import Refused, Trouble
from otel_turnavoid.collector.auth import Authenticator, Credential
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.vocabulary import Role

HTTP_STATUSES: Final = {Trouble.UNAUTHENTICATED: 401, Trouble.FORBIDDEN: 403}
"""Statuses of the troubles that a gate knows."""

PATIENCE_S: Final = 5.0
"""How long the body of a request that was refused may go on arriving, unread. A sender that is
cut off while it sends sees no answer, and sends again."""

_REALM: Final = 'realm="turnavoid"'
_SCOPE_KEY: Final = "turnavoid.credential"
_AUTHORIZATION: Final = "authorization"
_CHALLENGE: Final = "www-authenticate"

_App = Callable[[Any, Any, Any], Awaitable[None]]
_Answer = Callable[[Refused, Mapping[str, str]], Response]
_Abort = Callable[[Any, Refused, tuple[tuple[str, str], ...]], Awaitable[NoReturn]]

_caller: ContextVar[Credential | None] = ContextVar("turnavoid_caller", default=None)


class HttpGate:
    """An ASGI application in front of another."""

    def __init__(
        self,
        app: _App,
        authenticator: Authenticator,
        roles: frozenset[Role],
        own: Telemetry,
        answer: _Answer | None = None,
    ) -> None:
        """Prepare.

        Args:
            app: What is behind the gate.
            authenticator: Who knows the credentials.
            roles: Who may pass.
            own: Counts those who may not.
            answer: Writes a refusal, given the request's headers; plain text where left out.
        """
        self._app = app
        self._authenticator = authenticator
        self._roles = roles
        self._own = own
        self._answer = answer or _plain

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = [value for name, value in scope["headers"] if name == _AUTHORIZATION.encode()]
        found = self._authenticator.admit(sent, self._roles)
        if isinstance(found, Credential):
            scope[_SCOPE_KEY] = found
            await self._app(scope, receive, send)
            return
        _count(self._own, found, "http")
        headers = Headers(scope=scope)
        response = self._answer(found, headers)
        response.headers[_CHALLENGE] = _challenge(found, self._authenticator.scheme, sent)
        response.headers["connection"] = "close"
        await _answered(response, Request(scope, receive), send)


def http_caller(request: Request) -> Credential | None:
    """Return who sent a request; None where no gate stands before the application."""
    caller: Credential | None = request.scope.get(_SCOPE_KEY)
    return caller


class GrpcGate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in stubs only
    """Asks for a credential before a call's message is read."""

    def __init__(
        self,
        authenticator: Authenticator,
        roles: Callable[[str], frozenset[Role] | None],
        own: Telemetry,
        abort: _Abort,
    ) -> None:
        """Prepare.

        Args:
            authenticator: Who knows the credentials.
            roles: Who may call a service, by its full name; None where nobody is asked.
            own: Counts those who may not.
            abort: Ends a call with a refusal and metadata.
        """
        self._authenticator = authenticator
        self._roles = roles
        self._own = own
        self._abort = abort

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the handler of a call, or one that refuses it."""
        service = handler_call_details.method.split("/")[1]
        roles = self._roles(service)
        if roles is None:
            return await continuation(handler_call_details)
        sent = _authorizations(handler_call_details.invocation_metadata)
        found = self._authenticator.admit(sent, roles)
        if isinstance(found, Credential):
            # Interceptors and the handler of a call run in one task.
            _caller.set(found)
            return await continuation(handler_call_details)
        _count(self._own, found, "grpc")
        challenge = ((_CHALLENGE, _challenge(found, self._authenticator.scheme, sent)),)

        async def refuse(_messages: Any, context: Any) -> None:
            await self._abort(context, found, challenge)

        # Of a call with one message grpc would read it first; of a stream it reads nothing.
        return grpc.stream_stream_rpc_method_handler(refuse)


def grpc_caller() -> Credential | None:
    """Return who made the call that is being answered; None without a gate."""
    return _caller.get()


def _authorizations(metadata: Iterable[tuple[str, str | bytes]]) -> list[bytes]:
    return [
        value.encode("latin-1", "replace") if isinstance(value, str) else value
        for name, value in metadata
        if name == _AUTHORIZATION
    ]


def _challenge(refused: Refused, scheme: str, sent: list[bytes]) -> str:
    """Return what RFC 6750 (section 3) has a refusal say; without a credential, no error."""
    if refused.trouble is Trouble.FORBIDDEN:
        return f'{scheme} {_REALM}, error="insufficient_scope"'
    return f'{scheme} {_REALM}, error="invalid_token"' if sent else f"{scheme} {_REALM}"


def _count(own: Telemetry, refused: Refused, transport: str) -> None:
    reason = "unauthenticated" if refused.trouble is Trouble.UNAUTHENTICATED else "forbidden"
    own.count(telemetry.REFUSED_CREDENTIALS, 1, transport, reason)


def _plain(refused: Refused, _headers: Mapping[str, str]) -> Response:
    return PlainTextResponse(f"{refused.message}\n", HTTP_STATUSES[refused.trouble])


async def _answered(response: Response, request: Request, send: Any) -> None:
    """Send a whole answer at once; then let the body arrive for a while, unread."""
    head = {"status": response.status_code, "headers": response.raw_headers}
    await send({"type": "http.response.start", **head})
    await send({"type": "http.response.body", "body": bytes(response.body), "more_body": True})

    async def discard() -> None:
        async for _ in request.stream():
            pass

    # Whoever asks with Expect whether to send sends nothing after this answer.
    if not request.headers.get("expect"):
        with contextlib.suppress(asyncio.TimeoutError, ClientDisconnect):
            await asyncio.wait_for(discard(), PATIENCE_S)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
