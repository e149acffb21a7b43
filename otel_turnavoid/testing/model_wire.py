"""Prepared replies in the words of three provider APIs, whole and as server-sent events.

A module-level function per API and form, each pure: the same arguments, the same JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from otel_turnavoid.testing.model import Reply, ToolCall

CREATED: Final = 1_780_000_000
"""When every reply was made, in seconds since the epoch."""

Json = dict[str, Any]


def chat_completion(reply: Reply, number: int, model: str) -> Json:
    """Return a body of OpenAI's Chat Completions API."""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": _call_id(call, number, index),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for index, call in enumerate(reply.tool_calls)
        ]
    finish = "tool_calls" if reply.tool_calls else "stop"
    return {
        "id": reply.id or f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens or 0},
            "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens or 0},
        },
    }


def chat_chunks(body: Json, *, usage: bool) -> Iterator[Json]:
    """Yield the chunks of a chat completion; the usage in one of its own, where asked for."""
    head = {key: body[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    choice = body["choices"][0]
    message = choice["message"]
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in _parts(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": function}]})
        arguments = {"arguments": call["function"]["arguments"]}
        deltas.append({"tool_calls": [{"index": index, "function": arguments}]})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {
        **head,
        "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}],
    }
    if usage:
        yield {**head, "choices": [], "usage": body["usage"]}


def openai_response(reply: Reply, number: int, model: str) -> Json:
    """Return a body of OpenAI's Responses API."""
    output: list[Json] = []
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        output.append(
            {
                "type": "message",
                "id": f"item_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": _call_id(call, number, index),
            "name": call.name,
            "arguments": _arguments(call),
            "status": "completed",
        }
        for index, call in enumerate(reply.tool_calls)
    ]
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {
            "cached_tokens": reply.cached_tokens or 0,
            "cache_write_tokens": reply.cache_write_tokens or 0,
        },
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens or 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    return whole_response(output, usage, response_id=reply.id or f"resp_{number}", model=model)


def whole_response(
    output: Sequence[Json], usage: Json, *, response_id: str = "resp_1", model: str = "scripted-1"
) -> Json:
    """Return a completed Responses body around output items of one's own."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def response_events(body: Json) -> Iterator[Json]:
    """Yield the events of a streamed response, its items one after the other."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(body["output"]):
        events += _item_events(index, item)
    events.append({"type": "response.completed", "response": body})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    at = {"output_index": index, "item_id": item.get("id", f"item-{index}")}
    if item["type"] == "message":
        yield {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "content": [], "status": "in_progress"},
        }
        for number, part in enumerate(item["content"]):
            place = {**at, "content_index": number}
            yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
            for text in _parts(part["text"]):
                delta = {"delta": text, "logprobs": []}
                yield {"type": "response.output_text.delta", **place, **delta}
            done = {"text": part["text"], "logprobs": []}
            yield {"type": "response.output_text.done", **place, **done}
            yield {"type": "response.content_part.done", **place, "part": part}
    elif item["type"] == "function_call":
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        arguments = item["arguments"]
        yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
        done = {"arguments": arguments, "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **at, **done}
    else:
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def anthropic_message(reply: Reply, number: int, model: str) -> Json:
    """Return a body of Anthropic's Messages API, which counts cached tokens apart."""
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {
            "type": "tool_use",
            "id": _call_id(call, number, index),
            "name": call.name,
            "input": dict(call.arguments),
        }
        for index, call in enumerate(reply.tool_calls)
    ]
    read, written = reply.cached_tokens or 0, reply.cache_write_tokens or 0
    usage: Json = {
        "input_tokens": reply.input_tokens - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": reply.output_tokens,
    }
    if reply.reasoning_tokens is not None:
        usage["output_tokens_details"] = {"thinking_tokens": reply.reasoning_tokens}
    stop = "tool_use" if reply.tool_calls else "end_turn"
    message_id = reply.id or f"msg_{number}"
    return whole_message(content, usage, message_id=message_id, model=model, stop_reason=stop)


def whole_message(
    content: Sequence[Json],
    usage: Json,
    *,
    message_id: str = "msg_1",
    model: str = "scripted-1",
    stop_reason: str = "end_turn",
) -> Json:
    """Return a Messages body around content blocks of one's own."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(body: Json) -> Iterator[Json]:
    """Yield the events of a streamed message; output tokens come twice, the second is whole."""
    begun = {**body, "content": [], "stop_reason": None}
    begun["usage"] = {**body["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(body["content"]):
        yield from _block_events(index, block)
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]},
        "usage": {
            key: value
            for key, value in body["usage"].items()
            if key in ("output_tokens", "output_tokens_details")
        },
    }
    yield {"type": "message_stop"}


def _block_events(index: int, block: Json) -> Iterator[Json]:
    deltas: list[Json] = []
    begun = dict(block)
    if block["type"] == "text":
        begun["text"] = ""
        deltas = [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
    elif block["type"] in ("tool_use", "server_tool_use"):
        begun["input"] = {}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def tool_calls_of(body: Mapping[str, Any]) -> int:
    """Return how many tools of the client a body of any of the APIs asks for."""
    chat = sum(len(choice["message"].get("tool_calls") or ()) for choice in body.get("choices", ()))
    items = (*body.get("output", ()), *body.get("content", ()))
    return chat + sum(item["type"] in ("function_call", "tool_use") for item in items)


def _call_id(call: ToolCall, number: int, index: int) -> str:
    return call.id or f"call_{number}_{index}"


def _arguments(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments))


def _parts(text: str) -> list[str]:
    """Return a text in two parts, so that a stream is one."""
    half = (len(text) + 1) // 2
    return [part for part in (text[:half], text[half:]) if part]
