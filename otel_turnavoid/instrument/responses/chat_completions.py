"""OpenAI's Chat Completions API, and those of others who speak it."""

from __future__ import annotations

from typing import Any

from otel_turnavoid.instrument.responses.reading import Reading, items, look, text, tokens


def is_response(thing: Any) -> bool:
    """Whether this is a whole chat completion."""
    return isinstance(look(thing, "choices"), (list, tuple)) and not _is_chunk(thing)


def is_event(thing: Any) -> bool:
    """Whether this is a chunk of a stream, as sent or as the SDK's stream helper wraps it."""
    return _is_chunk(_unwrapped(thing))


def read(response: Any) -> Reading:
    """Read a chat completion."""
    return _reading(response, [text(choice, "finish_reason") for choice in _choices(response)])


class Accumulator:
    """What the chunks so far say."""

    def __init__(self) -> None:
        self._model: str | None = None
        self._id: str | None = None
        self._finished: dict[int, str] = {}
        self._usage: Any = None

    @property
    def complete(self) -> bool:
        """Whether the answer came to its end."""
        return bool(self._finished)

    def add(self, event: Any) -> None:
        """Take in one chunk."""
        chunk = _unwrapped(event)
        self._model = text(chunk, "model") or self._model
        self._id = text(chunk, "id") or self._id
        for choice in _choices(chunk):
            reason = text(choice, "finish_reason")
            if reason is not None:
                self._finished[tokens(choice, "index") or 0] = reason
        usage = look(chunk, "usage")
        self._usage = self._usage if usage is None else usage

    def read(self) -> Reading:
        """Return what is known by now."""
        if not self.complete:
            return Reading(model=self._model, response_id=self._id)
        whole = {"model": self._model, "id": self._id, "usage": self._usage}
        return _reading(whole, [reason for _, reason in sorted(self._finished.items())])


def _reading(response: Any, finish_reasons: list[str | None]) -> Reading:
    usage = look(response, "usage")
    return Reading(
        model=text(response, "model"),
        response_id=text(response, "id"),
        finish_reasons=tuple(reason for reason in finish_reasons if reason is not None),
        input=tokens(usage, "prompt_tokens"),
        output=tokens(usage, "completion_tokens"),
        cache_read=tokens(usage, "prompt_tokens_details", "cached_tokens"),
        cache_write=tokens(usage, "prompt_tokens_details", "cache_write_tokens"),
        reasoning=tokens(usage, "completion_tokens_details", "reasoning_tokens"),
        samplings=1,
    )


def _choices(response: Any) -> list[Any]:
    return items(response, "choices")


def _unwrapped(event: Any) -> Any:
    chunk = look(event, "chunk")
    return event if chunk is None else chunk


def _is_chunk(thing: Any) -> bool:
    if look(thing, "object") == "chat.completion.chunk":
        return True
    return any(look(choice, "delta") is not None for choice in _choices(thing))
