"""A run: everything one Invoke caused, in one arm, sub-agents and handoffs included.

``Run`` is what pairing and judging look at; ``assembly`` makes it from facts. It is small,
holds no content, and is kept inside every decision, so that a verdict can be checked later
against exactly what was known when it was made.
"""

from __future__ import annotations

import msgspec

from otel_turnavoid.judge.facts import Observation, Process, Retained, Usage
from otel_turnavoid.vocabulary import (
    Arm,
    Evidence,
    InvokeState,
    Lifecycle,
    Mechanism,
    Reason,
    Rejection,
    WithheldCause,
)


class Key(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What two runs must share to be a pair."""

    experiment: str
    """Empty without one."""
    digest: str
    unit: str
    """Empty without one."""
    turn_index: int


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Time (ms) and stated cost (USD) of a run's committed work and of its overhead."""

    model_ms: float = 0.0
    tool_ms: float = 0.0
    model_usd: float = 0.0
    tool_usd: float = 0.0
    validation_ms: float = 0.0
    speculation_ms: float = 0.0
    retry_ms: float = 0.0
    recovery_ms: float = 0.0
    validation_usd: float = 0.0
    speculation_usd: float = 0.0
    retry_usd: float = 0.0
    recovery_usd: float = 0.0
    unpriced_calls: int = 0
    """Model calls of which nothing says what they cost."""
    unpriced_tools: int = 0
    """Tool executions of which nothing says what they cost."""

    @property
    def gross_ms(self) -> float:
        """Time of model calls and tools before overhead."""
        return self.model_ms + self.tool_ms

    @property
    def gross_usd(self) -> float:
        """Cost of model calls and tools before overhead."""
        return self.model_usd + self.tool_usd

    @property
    def overhead_ms(self) -> float:
        """Time of all overhead."""
        return self.validation_ms + self.speculation_ms + self.retry_ms + self.recovery_ms

    @property
    def overhead_usd(self) -> float:
        """Cost of all overhead."""
        return self.validation_usd + self.speculation_usd + self.retry_usd + self.recovery_usd

    def priced_like(self, other: Work) -> bool:
        """Whether the difference of the two costs is a difference of what was spent.

        Every model call of both has to state its cost; tools have to in both runs or in none.
        """
        tools_priced = self.unpriced_tools == other.unpriced_tools == 0
        tools_free = self.tool_usd == other.tool_usd == 0
        return self.unpriced_calls == other.unpriced_calls == 0 and (tools_priced or tools_free)


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Tool executions between one model turn and the next."""

    size: int
    depth: int
    """Longest chain of executions that did not overlap in time."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run as far as its facts tell."""

    run_id: str
    evidence: Evidence
    arm: Arm | None
    variant: str | None
    key: Key | None
    """None until an Invoke with a usable digest was seen."""
    ended: bool
    """The outermost Invoke arrived and is not merely paused."""
    state: InvokeState | None
    start_ns: int
    end_ns: int
    mechanism: Mechanism
    lifecycle: Lifecycle
    reason: Reason
    decision_basis: int
    model_turns: int | None
    """Committed turns, as far as seen; None where the spans cannot tell."""
    llm_calls: int | None
    tool_calls: int | None
    usage: Usage
    rejections: tuple[Rejection, ...]
    causes: tuple[WithheldCause, ...]
    """What this run by itself gives cause to withhold, in the order of the vocabulary."""
    problems: tuple[str, ...]
    """The same for people: what was refused, missing or contradictory, a line each."""
    models: tuple[str, ...]
    """Models of the generations that made committed turns, sorted."""
    scopes: tuple[str, ...]
    """Instrumentation scopes of the facts, sorted."""
    identities: tuple[tuple[str, str], ...]
    """``(service.name, service.instance.id)`` of the facts, sorted; empty where not stated."""
    observations: tuple[Observation, ...]
    """Those within the run's time and skew that are whole, by observer."""
    work: Work
    retained: Retained | None
    batches: tuple[Batch, ...]
    speculation: tuple[tuple[str, int], ...]
    """Speculative calls and tools by disposition."""
    agent: str | None
    trace_ids: tuple[str, ...]
    roots: tuple[tuple[str, str], ...] = ()
    """``(trace id, span id)`` of its outermost Invokes, in order: more than one after a pause."""
    processes: tuple[Process, ...] = ()
    """The processes of the facts, where their resources name them."""
    cut: tuple[str, ...] = ()
    """Observations that prove nothing, as a part of them was left out; a line each."""

    @property
    def pairable(self) -> bool:
        """Whether it can stand in a pair: it names its arm and key, and nothing was refused."""
        return self.arm is not None and self.key is not None and not self.rejections

    @property
    def whole(self) -> bool:
        """Ended, with nothing missing that its Invoke declared."""
        return (
            self.ended
            and self.evidence is Evidence.DECLARED
            and WithheldCause.INCOMPLETE_RUN not in self.causes
            and WithheldCause.COMPLETENESS_UNPROVEN not in self.causes
        )
