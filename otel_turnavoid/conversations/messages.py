"""Message lists in the shape of OpenAI's chat API, also with content blocks as Anthropic's.

An assistant message is one response; consecutive ones with the same ``id`` are one. A greeting
before anything was asked is none. Records of tau-bench are such lists with a task, a reward
and, where the step limit ended the run, without a ``reward_info``.
"""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.conversations import record as recorded
from otel_turnavoid.conversations.conversation import Conversation, Response, ToolCall
from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.vocabulary import InvokeState

SCOPE: Final = "conversation.messages"
_RESULTS: Final = ("tool", "function")
_UNNAMED: Final = ("none", "unknown", "unpublished")
"""Spellings by which publishers leave a model unnamed."""
_INPUT: Final = ("input_tokens", "prompt_tokens")
_OUTPUT: Final = ("output_tokens", "completion_tokens")


def is_messages(value: Any) -> bool:
    """Tell whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and isinstance(each.get("role"), str) for each in value)
    )


def read_messages(record: dict[str, Any], file: str, number: int) -> Conversation:
    """Read a record with ``messages``; a bare list is one with nothing else."""
    messages = recorded.dicts(record["messages"])
    rewarded = recorded.amount(record, "reward")
    unfinished = "reward_info" in record and record["reward_info"] is None
    return Conversation(
        run_id=recorded.run_id(record, file, number),
        scope=SCOPE,
        responses=_responses(messages, _model(record)),
        state=InvokeState.ABORTED if unfinished else InvokeState.COMPLETED,
        unit=recorded.unit(record),
        task=_task(record, messages),
        said=recorded.plain(record, file),
        end_ns=len(messages),
        success=None if rewarded is None else rewarded == 1,
        judged_by="recorded reward",
        asked=False if _no_goal(record) else None,
    )


def _no_goal(record: dict[str, Any]) -> bool:
    """Whether the published task names no action at all: its goal is the state as it was."""
    task = record.get("task")
    return isinstance(task, dict) and task.get("actions") == []


def _responses(messages: list[dict[str, Any]], model: str | None) -> list[Response]:
    responses: list[Response] = []
    asked = False
    users = [place for place, message in enumerate(messages) if message.get("role") == "user"]
    last_asked = users[-1] if users else -1
    before: str | None = None
    calls: dict[str, ToolCall] = {}
    for place, message in enumerate(messages):
        role = message["role"] if isinstance(message.get("role"), str) else ""
        own_id = recorded.text(message, "id") if role == "assistant" else None
        if role == "assistant":
            tool_calls = _tool_calls(message, place)
            # A greeting: it opens what a user goes on with, and nobody had asked anything.
            if not asked and not tool_calls and place < last_asked:
                continue
            if own_id is None or own_id != before:
                responses.append(
                    Response(
                        model=recorded.text(message, "model") or model,
                        usage=_usage(message.get("usage")),
                        start_ns=place,
                        end_ns=place,
                        response_id=own_id,
                        said=recorded.plain(message, ""),
                    )
                )
            responses[-1].tool_calls.extend(tool_calls)
            calls |= {call.call_id: call for call in tool_calls if call.call_id}
        asked = asked or role != "system"
        before = own_id
        for call_id in _answered(message, role):
            if call_id in calls:
                calls[call_id].end_ns = place
    return responses


def _tool_calls(message: dict[str, Any], place: int) -> list[ToolCall]:
    found = [
        ToolCall(
            call_id=recorded.text(call, "id"),
            name=recorded.text(call.get("function"), "name") or recorded.text(call, "name"),
            start_ns=place,
            end_ns=place,
        )
        for call in recorded.dicts(message.get("tool_calls"))
    ]
    if not found and isinstance(message.get("function_call"), dict):
        name = recorded.text(message["function_call"], "name")
        found = [ToolCall(name=name, start_ns=place, end_ns=place)]
    blocks = recorded.dicts(message.get("content"))
    asked = [block for block in blocks if block.get("type") == "tool_use"]
    if not found:
        found = [
            ToolCall(
                call_id=recorded.text(block, "id"),
                name=recorded.text(block, "name"),
                start_ns=place,
                end_ns=place,
            )
            for block in asked
        ]
    return found


def _answered(message: dict[str, Any], role: str) -> list[str]:
    if role in _RESULTS:
        call_id = recorded.text(message, "tool_call_id")
        return [call_id] if call_id else []
    blocks = recorded.dicts(message.get("content"))
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return [call_id for block in results if (call_id := recorded.text(block, "tool_use_id"))]


def _model(record: dict[str, Any]) -> str | None:
    model = recorded.text(record, "model")
    return None if model is None or model.lower() in _UNNAMED else model


def _usage(usage: Any) -> Usage:
    def first(keys: tuple[str, ...]) -> int | None:
        return next((n for key in keys if (n := recorded.count(usage, key)) is not None), None)

    return Usage(input=first(_INPUT), output=first(_OUTPUT))


def _task(record: dict[str, Any], messages: list[dict[str, Any]]) -> Any:
    """Return what identifies the task: as published, else what was asked before any answer."""
    task = record.get("task")
    if isinstance(task, dict) and "instruction" in task:
        return [record.get("policy_sha256"), task.get("user_id"), task["instruction"]]
    asked: list[Any] = []
    for message in messages:
        if message.get("role") == "assistant" and asked:
            break
        if message.get("role") == "user":
            asked.append(message.get("content"))
    return asked
