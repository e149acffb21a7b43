"""Anthropic's Messages API.

It counts cached input apart, so that ``input`` here is a sum of three. A ``pause_turn``
continuation is seen from the request: it ends with the assistant's own unfinished message.
Programmatic tool calling is seen from the blocks: calls with a ``caller`` other than direct were
made by code that the model wrote before.
"""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.instrument.responses.reading import Reading, items, look, text, tokens
from otel_turnavoid.instrument.responses.samplings import Kind, samplings

_EVENTS: Final = frozenset(
    {
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_start",
        "message_stop",
    }
)
_USAGE: Final = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
    "output_tokens_details",
    "iterations",
)


def is_response(thing: Any) -> bool:
    """Whether this is a whole message."""
    return look(thing, "type") == "message" and isinstance(look(thing, "content"), (list, tuple))


def is_event(thing: Any) -> bool:
    """Whether this is an event of a stream."""
    return look(thing, "type") in _EVENTS


def continues(messages: Any) -> bool:
    """Whether a request only lets a paused answer go on (``pause_turn``).

    Its last message is the assistant's, with tools of the provider in it. One without them is
    the beginning of an answer that the client wrote itself; that is sampled anew.
    """
    last = messages[-1] if isinstance(messages, (list, tuple)) and messages else None
    return look(last, "role") == "assistant" and any(
        look(block, "type") in ("server_tool_use", "mcp_tool_use")
        for block in items(last, "content")
    )


def read(response: Any) -> Reading:
    """Read a message."""
    usage = look(response, "usage")
    read_from_cache = tokens(usage, "cache_read_input_tokens")
    written_to_cache = tokens(usage, "cache_creation_input_tokens")
    uncached = tokens(usage, "input_tokens")
    stop = text(response, "stop_reason")
    whole = None
    if uncached is not None:
        whole = uncached + (read_from_cache or 0) + (written_to_cache or 0)
    return Reading(
        model=text(response, "model"),
        response_id=text(response, "id"),
        finish_reasons=() if stop is None else (stop,),
        input=whole,
        output=tokens(usage, "output_tokens"),
        cache_read=read_from_cache,
        cache_write=written_to_cache,
        reasoning=tokens(usage, "output_tokens_details", "thinking_tokens"),
        samplings=_samplings(response),
    )


class Accumulator:
    """What the events so far say; figures that come again are totals, not parts."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"content": []}
        self._usage: dict[str, Any] = {}
        self._stopped = False

    @property
    def complete(self) -> bool:
        """Whether the message came to its end."""
        return self._stopped

    def add(self, event: Any) -> None:
        """Take in one event."""
        said = look(event, "type")
        if said == "message_start":
            message = look(event, "message")
            self._message |= {"id": look(message, "id"), "model": look(message, "model")}
            self._take(look(message, "usage"))
        elif said == "content_block_start":
            self._message["content"].append(look(event, "content_block"))
        elif said == "message_delta":
            self._message["stop_reason"] = look(event, "delta", "stop_reason")
            self._take(look(event, "usage"))
        elif said == "message_stop":
            self._stopped = True

    def read(self) -> Reading:
        """Return what is known by now."""
        if self._stopped:
            return read({**self._message, "usage": self._usage})
        return Reading(model=self._message.get("model"), response_id=self._message.get("id"))

    def _take(self, usage: Any) -> None:
        for name in _USAGE:
            value = look(usage, name)
            if value is not None:
                self._usage[name] = value


def _samplings(response: Any) -> int:
    seen = samplings(map(_kind, items(response, "content")))
    stated = len(items(response, "usage", "iterations"))
    return stated if seen and stated else seen


def _kind(block: Any) -> Kind:
    said = text(block, "type") or ""
    if look(block, "caller", "type") not in (None, "direct"):
        return Kind.CODE
    if said == "compaction":
        return Kind.COMPACTED
    if said.endswith("_tool_result") or said == "container_upload":
        return Kind.RESULT
    return Kind.GENERATED
