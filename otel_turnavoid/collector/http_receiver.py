"""OTLP over HTTP: ``POST`` of protobuf or JSON, answered in the encoding of the request."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2  # type: ignore[import-untyped]  # it has no stubs
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it has no stubs
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from otel_turnavoid.collector.answer import (
    RETRY_AFTER_S,
    Encoding,
    Refused,
    Signal,
    Trouble,
)
from otel_turnavoid.collector.budget import LATE, TOO_MANY_BYTES, Budget
from otel_turnavoid.collector.components import HttpProtocol
from otel_turnavoid.collector.gates import HTTP_STATUSES, http_caller
from otel_turnavoid.collector.intake import OFFLOAD_BYTES, Intake
from otel_turnavoid.collector.rpc_status import export_response, status

_STATUSES: Final = {
    Trouble.BAD_DATA: 400,
    Trouble.TOO_LARGE: 413,
    **HTTP_STATUSES,
    Trouble.UNAVAILABLE: 503,
    Trouble.INTERNAL: 500,
}
_CODES: Final = {
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
    415: code_pb2.INVALID_ARGUMENT,
}
_GZIP: Final = 16 + zlib.MAX_WBITS
_PIECE: Final = 1 << 20
_FEED: Final = 1 << 16
_MEMBERS: Final = 1 << 10
"""Gzip members in a row; more are there only to keep us busy."""
_TRANSPORT: Final = "http"


class Refusal(Exception):  # noqa: N818 - carries an answer, reports no error of ours
    """Ends a request early with an answer."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


def application(
    config: HttpProtocol,
    intake: Intake,
    budget: Budget,
    executor: Executor,
    signals: frozenset[Signal],
) -> Starlette:
    """Return the ASGI application for the signals taken; other paths are 404."""
    paths = {Signal.TRACES: config.traces_url_path, Signal.LOGS: config.logs_url_path}
    receiver = _Receiver(config, intake, budget, executor)
    app = Starlette(
        routes=[
            Route(path, receiver.endpoint(signal), methods=["POST"])
            for signal, path in paths.items()
            if signal in signals
        ],
        exception_handlers={HTTPException: _unknown, Exception: _bug},
    )
    # A redirect is no answer to an export: exporters count it as success and drop their data.
    app.router.redirect_slashes = False
    return app


async def busy(scope: Any, receive: Any, send: Any) -> None:
    """Answer one ASGI request on a connection that is one too many."""
    refused = Refused(Trouble.UNAVAILABLE, "too many connections")
    response = turned_away(refused, Headers(scope=scope))
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def turned_away(refusal: Refused, headers: Mapping[str, str]) -> Response:
    """Return the answer to a request that was refused before anything in it was read."""
    return _refusal(refusal, _encoding(headers) or Encoding.JSON)


def gunzip(body: bytes, limit: int) -> bytes:
    """Return the decompressed body, one gzip member or several.

    No more than ``limit`` bytes are ever made, however far the body would expand.

    Raises:
        Refusal: The body is not whole gzip, or expands beyond the limit.
    """
    pieces: list[bytes] = []
    size = 0
    members = 0
    member = None
    for start in range(0, len(body), _FEED):
        # In slices: what zlib leaves of its input is copied each time.
        rest = body[start : start + _FEED]
        while rest:
            if member is None:
                members += 1
                member = zlib.decompressobj(_GZIP)
                if members > _MEMBERS:
                    raise _bad_data(f"the body has more than {_MEMBERS} gzip members")
            try:
                piece = member.decompress(rest, min(_PIECE, limit - size + 1))
            except zlib.error:
                raise _bad_data("the body is not gzip, as it says") from None
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
            rest = member.unconsumed_tail
            if member.eof:
                rest, member = member.unused_data, None
    if member is not None:
        raise _bad_data("the gzip body is cut off")
    return b"".join(pieces)


class _Receiver:
    """What the requests of one application share."""

    def __init__(
        self, config: HttpProtocol, intake: Intake, budget: Budget, executor: Executor
    ) -> None:
        self._limit = config.max_request_body_size
        self._patience_s = config.read_timeout.seconds
        self._intake = intake
        self._budget = budget
        self._executor = executor

    def endpoint(self, signal: Signal) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers requests of one signal."""

        async def export(request: Request) -> Response:
            encoding = _encoding(request.headers)
            if encoding is None:
                return _unsupported(request.headers.get("content-type"))
            refused = self._budget.refusal()
            if refused is not None:
                return await self._refused_early(refused, request, signal, encoding)
            with self._budget.hold() as more:
                try:
                    body = await self._received(request, more)
                except Refusal as refusal:
                    return await self._refused_early(refusal.refused, request, signal, encoding)
                except ClientDisconnect:
                    return Response(status_code=400)  # nobody reads it
                try:
                    body = await self._decompressed(body, request.headers, more)
                except Refusal as refusal:
                    self._intake.refuse(refusal.refused, signal, _TRANSPORT)
                    return _refusal(refusal.refused, encoding)
                answer = await self._intake.take(
                    body, signal, _TRANSPORT, encoding, http_caller(request)
                )
            if isinstance(answer, Refused):
                return _refusal(answer, encoding)
            return _written(export_response(answer, signal), encoding)

        return export

    async def _refused_early(
        self, refused: Refused, request: Request, signal: Signal, encoding: Encoding
    ) -> Response:
        """Answer a request whose body has not arrived, or not all of it."""
        self._intake.refuse(refused, signal, _TRANSPORT)
        response = _refusal(refused, encoding)
        if not await self._discarded(request):
            response.headers["connection"] = "close"
        return response

    async def _received(self, request: Request, more: Callable[[int], bool]) -> bytes:
        """Return the body as sent; refuse what can be refused before it is whole."""
        if _coding(request.headers) not in ("gzip", "identity"):
            given = _coding(request.headers)[:40]
            problem = f"Content-Encoding {given!r} is not understood; use gzip or identity"
            raise _bad_data(problem)
        announced = request.headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced) > self._limit:
            raise _too_large(self._limit)
        try:
            return await asyncio.wait_for(self._pieces(request, more), self._patience_s)
        except asyncio.TimeoutError:
            raise Refusal(LATE) from None

    async def _pieces(self, request: Request, more: Callable[[int], bool]) -> bytes:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._limit:
                raise _too_large(self._limit)
            if not more(len(piece)):
                raise Refusal(TOO_MANY_BYTES)
        return bytes(body)

    async def _discarded(self, request: Request) -> bool:
        """Let a refused body arrive; return whether it did in time.

        A sender whose connection is closed while it sends sees no answer, and tries again what
        it should have dropped.
        """

        async def discard() -> None:
            async for _ in request.stream():
                pass

        if request.headers.get("expect"):
            return False
        try:
            await asyncio.wait_for(discard(), self._patience_s)
        except (asyncio.TimeoutError, ClientDisconnect):
            return False
        return True

    async def _decompressed(
        self, body: bytes, headers: Mapping[str, str], more: Callable[[int], bool]
    ) -> bytes:
        if _coding(headers) == "identity":
            return body
        if len(body) <= OFFLOAD_BYTES // 16:
            whole = gunzip(body, self._limit)
        else:
            whole = await asyncio.get_running_loop().run_in_executor(
                self._executor, gunzip, body, self._limit
            )
        if not more(len(whole)):
            raise Refusal(TOO_MANY_BYTES)
        return whole


def _coding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower() or "identity"


def _bad_data(problem: str) -> Refusal:
    return Refusal(Refused(Trouble.BAD_DATA, problem))


def _too_large(limit: int) -> Refusal:
    return Refusal(Refused(Trouble.TOO_LARGE, f"the body is larger than {limit} bytes"))


def _encoding(headers: Mapping[str, str]) -> Encoding | None:
    """Return the encoding that the media type names; its parameters do not matter."""
    media_type = headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        return Encoding(media_type)
    except ValueError:
        return None


def _refusal(refused: Refused, encoding: Encoding) -> Response:
    response = _written(status(refused), encoding, _STATUSES[refused.trouble])
    if refused.trouble is Trouble.UNAVAILABLE:
        response.headers["retry-after"] = str(RETRY_AFTER_S)
    return response


def _written(message: Message, encoding: Encoding, status_code: int = 200) -> Response:
    if encoding is Encoding.PROTOBUF:
        content = message.SerializeToString()
    else:
        content = json.dumps(json_format.MessageToDict(message), separators=(",", ":")).encode()
    return Response(content, status_code, {"content-type": encoding.value})


def _unsupported(content_type: str | None) -> Response:
    given = "no Content-Type" if content_type is None else f"Content-Type {content_type[:80]!r}"
    wanted = " or ".join(encoding.value for encoding in Encoding)
    message = f"{given} is not understood; use {wanted}"
    # In no encoding that the sender is known to read; JSON is at least readable by people.
    return _written(Status(code=_CODES[415], message=message), Encoding.JSON, 415)


async def _unknown(request: Request, error: Exception) -> Response:
    """Answer a path or method that is not there."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:  # noqa: PLR2004
        message = f"{request.method[:20]} is not understood here; use POST"
    else:
        message = f"{error.detail}: {request.url.path[:100]}"
    code = _CODES.get(error.status_code, code_pb2.UNKNOWN)
    encoding = _encoding(request.headers) or Encoding.JSON
    response = _written(Status(code=code, message=message), encoding, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _bug(request: Request, error: Exception) -> Response:
    """Answer what nobody foresaw; uvicorn logs it."""
    refused = Refused(Trouble.INTERNAL, f"bug: {type(error).__name__}")
    return _refusal(refused, _encoding(request.headers) or Encoding.JSON)
