"""What a provider answered, set on the open LlmCall: whole responses and streams.

OpenAI's Chat Completions (and whoever speaks it) and Responses APIs and Anthropic's Messages API,
as objects of their SDKs or as plain dicts, told apart by their shape::

    with llm_call("gpt-5.1", provider="openai") as call:
        record_response(client.responses.create(...))

    with llm_call("claude-opus-5", provider="anthropic"):
        for event in record_stream(client.messages.create(..., stream=True)):
            ...

No SDK is imported. Nothing of a response's content is recorded.
"""

from __future__ import annotations

from otel_turnavoid.instrument.responses.reading import Reading
from otel_turnavoid.instrument.responses.recording import read_response, record_response
from otel_turnavoid.instrument.responses.streams import (
    AsyncRecordedStream,
    RecordedStream,
    record_stream,
)

__all__ = [
    "AsyncRecordedStream",
    "Reading",
    "RecordedStream",
    "read_response",
    "record_response",
    "record_stream",
]
