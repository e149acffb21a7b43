"""The run that entries belong to: its id, what all its entries carry, and the counter."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from opentelemetry import trace

from otel_turnavoid.instrument.content import NO_CONTENT, Content
from otel_turnavoid.vocabulary import SCOPE, Attr, Entry

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider


class Counts(NamedTuple):
    """Entries that started so far."""

    agent_turns: int = 0
    llm_calls: int = 0
    tool_turns: int = 0
    entries: int = 0


class Watcher(Protocol):
    """Counts the spans that other instrumentations make inside runs (``framework``)."""

    def settle(self, run: RunState) -> bool:
        """Add its counts to a run that is about to end; False if they may lack some."""


WATCHERS: Final[list[Watcher]] = []
"""Those that are asked when a run ends."""


class RunState:
    """One run in this process.

    Args:
        run_id: None for entries that belong to no run: they carry no run id and no number.
        common: Attributes of every entry beside the run id.
        tracer: Makes the spans of the run.
        numbered: Whether its spans are numbered entries. Where another process numbers the run
            they are raw spans instead, which that process counts (design section 3).
        taken: What earlier segments of the run have counted.
        content: Which messages and arguments are recorded.
        prices: Whether calls without a stated cost are priced.
    """

    __slots__ = (
        "_born",
        "_counts",
        "_here",
        "_lock",
        "_next",
        "_strays",
        "common",
        "content",
        "ended",
        "impaired",
        "numbered",
        "outermost",
        "paused",
        "prices",
        "proven",
        "run_id",
        "tracer",
    )

    def __init__(  # noqa: PLR0913 - all but the first three are optional
        self,
        run_id: str | None,
        common: dict[str, Any],
        tracer: Tracer,
        *,
        numbered: bool = True,
        taken: Counts = Counts(),  # noqa: B008 - immutable
        content: Content = NO_CONTENT,
        prices: bool = False,
    ) -> None:
        self.run_id = run_id
        self.common = {Attr.RUN_ID: run_id, **common} if run_id is not None else common
        self.tracer = tracer
        self.numbered = numbered
        self.content = content
        self.prices = prices
        self.ended = False
        self.paused = False
        self.proven = True
        """False once something of the run may be missing from its counts."""
        self.impaired = 0
        """Entries that were counted but not, or not wholly, recorded."""
        self.outermost: Any = None
        self._born = _Process.forks
        self._strays = _Process.strays
        self._here: RunState | None = None
        self._lock = Lock()
        self._next = taken.entries
        self._counts = {entry.value: 0 for entry in Entry}
        self._counts[Entry.AGENT_TURN.value] = taken.agent_turns
        self._counts[Entry.LLM_CALL.value] = taken.llm_calls
        self._counts[Entry.TOOL_TURN.value] = taken.tool_turns

    @property
    def inherited(self) -> bool:
        """Whether this process was forked while the run was open in its parent."""
        return self._born != _Process.forks

    def here(self) -> RunState:
        """Return the run as an inheriting process may use it: with raw spans, counted nowhere."""
        if self._here is None or self._here.inherited:
            self._here = RunState(self.run_id, self.common, self.tracer, numbered=False)
        return self._here

    def take(self, entry: str) -> int | None:
        """Count an entry and return its sequence number, if any; safe from any thread."""
        with self._lock:
            self._counts[entry] += 1
            if not self.numbered:
                return None
            seq = self._next
            self._next = seq + 1
        return seq

    def count(self, entry: str, number: int) -> None:
        """Count spans of other instrumentations: no entries of ours, so they take no numbers."""
        with self._lock:
            self._counts[entry] += number

    def settle(self) -> bool:
        """Take in what the watchers counted; False if it cannot be declared as complete."""
        watched = [watcher.settle(self) for watcher in tuple(WATCHERS)]
        return self.proven and _Process.strays == self._strays and all(watched)

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


def note_stray() -> None:
    """Note an entry outside every run: each run that is open may have lost it, and is unproven."""
    _Process.strays += 1


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Return our tracer of a provider, by default the global one."""
    from otel_turnavoid import __version__  # noqa: PLC0415 - read from package metadata once

    return trace.get_tracer(SCOPE, __version__, provider)


class _Process:
    """What concerns every run of this process."""

    forks = 0
    """How often the process that imported this was forked on the way to this one."""
    strays = 0
    """Entries outside every run. Where two threads add at once one may go missing, but not both,
    so it differs from what it was before either."""

    @classmethod
    def forked(cls) -> None:
        cls.forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_Process.forked)
