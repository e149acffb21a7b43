"""Whole model turns that disappeared, counted only where proven.

What agents and observers use stands here and is imported when first used, so that commands
and tools that need none of it start without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_turnavoid.digest import input_digest
    from otel_turnavoid.exporter import TurnAvoidanceExporter
    from otel_turnavoid.instrument import (
        ContextExecutor,
        Handover,
        agent_turn,
        carry,
        current_call,
        current_invoke,
        current_tool,
        current_turn,
        hop,
        invoke,
        join,
        llm_call,
        recovery,
        resume,
        retry,
        speculation,
        system_turn,
        tool_turn,
        user_turn,
        validation,
    )
    from otel_turnavoid.instrument.framework import TurnAvoidSpanProcessor
    from otel_turnavoid.instrument.responses import record_response, record_stream
    from otel_turnavoid.observers import Observer, observe_effects

    __version__: str

_HOMES = {
    "ContextExecutor": "otel_turnavoid.instrument",
    "Handover": "otel_turnavoid.instrument",
    "Observer": "otel_turnavoid.observers",
    "TurnAvoidSpanProcessor": "otel_turnavoid.instrument.framework",
    "TurnAvoidanceExporter": "otel_turnavoid.exporter",
    "agent_turn": "otel_turnavoid.instrument",
    "carry": "otel_turnavoid.instrument",
    "current_call": "otel_turnavoid.instrument",
    "current_invoke": "otel_turnavoid.instrument",
    "current_tool": "otel_turnavoid.instrument",
    "current_turn": "otel_turnavoid.instrument",
    "hop": "otel_turnavoid.instrument",
    "input_digest": "otel_turnavoid.digest",
    "invoke": "otel_turnavoid.instrument",
    "join": "otel_turnavoid.instrument",
    "llm_call": "otel_turnavoid.instrument",
    "observe_effects": "otel_turnavoid.observers",
    "record_response": "otel_turnavoid.instrument.responses",
    "record_stream": "otel_turnavoid.instrument.responses",
    "recovery": "otel_turnavoid.instrument",
    "resume": "otel_turnavoid.instrument",
    "retry": "otel_turnavoid.instrument",
    "speculation": "otel_turnavoid.instrument",
    "system_turn": "otel_turnavoid.instrument",
    "tool_turn": "otel_turnavoid.instrument",
    "user_turn": "otel_turnavoid.instrument",
    "validation": "otel_turnavoid.instrument",
}

__all__ = [
    "ContextExecutor",
    "Handover",
    "Observer",
    "TurnAvoidSpanProcessor",
    "TurnAvoidanceExporter",
    "__version__",
    "agent_turn",
    "carry",
    "current_call",
    "current_invoke",
    "current_tool",
    "current_turn",
    "hop",
    "input_digest",
    "invoke",
    "join",
    "llm_call",
    "observe_effects",
    "record_response",
    "record_stream",
    "recovery",
    "resume",
    "retry",
    "speculation",
    "system_turn",
    "tool_turn",
    "user_turn",
    "validation",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs more than the rest

        value: Any = version("otel-turnavoid")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
