"""What looks at the outside world and states effects; never the agent."""

from __future__ import annotations

from otel_turnavoid.observers.observer import Observer, observe_effects
from otel_turnavoid.observers.snapshot import Snapshot, Thing, labels, load, save

__all__ = ["Observer", "Snapshot", "Thing", "labels", "load", "observe_effects", "save"]
