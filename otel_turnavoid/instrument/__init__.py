"""What users put into their agents: decorators and context managers (design section 3).

Six kinds of entries, each a context manager (``with`` and ``async with``) and a decorator with
and without parentheses, for functions, coroutines, generators and async generators::

    with invoke("orders", input=task, arm="control"):
        while not done:
            with llm_call("gpt-5.1", provider="openai", input=messages) as call:
                reply = client.complete(messages)
                call.usage(input=reply.input_tokens, output=reply.output_tokens)
            with tool_turn("cancel_order"):
                cancel_order(42)

AgentTurns open and close by themselves, by the retry rule (``automatic``), or by ``agent_turn``.

Spans carry names, counts and digests; message content only where the environment asks for it
(``content``). An exception leaves its type and not its text, which may quote content. Without an
OpenTelemetry SDK nothing is recorded.

**Bad use.** With ``TURNAVOID_MODE=development`` it raises ``UsageError``. Otherwise, and by
default, it is logged once and counted (``misuses()``), and the agent goes on: what measures an
agent must not be what stops it, and whoever forgets to set the variable should be on that side.
"""

from __future__ import annotations

from otel_turnavoid.instrument.carrying import ContextExecutor, carry
from otel_turnavoid.instrument.current import (
    current_call,
    current_invoke,
    current_tool,
    current_turn,
)
from otel_turnavoid.instrument.handles import (
    CallHandle,
    InvokeHandle,
    ToolHandle,
    TurnHandle,
)
from otel_turnavoid.instrument.handover import Handover
from otel_turnavoid.instrument.hops import Hop, Joined, hop, join
from otel_turnavoid.instrument.kinds import (
    agent_turn,
    invoke,
    llm_call,
    system_turn,
    tool_turn,
    user_turn,
)
from otel_turnavoid.instrument.misuse import misuses
from otel_turnavoid.instrument.overhead import (
    OverheadHandle,
    recovery,
    retry,
    speculation,
    validation,
)
from otel_turnavoid.instrument.resuming import resume
from otel_turnavoid.instrument.scope import Handle, Scope

__all__ = [
    "CallHandle",
    "ContextExecutor",
    "Handle",
    "Handover",
    "Hop",
    "InvokeHandle",
    "Joined",
    "OverheadHandle",
    "Scope",
    "ToolHandle",
    "TurnHandle",
    "agent_turn",
    "carry",
    "current_call",
    "current_invoke",
    "current_tool",
    "current_turn",
    "hop",
    "invoke",
    "join",
    "llm_call",
    "misuses",
    "recovery",
    "resume",
    "retry",
    "speculation",
    "system_turn",
    "tool_turn",
    "user_turn",
    "validation",
]
