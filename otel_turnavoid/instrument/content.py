"""Message content: off by default, switched on by the variable of the GenAI conventions."""

from __future__ import annotations

import json
import os
from typing import Any, Final, NamedTuple

from otel_turnavoid.vocabulary import Env

CONTENT_VARIABLE: Final = Env.CONTENT
"""``true`` or ``SPAN_ONLY``, ``EVENT_ONLY``, ``SPAN_AND_EVENT``; else, and by default, nothing."""

EVENT_DETAILS: Final = "gen_ai.client.inference.operation.details"
"""The conventions' event that carries the messages of one model call."""


class Content(NamedTuple):
    """Where message content goes."""

    on_spans: bool
    in_events: bool


NO_CONTENT: Final = Content(on_spans=False, in_events=False)

_MODES: Final = {
    "true": Content(on_spans=True, in_events=False),
    "span_only": Content(on_spans=True, in_events=False),
    "event_only": Content(on_spans=False, in_events=True),
    "span_and_event": Content(on_spans=True, in_events=True),
}


def content_mode() -> Content:
    """Return what the environment asks for; read when a run starts."""
    return _MODES.get(os.environ.get(CONTENT_VARIABLE, "").strip().lower(), NO_CONTENT)


def as_text(value: Any) -> str:
    """Return content as an attribute: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _plain(value: Any) -> Any:
    """Return what JSON can say of an object: a model's fields, else its text."""
    dump = getattr(value, "model_dump", None)  # pydantic, and with it the providers' SDKs
    return dump(mode="json") if callable(dump) else str(value)


def emit_details(said: dict[str, Any], context: Any) -> None:
    """Emit the event with the messages of a call, through the global logger provider."""
    from opentelemetry._logs import SeverityNumber, get_logger  # noqa: PLC0415 - on use

    from otel_turnavoid import __version__  # noqa: PLC0415 - read from metadata once
    from otel_turnavoid.vocabulary import SCOPE  # noqa: PLC0415 - on use

    get_logger(SCOPE, __version__).emit(
        context=context,
        severity_number=SeverityNumber.INFO,
        attributes=said,
        event_name=EVENT_DETAILS,
    )
