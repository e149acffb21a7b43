"""The run that entries belong to: its id, what all its entries carry, and the counter."""

from __future__ import annotations

import os
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from opentelemetry import trace

from otel_turnavoid.instrument.content import NO_CONTENT, Content
from otel_turnavoid.vocabulary import SCOPE, Attr, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer, TracerProvider


class Counts(NamedTuple):
    """Entries that started so far."""

    agent_turns: int = 0
    llm_calls: int = 0
    tool_turns: int = 0
    entries: int = 0


class _Numbers:
    """Numbers 0, 1, 2… for any thread without a lock: taking one is a single step of CPython."""

    __slots__ = ("_looks", "next")

    def __init__(self) -> None:
        self.next = count().__next__
        """Takes a number."""
        self._looks = 0

    def taken(self) -> int:
        """Return how many were taken; looking takes one too, which does not count."""
        number = self.next() - self._looks
        self._looks += 1
        return number


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
        "_counts",
        "_earlier",
        "_here",
        "_lock",
        "_seq",
        "_strays",
        "_taken",
        "born",
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
        self.born = Process.forks
        """``Process.forks`` where it began: another process inherited it if that differs."""
        self._strays = Process.strays
        self._here: RunState | None = None
        self._seq = count(taken.entries).__next__
        self._taken = {entry.value: _Numbers() for entry in Entry}
        self._earlier = taken.entries
        self._lock = Lock()
        """Held while counts are read or added to, never where an entry takes its number."""
        self._counts = {entry.value: 0 for entry in Entry}
        """What is counted beside the entries of this segment."""
        self._counts[Entry.AGENT_TURN.value] = taken.agent_turns
        self._counts[Entry.LLM_CALL.value] = taken.llm_calls
        self._counts[Entry.TOOL_TURN.value] = taken.tool_turns

    @property
    def inherited(self) -> bool:
        """Whether this process was forked while the run was open in its parent."""
        return self.born != Process.forks

    def here(self) -> RunState:
        """Return the run as an inheriting process may use it: with raw spans, counted nowhere."""
        if self._here is None or self._here.inherited:
            self._here = RunState(self.run_id, self.common, self.tracer, numbered=False)
        return self._here

    def counting(self, entry: str) -> tuple[Callable[[], int], Callable[[], int] | None]:
        """Return what counts an entry of this kind and what takes its number; both call once.

        Numbers are None where another process numbers the run. Safe from any thread.
        """
        return self._taken[entry].next, self._seq if self.numbered else None

    def take(self, entry: str) -> int | None:
        """Count an entry and return its sequence number, if any; safe from any thread."""
        self._taken[entry].next()
        return self._seq() if self.numbered else None

    def count(self, entry: str, number: int) -> None:
        """Count spans of other instrumentations: no entries of ours, so they take no numbers."""
        with self._lock:
            self._counts[entry] += number

    def settle(self) -> bool:
        """Take in what the watchers counted; False if it cannot be declared as complete."""
        watched = [watcher.settle(self) for watcher in tuple(WATCHERS)]
        return self.proven and Process.strays == self._strays and all(watched)

    def counts(self) -> Counts:
        """Return how many entries have started."""
        with self._lock:
            taken = {entry: numbers.taken() for entry, numbers in self._taken.items()}
            beside = self._counts
            turn, call, tool = Entry.AGENT_TURN.value, Entry.LLM_CALL.value, Entry.TOOL_TURN.value
            return Counts(
                agent_turns=taken[turn] + beside[turn],
                llm_calls=taken[call] + beside[call],
                tool_turns=taken[tool] + beside[tool],
                entries=self._earlier + (sum(taken.values()) if self.numbered else 0),
            )


def note_stray() -> None:
    """Note an entry outside every run: each run that is open may have lost it, and is unproven."""
    Process.strays += 1


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Return our tracer of a provider, by default the global one."""
    from otel_turnavoid import __version__  # noqa: PLC0415 - read from package metadata once

    return trace.get_tracer(SCOPE, __version__, provider)


class Process:
    """What concerns every run of this process."""

    forks = 0
    """How often the process that imported this was forked on the way to this one."""
    strays = 0
    """Entries outside every run. Where two threads add at once one may go missing, but not both,
    so it differs from what it was before either."""

    @classmethod
    def forked(cls) -> None:
        """Note that this process was forked from the one that was here before."""
        cls.forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=Process.forked)
