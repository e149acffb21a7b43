"""A model behind a real HTTP API, answering from a script: for tests of SDKs and frameworks.

Speaks OpenAI's Chat Completions and Responses and Anthropic's Messages API, whole and
streamed, on a free port of this machine. What it counts is the ground truth: requests, answers
and tool calls, whatever spans say about them::

    with ModelServer([Reply(tool_calls=[ToolCall("look_up")]), "Done."]) as server:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        ...
        assert server.answers == 2
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from otel_turnavoid.testing import model_wire as wire
from otel_turnavoid.testing.model import Reply

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_OK: Final = 200
_EXHAUSTED: Final = 400  # a client does not retry it
_POLL_S: Final = 0.01


@dataclass(frozen=True)
class Failure:
    """A request that is answered with an HTTP error; SDKs retry 429 and 5xx by themselves."""

    status: int = 500
    message: str = "scripted failure"


@dataclass(frozen=True)
class Cut:
    """A streamed answer whose connection breaks after some events."""

    reply: Reply
    events: int = 2


@dataclass(frozen=True)
class Request:
    """One request as the server saw it."""

    path: str
    body: Mapping[str, Any]
    status: int
    tool_calls: int = 0
    """Tools of the client that the answer asks for."""
    cut: bool = False
    """Whether the connection broke within the answer."""


@dataclass
class _Exchange:
    path: str
    asked: Mapping[str, Any]
    status: int = _OK
    answer: wire.Json = field(default_factory=dict)
    events: int | None = None


class ModelServer:
    """Answers each request with the next item of its script.

    Args:
        script: In order: replies, texts (a reply with that text), bodies of the API that is
            asked (sent as they are), ``Failure`` and ``Cut``.
        model: The model that answers; default: the one that was asked.

    Attributes:
        requests: Every request so far, the failed ones too.
    """

    def __init__(
        self,
        script: Iterable[Reply | str | Mapping[str, Any] | Failure | Cut],
        *,
        model: str | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._script = iter(script)
        self._model = model
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.exchange = self._exchange
        self._thread = Thread(target=self._server.serve_forever, args=(_POLL_S,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def anthropic_url(self) -> str:
        """``base_url`` for Anthropic's SDK."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """``base_url`` for OpenAI's SDK."""
        return f"{self.anthropic_url}/v1"

    @property
    def answers(self) -> int:
        """Requests that were answered with a whole generation."""
        return sum(request.status == _OK and not request.cut for request in self.requests)

    @property
    def tool_calls(self) -> int:
        """Tool calls that the answers asked for."""
        return sum(request.tool_calls for request in self.requests)

    def _exchange(self, path: str, asked: Mapping[str, Any]) -> _Exchange:
        """Take the next item of the script for a request, and note it."""
        with self._lock:
            number = len(self.requests) + 1
            exchange = _Exchange(path, asked)
            item = next(self._script, Failure(_EXHAUSTED, f"the script has no answer {number}"))
            if path not in _APIS:
                item = Failure(404, f"no such path: {path}")
            if isinstance(item, Cut):
                exchange.events = item.events
                item = item.reply
            if isinstance(item, Failure):
                exchange.status = item.status
                error = {"type": "scripted", "message": item.message}
                exchange.answer = {"type": "error", "error": error}
            elif isinstance(item, Mapping):
                exchange.answer = dict(item)
            else:
                reply = Reply(text=item) if isinstance(item, str) else item
                model = self._model or str(asked.get("model"))
                exchange.answer = _APIS[path](reply, number, model)
            asks = wire.tool_calls_of(exchange.answer) if exchange.status == _OK else 0
            cut = exchange.events is not None
            self.requests.append(Request(path, asked, exchange.status, 0 if cut else asks, cut))
        return exchange


_APIS: Final = {
    "/v1/chat/completions": wire.chat_completion,
    "/v1/responses": wire.openai_response,
    "/v1/messages": wire.anthropic_message,
}


def _events(exchange: _Exchange) -> Iterator[bytes]:
    """Yield the server-sent events of an answer, encoded."""
    if exchange.path == "/v1/chat/completions":
        options = exchange.asked.get("stream_options") or {}
        for chunk in wire.chat_chunks(exchange.answer, usage=bool(options.get("include_usage"))):
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"
        return
    responses = exchange.path == "/v1/responses"
    events = wire.response_events if responses else wire.message_events
    for event in events(exchange.answer):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


class _Server(ThreadingHTTPServer):
    """The listening socket; ``exchange`` says what a request is answered with."""

    daemon_threads = True
    exchange: Callable[[str, Mapping[str, Any]], _Exchange]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        exchange = self.server.exchange(self.path.partition("?")[0], json.loads(body))
        self.close_connection = True
        if exchange.status == _OK and exchange.asked.get("stream"):
            self._stream(exchange)
        else:
            self._whole(exchange)

    def _whole(self, exchange: _Exchange) -> None:
        payload = json.dumps(exchange.answer).encode()
        self._head(exchange.status, "application/json", "content-length", str(len(payload)))
        self.wfile.write(payload)

    def _stream(self, exchange: _Exchange) -> None:
        self._head(_OK, "text/event-stream", "transfer-encoding", "chunked")
        try:
            for number, event in enumerate(_events(exchange)):
                if number == exchange.events:
                    return  # without the last chunk: the client sees a broken connection
                self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            return  # the client had enough

    def _head(self, status: int, content_type: str, length: str, value: str) -> None:
        self.send_response(status)
        for name, said in (
            ("content-type", content_type),
            ("connection", "close"),
            ("retry-after-ms", "1"),
            (length, value),
        ):
            self.send_header(name, said)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing on standard error."""
