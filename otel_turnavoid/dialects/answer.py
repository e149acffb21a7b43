"""Ids that stand only inside a recorded answer; nothing else of the answer is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from otel_turnavoid.dialects.attributes import from_json

_REPR_ID: Final = re.compile(r"\w+\(id='([^']{1,200})'")
"""A model client's object as Python shows it: ``ChatCompletion(id='chatcmpl-1', …``."""
_TOOL_CALL_ID: Final = re.compile(r'"type": ?"tool_call", ?"id": ?"([^"\\]{1,200})"')
_PLACES: Final = (
    ("llm_output", "id"),
    ("raw", "id"),
    ("generations", 0, 0, "message", "kwargs", "response_metadata", "id"),
)


def response_id(answer: Any) -> str | None:
    """Return the response id inside a recorded answer, or None.

    Args:
        answer: The JSON text of a provider's response (its ``id``), of LangChain's result
            (``llm_output.id``, or the message's ``response_metadata.id``), or of a message with
            the provider's response in ``raw``.
    """
    if not isinstance(answer, str) or answer[:1] != "{":
        return None
    try:
        return _found(from_json(answer))
    except ValueError:
        return None


def tool_call_id(messages: Any) -> str | None:
    """Return the id of the first tool call in ``gen_ai.output.messages``, or None."""
    if not isinstance(messages, str):
        return None
    found = _TOOL_CALL_ID.search(messages)
    return found[1] if found else None


def _found(value: dict[str, Any]) -> str | None:
    own = value.get("id")
    if isinstance(own, str) and own:
        return own
    raw = value.get("raw")
    if isinstance(raw, str):
        shown = _REPR_ID.match(raw)
        return shown[1] if shown else None
    return _at(value, _PLACES)


def _at(value: Any, places: Iterable[tuple[str | int, ...]]) -> str | None:
    """Return the text at the first of the places that has one."""
    for place in places:
        at = value
        for step in place:
            at = _step(at, step)
        if isinstance(at, str) and at:
            return at
    return None


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None
