"""What one OTLP request or file part holds for accounting."""

from __future__ import annotations

import msgspec

from otel_turnavoid.dialects import Refusal
from otel_turnavoid.judge.facts import Observation, SpanFact


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Facts and observations of one request, and what became of the rest."""

    facts: list[SpanFact] = []
    observations: list[Observation] = []
    spans: int = 0
    """Spans in the request, of whatever kind."""
    records: int = 0
    """Log records in the request, of whatever kind."""
    conversations: int = 0
    """Recorded conversations, each a run."""
    ignored: int = 0
    """Spans and records that are not about agents."""
    rejected: int = 0
    """Spans and records refused singly; the number for the protocol's partial success."""
    problem: str = ""
    """One line on what was refused and why; empty where nothing was."""


class Intake:
    """Gathers what the dialects found in one request."""

    __slots__ = ("_reasons", "_role", "facts", "ignored", "observations")

    def __init__(self, role: str | None) -> None:
        self.facts: list[SpanFact] = []
        self.observations: list[Observation] = []
        self.ignored = 0
        self._role = role
        self._reasons: dict[str, int] = {}

    def take(self, found: SpanFact | Observation | Refusal | None) -> None:
        """Take what a dialect said about one span or record; None is one to ignore."""
        if found is None:
            self.ignored += 1
        elif isinstance(found, SpanFact):
            self.facts.append(found)
        elif isinstance(found, Refusal):
            self.refuse(found.problem)
        else:
            self.observations.append(msgspec.structs.replace(found, role=self._role))

    def refuse(self, problem: str, count: int = 1) -> None:
        """Refuse spans or records singly."""
        self._reasons[problem] = self._reasons.get(problem, 0) + count

    @property
    def rejected(self) -> int:
        """How many spans or records were refused."""
        return sum(self._reasons.values())

    def problem(self, noun: str, *, limit: int = 3) -> str:
        """Return one line for the sender on what was refused: the first ``limit`` reasons."""
        if not self._reasons:
            return ""
        shown = [f"{reason} ({count})" for reason, count in list(self._reasons.items())[:limit]]
        if len(self._reasons) > limit:
            shown.append(f"and {len(self._reasons) - limit} more reasons")
        return f"{noun} refused: {self.rejected}; {'; '.join(shown)}"
