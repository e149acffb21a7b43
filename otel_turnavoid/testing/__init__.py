"""Public helpers for tests: made-up runs as OTLP requests, given ids and time, scripted models.

Three things, a module each:

- ``runs``: ``run_spans`` and ``observation`` make the OTLP requests of a whole run in one line;
- ``telemetry``: ``Telemetry`` records what instrumented code emits, with counted ids and a
  stepped clock, and gives it back as spans, log records or OTLP requests;
- ``model``: ``ScriptedModel`` answers an agent from a prepared list, without a network;
  ``model_server``: ``ModelServer`` does so over the HTTP APIs of OpenAI and Anthropic.
"""

from __future__ import annotations

from otel_turnavoid.testing.model import Reply, ScriptedModel, ScriptExhaustedError, ToolCall
from otel_turnavoid.testing.runs import (
    EFFECTS,
    START_NS,
    Call,
    Turn,
    observation,
    observation_span,
    other_spans,
    run_spans,
    shatter,
)
from otel_turnavoid.testing.telemetry import CountingIds, SteppedClock, Telemetry

__all__ = [
    "EFFECTS",
    "START_NS",
    "Call",
    "CountingIds",
    "Reply",
    "ScriptExhaustedError",
    "ScriptedModel",
    "SteppedClock",
    "Telemetry",
    "ToolCall",
    "Turn",
    "observation",
    "observation_span",
    "other_spans",
    "run_spans",
    "shatter",
]
