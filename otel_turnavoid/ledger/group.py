"""The counts of rows that share an arm, a mechanism, a lifecycle and a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_turnavoid.ledger.sums import expansion
from otel_turnavoid.ledger.work import Work

if TYPE_CHECKING:
    from otel_turnavoid.ledger.row import Row

_WAITING: Final = 4096


class Group:
    """Running counts; a whole arm is the merger of its groups."""

    __slots__ = (
        "avoided",
        "candidate_turns",
        "control_turns",
        "decisions",
        "preserved",
        "retained",
        "retained_ms",
        "retained_tokens",
        "suppressed",
        "withheld",
        "work",
    )

    def __init__(self) -> None:
        self.decisions = 0
        self.control_turns = 0
        self.candidate_turns = 0
        self.avoided = 0
        self.withheld = 0
        self.preserved = 0
        self.suppressed = 0
        self.retained = 0
        self.retained_tokens = 0
        self.retained_ms: list[float] = []
        self.work = Work()

    def add_control(self, row: Row) -> None:
        """Count a row of the control arm, where nothing can be avoided or suppressed."""
        turns = row.control_committed_model_turns
        self.decisions += 1
        self.control_turns += turns
        self.candidate_turns += turns
        self.preserved += len(row.required_effect_observation.control_required)
        self.work.add_control(row)

    def add(self, row: Row, *, strict: bool) -> None:
        """Count a row of a candidate arm.

        Args:
            row: Sound.
            strict: Withhold where no effect was required.
        """
        observation = row.required_effect_observation
        required = observation.control_required
        seen = observation.candidate_required
        control = row.control_committed_model_turns
        candidate = row.candidate_committed_model_turns
        self.decisions += 1
        self.control_turns += control
        self.candidate_turns += candidate
        equal = required == seen
        if equal:
            self.preserved += len(required)
        else:
            preserved = len(set(required).intersection(seen))
            self.preserved += preserved
            self.suppressed += len(required) - preserved
        if control > candidate:
            if equal and row.lifecycle == "realized" and (required or not strict):
                self.avoided += control - candidate
            else:
                self.withheld += control - candidate
        retained = row.retained_turn_reduction
        if retained is not None:
            self.retained += 1
            self.retained_tokens += retained.tokens
            self.retained_ms.append(retained.latency_ms)
            if len(self.retained_ms) >= _WAITING:
                self.retained_ms = expansion(self.retained_ms)
        self.work.add(row)

    def merge(self, other: Group) -> None:
        """Take in the rows of another group, its work settled."""
        self.decisions += other.decisions
        self.control_turns += other.control_turns
        self.candidate_turns += other.candidate_turns
        self.avoided += other.avoided
        self.withheld += other.withheld
        self.preserved += other.preserved
        self.suppressed += other.suppressed
        self.retained += other.retained
        self.retained_tokens += other.retained_tokens
        self.retained_ms = expansion(self.retained_ms + other.retained_ms)
        self.work.merge(other.work)
