"""The run that entries belong to: its id, what all its entries carry, and the counter."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace

from otel_turnavoid.vocabulary import SCOPE, Attr, Entry

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider


class Counts(NamedTuple):
    """Entries that started so far."""

    agent_turns: int
    llm_calls: int
    tool_turns: int
    entries: int


class RunState:
    """One run in this process.

    Args:
        run_id: None for entries that belong to no run: they carry no run id and no number.
        common: Attributes of every entry beside the run id.
        tracer: Makes the spans of the run.
    """

    __slots__ = ("_counts", "_lock", "_next", "common", "ended", "outermost", "run_id", "tracer")

    def __init__(self, run_id: str | None, common: dict[str, Any], tracer: Tracer) -> None:
        self.run_id = run_id
        self.common = {Attr.RUN_ID: run_id, **common} if run_id is not None else common
        self.tracer = tracer
        self.ended = False
        self.outermost: Any = None
        self._lock = Lock()
        self._next = 0
        self._counts = {entry.value: 0 for entry in Entry}

    def take(self, entry: str) -> int:
        """Count an entry and return its sequence number; safe from any thread."""
        with self._lock:
            seq = self._next
            self._next = seq + 1
            self._counts[entry] += 1
        return seq

    def counts(self) -> Counts:
        """Return how many entries have started."""
        with self._lock:
            counted = self._counts
            return Counts(
                agent_turns=counted["agent_turn"],
                llm_calls=counted["llm_call"],
                tool_turns=counted["tool_turn"],
                entries=self._next,
            )


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Return our tracer of a provider, by default the global one."""
    from otel_turnavoid import __version__  # noqa: PLC0415 - read from package metadata once

    return trace.get_tracer(SCOPE, __version__, provider)
