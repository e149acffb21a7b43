"""What a load must come to: figures that follow from what is sent, not from the program.

The rules are those of the contract (design sections 3 and 4), written down a second time for the
few kinds of runs that a load has. An entry that never arrives leaves its run incomplete: its
turns count as far as seen, and its pair earns nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

from otel_turnavoid.vocabulary import Arm, Outcome, WithheldCause


class Sent(NamedTuple):
    """One run as it is sent."""

    arm: Arm
    turns: int
    lost: Collection[int]
    """Sequence numbers that are never sent; see ``entries``."""
    failed: bool = False
    suppressed: bool = False
    observed: bool = True

    @property
    def entries(self) -> int:
        """How many entries it has: Invoke, UserTurn, and per turn an AgentTurn, call and tool."""
        return 2 + 3 * self.turns

    @property
    def ended(self) -> bool:
        """Whether its Invoke, and with it its digest and counts, is sent."""
        return 0 not in self.lost

    @property
    def seen(self) -> bool:
        """Whether anything of it is sent."""
        return len(self.lost) < self.entries

    @property
    def seen_turns(self) -> int:
        """Committed turns as far as seen.

        A turn shows by its AgentTurn or by its call. An AgentTurn without a call and a call
        without an AgentTurn may be one turn: together they are counted once.
        """
        whole = bare = outside = 0
        for turn in range(self.turns):
            stated = 2 + 3 * turn not in self.lost
            called = 3 + 3 * turn not in self.lost
            whole += stated and called
            bare += stated and not called
            outside += called and not stated
        return whole + max(bare, outside)

    @property
    def seen_tools(self) -> int:
        """Tool executions as far as seen."""
        return sum(4 + 3 * turn not in self.lost for turn in range(self.turns))


class Accounts:
    """Turns, pairs and runs that a load comes to; add to it, and add several together."""

    def __init__(self) -> None:
        self.committed: Counter[str] = Counter()
        """Committed turns of paired runs, by arm."""
        self.avoided = 0
        self.withheld: Counter[str] = Counter()
        """Turns by the cause that is shown."""
        self.added = 0
        self.pairs = 0
        """Pairs decided, credited or not."""
        self.runs: Counter[str] = Counter()
        """Runs by outcome; ``unpaired`` and ``incomplete`` are final after ``run_expiry`` only."""
        self.tools: Counter[str] = Counter()
        """Tools executed by paired runs, by arm."""
        self.waiting = 0
        """Pairs that are decided only when ``decision_wait`` is over."""
        self.facts = 0
        """Entries and observations that are in the ledger once."""
        self.duplicates = 0
        """Entries and observations that arrive a second time."""

    def add_pair(self, control: Sent, candidate: Sent) -> None:
        """Add what becomes of one control and one candidate run of the same key."""
        for run in (control, candidate):
            self.facts += run.entries - len(run.lost) + run.observed
        if not (control.ended and candidate.ended):
            for run in (control, candidate):
                if run.seen:
                    outcome = Outcome.UNPAIRED if run.ended else Outcome.INCOMPLETE
                    self.runs[outcome.value] += 1
            return
        self.pairs += 1
        for run in (control, candidate):
            self.runs[Outcome.PAIRED.value] += 1
            self.committed[run.arm.value] += run.seen_turns
            self.tools[run.arm.value] += run.seen_tools
        fewer = control.seen_turns - candidate.seen_turns
        self.added += max(-fewer, 0)
        self.waiting += bool(control.lost or candidate.lost) or not candidate.observed
        cause = _cause(control, candidate)
        if cause is None:
            self.avoided += max(fewer, 0)
        elif fewer > 0:
            self.withheld[cause.value] += fewer

    def add(self, other: Accounts) -> None:
        """Add what another load, or another part of this one, comes to."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(value, Counter):
                mine.update(value)
            else:
                setattr(self, name, mine + value)

    def as_json(self) -> dict[str, Any]:
        """Return the figures under their names."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }


def _cause(control: Sent, candidate: Sent) -> WithheldCause | None:
    """Return the cause that is shown, the first in the order of the contract; None is credit."""
    if candidate.failed:
        return WithheldCause.RUN_NOT_COMPLETED
    if control.lost or candidate.lost:
        return WithheldCause.INCOMPLETE_RUN
    if not candidate.observed:
        return WithheldCause.EFFECTS_UNOBSERVED
    return WithheldCause.EFFECTS_SUPPRESSED if candidate.suppressed else None
