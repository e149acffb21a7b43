"""Whole responses: told apart by shape, read, and set on an LlmCall."""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.instrument.current import current_call
from otel_turnavoid.instrument.handles import CallHandle
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.responses import (
    anthropic_messages,
    chat_completions,
    openai_responses,
)
from otel_turnavoid.instrument.responses.reading import Reading
from otel_turnavoid.vocabulary import ERROR_TYPE, Attr, Disposition

APIS: Final = (openai_responses, anthropic_messages, chat_completions)
WANTED: Final = "a response of Chat Completions, OpenAI Responses or Anthropic Messages"


def record_response(response: Any, call: CallHandle | None = None, *, messages: Any = None) -> None:
    """Set on an open LlmCall what a response says about it.

    That is: model, response id, finish reasons, usage with its cached and reasoning parts, and
    samplings, unless these were stated before. A response that says that it failed makes the
    call a failed one.

    Args:
        response: A response of OpenAI's Chat Completions or Responses API or of Anthropic's
            Messages API: the SDK's object or a plain dict.
        call: Default: the innermost open LlmCall.
        messages: Those of the request, by which a ``pause_turn`` continuation is known: it
            counts no sampling.

    Raises:
        UsageError: In development mode, for a response of another shape.
    """
    reading = read_response(response)
    if reading is None:
        misused(Misuse.VALUE, f"record_response: want {WANTED}, got {type(response).__name__}")
        return
    record(reading, current_call() if call is None else call, messages)


def read_response(response: Any) -> Reading | None:
    """Return what a response says; None for one of an unknown shape."""
    for api in APIS:
        if api.is_response(response):
            reading: Reading = api.read(response)
            return reading
    return None


def record(reading: Reading, call: CallHandle, messages: Any = None) -> None:
    """Set on a call what was read."""
    call.set(
        model=reading.model,
        response_id=reading.response_id,
        finish_reasons=list(reading.finish_reasons) or None,
    )
    call.usage(
        input=reading.input,
        output=reading.output,
        cache_read=reading.cache_read,
        cache_write=reading.cache_write,
        reasoning=reading.reasoning,
    )
    if call.samplings is None:  # else the user has said it
        call.set(samplings=0 if anthropic_messages.continues(messages) else reading.samplings)
    if reading.error is not None:
        call.record(ERROR_TYPE, reading.error)
        call.record(Attr.CALL_DISPOSITION, Disposition.FAILED.value)
