"""What ``opentelemetry-instrument`` loads: frameworks' spans are counted without a line of code."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakSet

from opentelemetry import trace

from otel_turnavoid.instrument.framework import TurnAvoidSpanProcessor

_logger = logging.getLogger(__name__)
_watched: WeakSet[Any] = WeakSet()


class TurnAvoidInstrumentor:
    """Adds a ``TurnAvoidSpanProcessor`` to a tracer provider, once.

    Entry point ``turnavoid`` of the group ``opentelemetry_instrumentor``; switched off by
    ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=turnavoid``. It has the shape of an instrumentor
    without being one by class, since there is no library to patch.
    """

    def instrument(self, *, tracer_provider: Any = None, **_options: Any) -> None:
        """Watch a provider, by default the global one; one without an SDK is left alone.

        Args:
            tracer_provider: The SDK's provider that the frameworks' spans go to.
        """
        provider = tracer_provider or trace.get_tracer_provider()
        if not hasattr(provider, "add_span_processor"):
            _logger.debug("no SDK tracer provider: there is nothing to watch")
        elif provider not in _watched:
            _watched.add(provider)
            provider.add_span_processor(TurnAvoidSpanProcessor())
