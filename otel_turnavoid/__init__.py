"""Whole model turns that disappeared, counted only where proven.

What agents and observers use stands here and is imported when first used, so that commands
and tools that need none of it start without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_turnavoid.digest import input_digest
    from otel_turnavoid.instrument import (
        agent_turn,
        current_call,
        current_invoke,
        current_tool,
        current_turn,
        invoke,
        llm_call,
        system_turn,
        tool_turn,
        user_turn,
    )
    from otel_turnavoid.observers import Observer, observe_effects

    __version__: str

_HOMES = {
    "Observer": "otel_turnavoid.observers",
    "agent_turn": "otel_turnavoid.instrument",
    "current_call": "otel_turnavoid.instrument",
    "current_invoke": "otel_turnavoid.instrument",
    "current_tool": "otel_turnavoid.instrument",
    "current_turn": "otel_turnavoid.instrument",
    "input_digest": "otel_turnavoid.digest",
    "invoke": "otel_turnavoid.instrument",
    "llm_call": "otel_turnavoid.instrument",
    "observe_effects": "otel_turnavoid.observers",
    "system_turn": "otel_turnavoid.instrument",
    "tool_turn": "otel_turnavoid.instrument",
    "user_turn": "otel_turnavoid.instrument",
}

__all__ = [
    "Observer",
    "__version__",
    "agent_turn",
    "current_call",
    "current_invoke",
    "current_tool",
    "current_turn",
    "input_digest",
    "invoke",
    "llm_call",
    "observe_effects",
    "system_turn",
    "tool_turn",
    "user_turn",
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
