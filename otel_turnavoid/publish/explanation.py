"""What was seen of a run or pair, what was decided and why, as values.

``explained_run`` and ``explained_pair`` make them from stored facts and decisions,
``explanation_text`` writes them for people and ``explanation_json`` for programs.
"""

from __future__ import annotations

import msgspec

from otel_turnavoid.judge.calls import Rule
from otel_turnavoid.judge.facts import Counts
from otel_turnavoid.vocabulary import (
    Arm,
    Comparison,
    Entry,
    Outcome,
    WithheldCause,
)


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """One cause: in words, as found here, and what would have to be true instead."""

    cause: str
    what: str
    found: tuple[str, ...]
    wanted: str


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """One more span of a call or tool that is counted once."""

    span_id: str
    scope: str
    rule: Rule
    """How it was known to show the same."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """A call or tool that more than one span shows."""

    of: str
    """Which one, such as ``entry 4``."""
    scope: str
    copies: tuple[Copy, ...]


class EntryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One entry, in the order of the run."""

    seq: int | None
    """None on spans of other instrumentations."""
    entry: Entry
    name: str
    """Of the agent, model or tool."""
    became: str
    at_ms: float
    """From the start of the run."""
    took_ms: float
    trace_id: str
    span_id: str
    scope: str


class CallLine(msgspec.Struct, frozen=True, kw_only=True):
    """One LlmCall of a turn."""

    of: str
    model: str | None
    attempt: int | None
    became: str


class TurnLine(msgspec.Struct, frozen=True, kw_only=True):
    """One model turn, or work that is none."""

    number: int | None
    """From 1 among the committed turns; None: not counted."""
    of: str
    because: str
    calls: tuple[CallLine, ...]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One observation that names a run."""

    observer: str
    service: str | None
    instance: str | None
    at_ms: float
    """From the start of the run."""
    effects: tuple[str, ...]
    ordered: bool
    """The observer states that they happened in this order."""
    counts: bool
    problem: str
    """Why it does not count; empty where it does."""


class RunExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what was seen of it, and where it stands."""

    run_id: str
    arm: Arm | None
    variant: str | None
    mechanism: str
    lifecycle: str
    reason: str
    evidence: str
    outcome: Outcome | None
    """None: not assembled by the processor yet."""
    final: bool
    state: str | None
    start_ns: int
    took_ms: float
    experiment: str
    digest: str | None
    unit: str
    turn_index: int
    trace_ids: tuple[str, ...]
    services: tuple[str, ...]
    model_turns: int | None
    llm_calls: int | None
    tool_calls: int | None
    entries: tuple[EntryLine, ...]
    turns: tuple[TurnLine, ...]
    merged: tuple[Merged, ...]
    repeated: int
    """Further exports of entries that were put together with the first."""
    unknown: tuple[str, ...]
    """What the spans cannot tell, and why: a line each."""
    declared: Counts | None
    missing: tuple[str, ...]
    problems: tuple[str, ...]
    """Everything that speaks against the run, as the judge says it."""
    observations: tuple[Seen, ...]
    why: tuple[Why, ...]
    """Why it stands where it stands, if it is not paired."""


class EffectsCompared(msgspec.Struct, frozen=True, kw_only=True):
    """Both effect lists and their difference."""

    observer: str | None
    compared: bool
    """Whether one observer's observations of both runs were compared."""
    control: tuple[str, ...]
    candidate: tuple[str, ...]
    missing: tuple[str, ...]
    """In the control's list only."""
    added: tuple[str, ...]
    """In the candidate's list only."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one verdict."""

    control_turns: int | None
    candidate_turns: int | None
    potential: int
    avoided: int
    withheld: int
    added: int
    causes: tuple[WithheldCause, ...]


class PairExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict, which is final, and what led to it."""

    number: int
    """Its id in the journal."""
    decided_ns: int
    control: str
    candidate: str
    arm: Arm | None
    variant: str | None
    mechanism: str
    lifecycle: str
    reason: str
    comparison: Comparison | None
    """In what the runs differ by leave of the configuration."""
    verdict: Figures
    effects: EffectsCompared
    why: tuple[Why, ...]
    for_credit: tuple[str, ...]
    """What was found to be in order, where there is no cause."""
    contradicted_ns: int | None
    today: Figures | None
    """What would be decided today; None unless contradicted."""
    today_effects: EffectsCompared | None


class NullExplained(msgspec.Struct, frozen=True, kw_only=True):
    """Two control runs that were compared for the noise."""

    number: int
    first: str
    second: str
    first_turns: int | None
    second_turns: int | None
    avoided: int
    added: int


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question."""

    asked: str
    note: str = ""
    """What to know before reading; mostly nothing."""
    pairs: tuple[PairExplained, ...] = ()
    runs: tuple[RunExplained, ...] = ()
    nulls: tuple[NullExplained, ...] = ()


def explanation_json(explanation: Explanation) -> bytes:
    """Return an explanation as one JSON object."""
    return msgspec.json.encode(explanation)
