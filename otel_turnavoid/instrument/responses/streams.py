"""Streams: passed through as they are, and read on the way.

A call whose stream broke has failed. One whose answer had begun when the agent left it has not:
the model was sampled and the agent may have what it wanted, so breaking off saves no turn. (If the
same input is sent again, it is another attempt at the same turn.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from opentelemetry import context as context_api

from otel_turnavoid.instrument.current import current_call
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.responses.reading import Reading
from otel_turnavoid.instrument.responses.recording import APIS, WANTED, record
from otel_turnavoid.instrument.scope import innermost
from otel_turnavoid.vocabulary import Attr, Disposition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from otel_turnavoid.instrument.handles import CallHandle

S = TypeVar("S")

_DRAINING: Final = frozenset(
    {
        "get_final_completion",
        "get_final_message",
        "get_final_response",
        "get_final_text",
        "until_done",
    }
)
"""Methods of the SDKs' stream helpers that read the rest of the stream by themselves."""


_TOO_LATE: Final = (
    "a stream was read after its llm_call had ended, which is recorded as given up: let the call"
    " last as long as its stream, or begin it with llm_call(…).begin()"
)


class Accumulator(Protocol):
    """Gathers the events of one stream; each API has its own."""

    @property
    def complete(self) -> bool:
        """Whether the answer came to its end."""

    def add(self, event: Any) -> None:
        """Take in one event."""

    def read(self) -> Reading:
        """Return what is known by now."""


def record_stream(stream: S, call: CallHandle | None = None, *, messages: Any = None) -> S:
    """Return the stream, read on the way; what it says is set on an LlmCall when it ends.

    Use the result as the stream itself: iterate it, enter it, close it, ask it for its final
    message. A call that is current here, as in ``with llm_call(…)``, is ended by what made it
    current; any other, begun with ``llm_call(…).begin()``, ends with the stream. A stream that
    breaks, or is given up before its answer begins, makes the call a failed one.

    Args:
        stream: What an SDK returned for a streamed request of one of the APIs of
            ``record_response``: synchronous or not, a stream or the manager of one; or any
            iterable of its events as dicts.
        call: Default: the innermost open LlmCall.
        messages: As in ``record_response``.

    Raises:
        UsageError: In development mode: now for something that is no stream, and when the
            first event comes for a stream of another API.
    """
    asynchronous = hasattr(stream, "__aiter__") or hasattr(stream, "__aenter__")
    if not asynchronous and not hasattr(stream, "__iter__") and not hasattr(stream, "__enter__"):
        misused(Misuse.VALUE, f"record_stream: want a stream, got {type(stream).__name__}")
    recorder = _Recorder(current_call() if call is None else call, messages)
    recorded = (AsyncRecordedStream if asynchronous else RecordedStream)(stream, recorder)
    return cast("S", recorded)  # to its user it is the stream


class _Recorder:
    """What a stream has said so far, and the one end of its call."""

    def __init__(self, call: CallHandle, messages: Any) -> None:
        self._call = call
        self._messages = messages
        self._ends_call = innermost(context_api.get_current()) is not call
        self._answer: Accumulator | None = None
        self._finished = self._strange = False
        said = call._late.get(Attr.CALL_DISPOSITION)  # noqa: SLF001 - one room
        self._disposition = said or Disposition.COMMITTED.value
        call.record(Attr.CALL_DISPOSITION, Disposition.FAILED.value)

    def add(self, event: Any) -> None:
        """Read one event."""
        if self._answer is None:
            api = next((api for api in APIS if api.is_event(event)), None)
            if api is None:
                self._unknown(event)
                return
            self._answer = api.Accumulator()
        self._answer.add(event)

    def exhausted(self) -> None:
        """Note that the stream ended by itself."""
        self._finish(None, whole=True)

    def broke(self, error: BaseException) -> None:
        """Note that the stream raised; a cancellation is the agent's own leaving."""
        self._finish(error, whole=False, left=not isinstance(error, Exception))

    def left(self, error: BaseException | None = None) -> None:
        """Note that the agent left the stream; nothing, where its answer was whole."""
        self._finish(error or GeneratorExit(), whole=False, left=True)

    def _finish(self, error: BaseException | None, *, whole: bool, left: bool = False) -> None:
        if self._finished:
            return
        self._finished = True
        answer, call = self._answer, self._call
        whole = whole or (answer is not None and answer.complete)
        if call._ended:  # noqa: SLF001 - one room
            if whole:
                misused(Misuse.ENDED, _TOO_LATE)
            return
        if whole:
            error = None
        if whole or (left and answer is not None):
            call.record(Attr.CALL_DISPOSITION, self._disposition)
        if answer is not None:
            record(answer.read(), call, self._messages if error is None else None)
        if self._ends_call:
            call.end(error)

    def _unknown(self, event: Any) -> None:
        """Report a stream of another API, once; events before the answer's first are normal."""
        if event is None or self._strange or getattr(event, "type", None) == "ping":
            return
        if isinstance(event, dict) and event.get("type") == "ping":
            return
        self._strange = True
        misused(
            Misuse.VALUE,
            f"record_stream: want the events of {WANTED}, got {type(event).__name__}",
        )


class _Proxy:
    """Everything that a stream of an SDK has beside its events."""

    def __init__(self, stream: Any, recorder: _Recorder) -> None:
        self._stream = stream
        self._recorder = recorder
        self._events: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __del__(self) -> None:
        recorder: _Recorder | None = self.__dict__.get("_recorder")
        if recorder is not None:
            recorder.left()


class RecordedStream(_Proxy):
    """A synchronous stream, read on the way."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._events is None:
            self._events = iter(self._stream)
        try:
            event = next(self._events)
        except StopIteration:
            self._recorder.exhausted()
            raise
        except BaseException as error:
            self._recorder.broke(error)
            raise
        self._recorder.add(event)
        return event

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in _DRAINING:
            return found

        def drained(*args: Any, **kwargs: Any) -> Any:
            for _event in self:
                pass
            return found(*args, **kwargs)

        return drained

    @property
    def text_stream(self) -> Iterator[str]:
        """The text alone, as Anthropic's stream helper offers it."""
        return (text for event in self if (text := _text(event)))

    def close(self) -> None:
        """Close the stream; before its end, that gives the call up."""
        self._recorder.left()
        if hasattr(self._stream, "close"):
            self._stream.close()

    def __enter__(self) -> Self:
        if hasattr(self._stream, "__enter__"):
            self._manager = self._stream
            self._stream = self._manager.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder.left(error)
        manager = self.__dict__.get("_manager")
        if manager is not None:
            manager.__exit__(kind, error, traceback)


class AsyncRecordedStream(_Proxy):
    """An asynchronous stream, read on the way."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._events is None:
            self._events = aiter(self._stream)
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            self._recorder.exhausted()
            raise
        except BaseException as error:
            self._recorder.broke(error)
            raise
        self._recorder.add(event)
        return event

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in _DRAINING:
            return found

        async def drained(*args: Any, **kwargs: Any) -> Any:
            async for _event in self:
                pass
            return await found(*args, **kwargs)

        return drained

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text alone, as Anthropic's stream helper offers it."""
        return (text async for event in self if (text := _text(event)))

    async def close(self) -> None:
        """Close the stream; before its end, that gives the call up."""
        self._recorder.left()
        if hasattr(self._stream, "close"):
            await self._stream.close()

    async def aclose(self) -> None:
        """Close the stream; generators spell it so."""
        self._recorder.left()
        if hasattr(self._stream, "aclose"):
            await self._stream.aclose()
        elif hasattr(self._stream, "close"):
            await self._stream.close()

    async def __aenter__(self) -> Self:
        if hasattr(self._stream, "__aenter__"):
            self._manager = self._stream
            self._stream = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder.left(error)
        manager = self.__dict__.get("_manager")
        if manager is not None:
            await manager.__aexit__(kind, error, traceback)


def _text(event: Any) -> str | None:
    delta = getattr(event, "delta", None)
    found = getattr(delta, "text", None)
    return found if getattr(event, "type", None) == "content_block_delta" else None
