"""OpenAI's Responses API.

One response can hold several samplings: after each round of tools that the provider runs, the
model goes on. Programmatic tool calling is seen from the items: calls with a ``program`` as
their caller were made by code that the model wrote before, so a response with nothing else
sampled nothing.
"""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.instrument.responses.reading import Reading, items, look, text, tokens
from otel_turnavoid.instrument.responses.samplings import Kind, samplings

_ON_THE_SERVER: Final = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "tool_search_call",
        "web_search_call",
    }
)
"""Items that are the model's call and the provider's result in one."""
_RESULTS: Final = frozenset(
    {"additional_tools", "mcp_approval_response", "mcp_list_tools", "program_output"}
)
_LAST_EVENTS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_NO_ANSWER: Final = frozenset({"failed", "cancelled"})


def is_response(thing: Any) -> bool:
    """Whether this is a whole response."""
    if look(thing, "object") == "response":
        return True
    return isinstance(look(thing, "output"), (list, tuple)) and text(thing, "status") is not None


def is_event(thing: Any) -> bool:
    """Whether this is an event of a stream."""
    return (text(thing, "type") or "").startswith("response.")


def read(response: Any) -> Reading:
    """Read a response."""
    status = text(response, "status")
    usage = look(response, "usage")
    error = None
    if status in _NO_ANSWER:
        error = text(response, "error", "code") or status
    finished = text(response, "incomplete_details", "reason") or status
    kinds = [_kind(item) for item in items(response, "output")]
    return Reading(
        model=text(response, "model"),
        response_id=text(response, "id"),
        finish_reasons=() if finished is None else (finished,),
        input=tokens(usage, "input_tokens"),
        output=tokens(usage, "output_tokens"),
        cache_read=tokens(usage, "input_tokens_details", "cached_tokens"),
        cache_write=tokens(usage, "input_tokens_details", "cache_write_tokens"),
        reasoning=tokens(usage, "output_tokens_details", "reasoning_tokens"),
        samplings=None if error is not None else samplings(kinds),
        error=error,
    )


class Accumulator:
    """What the events so far say: each of those about the whole carries all of it."""

    def __init__(self) -> None:
        self._response: Any = None
        self._last = ""

    @property
    def complete(self) -> bool:
        """Whether the response came to its end, a good one or a bad one."""
        return self._last in _LAST_EVENTS

    def add(self, event: Any) -> None:
        """Take in one event."""
        response = look(event, "response")
        if response is not None:
            self._response = response
            self._last = text(event, "type") or ""

    def read(self) -> Reading:
        """Return what is known by now."""
        if self.complete:
            return read(self._response)
        return Reading(model=text(self._response, "model"), response_id=text(self._response, "id"))


def _kind(item: Any) -> Kind:
    said = text(item, "type") or ""
    if look(item, "caller", "type") == "program":
        return Kind.CODE
    if said == "compaction":
        return Kind.COMPACTED
    if said in _ON_THE_SERVER:
        return Kind.EXECUTED
    if said in _RESULTS or said.endswith("_output"):
        return Kind.RESULT
    return Kind.GENERATED
