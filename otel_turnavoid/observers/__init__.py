"""What looks at the outside world and states effects; never the agent."""

from __future__ import annotations

from otel_turnavoid.observers.observer import Observer, observe_effects

__all__ = ["Observer", "observe_effects"]
