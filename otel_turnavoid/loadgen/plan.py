"""What to send: everything that the bytes of a load depend on."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from otel_turnavoid.errors import UsageError
from otel_turnavoid.testing import START_NS
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Arm

MOST_TURNS: Final = 1000
MOST_FOREIGN: Final = 0.999
"""Above this a run would drag more than ten thousand foreign spans along."""

_SPELLED: Final = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
_SHARES: Final = ("foreign", "duplicates", "lost", "failed", "suppressed", "unobserved")


class Spread(NamedTuple):
    """Whole numbers from ``least`` to ``most``, drawn evenly."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> Spread | None:
        """Return the spread that ``4`` or ``2-6`` spells, or None where it spells none."""
        found = _SPELLED.fullmatch(text)
        if found is None:
            return None
        least, most = int(found[1]), int(found[2] or found[1])
        return cls(least, most) if least <= most else None

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"


class Plan(NamedTuple):
    """A load: pairs of one control and one candidate run each. Shares are from 0 to 1."""

    seed: int
    """Other seeds give other run ids, digests and draws."""
    runs: int | None = None
    """How many, two for each pair; None goes on for ever."""
    turns: Spread = Spread(4, 4)
    """AgentTurns of a control run: one model call and one tool each."""
    candidate_turns: Spread = Spread(3, 3)
    arm: Arm = Arm.FUSED_BATCH
    """Of the candidates."""
    variant: str | None = None
    experiment: str | None = None
    units: int = 0
    """How many units the pairs stand for, one after the other; 0 names none."""
    effects: int = 2
    """Required effects that the observer sees of each run."""
    foreign: float = 0.0
    """Share of spans that are not about agents."""
    duplicates: float = 0.0
    """Share of requests that are sent twice, as after a lost answer."""
    lost: float = 0.0
    """Share of the runs' spans that are never sent."""
    failed: float = 0.0
    """Share of candidate runs that failed."""
    suppressed: float = 0.0
    """Share of candidate runs that lack a required effect."""
    unobserved: float = 0.0
    """Share of candidate runs that no observer saw."""
    batch: int = 4
    """Runs in one request, all of one arm."""
    start_ns: int = START_NS
    """When the first run starts, nanoseconds since the epoch."""

    @property
    def pairs(self) -> int | None:
        """How many pairs; an odd run counts as one."""
        return None if self.runs is None else (self.runs + 1) // 2

    def checked(self) -> Plan:
        """Return the plan itself.

        Raises:
            UsageError: A value is outside of what makes sense; says which.
        """
        for name in _SHARES:
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise UsageError(f"{name} is a share from 0 to 1 (got {share})")
        if self.foreign > MOST_FOREIGN:
            raise UsageError(f"foreign is a share up to {MOST_FOREIGN} (got {self.foreign})")
        if self.arm not in CANDIDATE_ARMS:
            raise UsageError(f"arm is one of {', '.join(CANDIDATE_ARMS)} (got {self.arm})")
        for name in ("turns", "candidate_turns"):
            spread: Spread = getattr(self, name)
            if not 1 <= spread.least <= spread.most <= MOST_TURNS:
                raise UsageError(f"{name} are from 1 to {MOST_TURNS} (got {spread})")
        for name, least in (("batch", 1), ("effects", 1), ("units", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is at least {least} (got {getattr(self, name)})")
        if self.runs is not None and self.runs < 1:
            raise UsageError(f"runs is at least 1 (got {self.runs})")
        return self
