"""The open entry that code runs in, for decorated functions that have no handle at hand."""

from __future__ import annotations

from typing import TypeVar

from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.trace import NoOpTracer

from otel_turnavoid.instrument.handles import CallHandle, InvokeHandle, ToolHandle, TurnHandle
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.run import RunState
from otel_turnavoid.instrument.scope import Handle, innermost

H = TypeVar("H", bound=Handle)


def current_invoke() -> InvokeHandle:
    """Return the innermost open Invoke."""
    return _innermost(InvokeHandle)


def current_turn() -> TurnHandle:
    """Return the innermost open AgentTurn."""
    return _innermost(TurnHandle)


def current_call() -> CallHandle:
    """Return the innermost open LlmCall."""
    return _innermost(CallHandle)


def current_tool() -> ToolHandle:
    """Return the innermost open ToolTurn."""
    return _innermost(ToolHandle)


def _innermost(kind: type[H]) -> H:
    context = context_api.get_current()
    suppressed = context.get(_SUPPRESS_INSTRUMENTATION_KEY)
    handle = innermost(context)
    if suppressed and kind is not InvokeHandle:
        handle = None  # the entry that would be meant was not opened
    while handle is not None:
        if isinstance(handle, kind):
            return handle
        handle = handle.parent
    if not suppressed:
        misused(Misuse.OUTSIDE, f"there is no open {kind.entry} here")
    nowhere = kind(RunState(None, {}, NoOpTracer()), None)
    nowhere.context = context
    return nowhere
