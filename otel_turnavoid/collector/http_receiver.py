"""OTLP over HTTP: ``POST`` of protobuf or JSON, answered in the encoding of the request."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2  # type: ignore[import-untyped]  # it has no stubs
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it has no stubs
from starlette.applications import Starlette
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
from otel_turnavoid.collector.components import HttpProtocol
from otel_turnavoid.collector.intake import OFFLOAD_BYTES, Budget, Intake
from otel_turnavoid.collector.rpc_status import export_response, status

_STATUSES: Final = {
    Trouble.BAD_DATA: 400,
    Trouble.TOO_LARGE: 413,
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
_TRANSPORT: Final = "http"


class Refusal(Exception):  # noqa: N818 - carries an answer, reports no error of ours
    """Ends a request early with an answer."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.refused = Refused(trouble, message)


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


def gunzip(body: bytes, limit: int) -> bytes:
    """Return the decompressed body, one gzip member or several.

    No more than ``limit`` bytes are ever made, however far the body would expand.

    Raises:
        Refusal: The body is not whole gzip, or expands beyond the limit.
    """
    pieces: list[bytes] = []
    size = 0
    while body:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            try:
                piece = member.decompress(body, min(_PIECE, limit - size + 1))
            except zlib.error:
                raise Refusal(Trouble.BAD_DATA, "the body is not gzip, as it says") from None
            body = member.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            if not piece and not body and not member.eof:
                raise Refusal(Trouble.BAD_DATA, "the gzip body is cut off")
            pieces.append(piece)
        body = member.unused_data
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
            with self._budget.hold() as more:
                try:
                    body = await self._received(request, more)
                except Refusal as refusal:
                    self._intake.refuse(refusal.refused, signal, _TRANSPORT)
                    response = _refusal(refusal.refused, encoding)
                    if not await self._discarded(request):
                        response.headers["connection"] = "close"
                    return response
                except ClientDisconnect:
                    return Response(status_code=400)  # nobody reads it
                try:
                    body = await self._decompressed(body, request.headers)
                except Refusal as refusal:
                    self._intake.refuse(refusal.refused, signal, _TRANSPORT)
                    return _refusal(refusal.refused, encoding)
                answer = await self._intake.take(body, signal, _TRANSPORT, encoding)
            if isinstance(answer, Refused):
                return _refusal(answer, encoding)
            return _written(export_response(answer, signal), encoding)

        return export

    async def _received(self, request: Request, more: Callable[[int], bool]) -> bytes:
        """Return the body as sent; refuse what can be refused before it is whole."""
        if _coding(request.headers) not in ("gzip", "identity"):
            given = _coding(request.headers)[:40]
            problem = f"Content-Encoding {given!r} is not understood; use gzip or identity"
            raise Refusal(Trouble.BAD_DATA, problem)
        announced = request.headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced) > self._limit:
            raise _too_large(self._limit)
        try:
            return await asyncio.wait_for(self._pieces(request, more), self._patience_s)
        except asyncio.TimeoutError:
            raise Refusal(Trouble.UNAVAILABLE, "the body did not arrive in time") from None

    async def _pieces(self, request: Request, more: Callable[[int], bool]) -> bytes:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._limit:
                raise _too_large(self._limit)
            if not more(len(piece)):
                raise Refusal(Trouble.UNAVAILABLE, "too many bytes of requests in hand")
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

    async def _decompressed(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        if _coding(headers) == "identity":
            return body
        if len(body) <= OFFLOAD_BYTES // 16:
            return gunzip(body, self._limit)
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, gunzip, body, self._limit
        )


def _coding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower() or "identity"


def _too_large(limit: int) -> Refusal:
    return Refusal(Trouble.TOO_LARGE, f"the body is larger than {limit} bytes")


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
