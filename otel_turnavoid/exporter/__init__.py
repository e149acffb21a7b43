"""For people without a collector: the whole engine as a span exporter in the agent's process."""

from __future__ import annotations

from otel_turnavoid.exporter.span_exporter import TurnAvoidanceExporter

__all__ = ["TurnAvoidanceExporter"]
