"""What every format of recorded conversations is read into.

A conversation is one run: the responses of a model, and the tool calls that they ask for. Times
are nanoseconds; where a record has none, they only tell the order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.vocabulary import InvokeState


class ToolCall(msgspec.Struct, kw_only=True):
    """One tool call that a response asks for."""

    call_id: str | None = None
    name: str | None = None
    start_ns: int = 0
    end_ns: int = 0
    failed: bool = False


class Response(msgspec.Struct, kw_only=True):
    """One response of the model, however many messages or log lines show it: one LlmCall."""

    model: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    start_ns: int = 0
    end_ns: int = 0
    response_id: str | None = None
    same_input: str | None = None
    """Names the input within the conversation: a retry has the one of the response before."""
    tool_calls: list[ToolCall] = []
    said: dict[str, Any] = {}
    """Plain values beside the message, for the configuration to look at."""


class Conversation(msgspec.Struct, kw_only=True):
    """One recorded run."""

    run_id: str
    scope: str
    """Names the format, as an instrumentation scope names an instrumentation."""
    responses: list[Response] = []
    state: InvokeState = InvokeState.COMPLETED
    kind: str | None = None
    """Spelling of the InvokeKind, where the record says it."""
    unit: str | None = None
    task: Any = None
    """What identifies the task, equal for both arms; None where nothing does."""
    said: dict[str, Any] = {}
    """Plain values of the record, for the configuration to look at."""
    start_ns: int = 0
    end_ns: int = 0
    success: bool | None = None
    """Whether somebody else than the agent found the task done."""
    judged_by: str = ""
    """Who did."""
    asked: bool | None = None
    """Whether the task was to change anything; None: the record does not say."""
