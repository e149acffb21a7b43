"""Verdicts and the other final decisions, with the runs they were made on.

Decisions are the journal from which every account, metric and report is folded. Each carries
the runs as they were known then; nothing that arrives later changes it.
"""

from __future__ import annotations

from typing import Union

import msgspec

from otel_turnavoid.judge.run import Run
from otel_turnavoid.vocabulary import Comparison, Evidence, Outcome, WithheldCause


class PairDecided(msgspec.Struct, frozen=True, kw_only=True, tag="pair"):
    """The verdict on one control and one candidate run of the same key."""

    control: Run
    candidate: Run
    potential: int
    """``max(control turns - candidate turns, 0)``; always avoided + withheld."""
    avoided: int
    withheld: int
    added: int
    """``max(candidate turns - control turns, 0)``."""
    causes: tuple[WithheldCause, ...]
    """Every cause that applies, in the order of the vocabulary; also where potential is 0."""
    observer: str | None
    """Whose observations were compared."""
    control_effects: tuple[str, ...]
    candidate_effects: tuple[str, ...]
    """Effect labels, sorted, repetitions marked ``#2``, ``#3``…"""
    preserved: int
    suppressed: int
    comparison: Comparison | None = None
    """In what the runs differ by leave of the configuration: a series of its own."""

    @property
    def evidence(self) -> Evidence:
        """The weaker of the two runs': a pair is proven only if both are."""
        return _weaker(self.control, self.candidate)


class NullDecided(msgspec.Struct, frozen=True, kw_only=True, tag="null"):
    """Two control runs of one key: how far apart equal runs are by chance."""

    first: Run
    second: Run
    avoided: int
    added: int
    comparison: Comparison | None = None
    """As of a pair with a candidate."""

    @property
    def evidence(self) -> Evidence:
        """As of a pair with a candidate."""
        return _weaker(self.first, self.second)


class RunDecided(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """The final outcome of one run, made once: with its first pair, its rejection or expiry."""

    run: Run
    outcome: Outcome


Decision = Union[PairDecided, NullDecided, RunDecided]

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder: msgspec.json.Decoder[Decision] = msgspec.json.Decoder(Decision)


def _weaker(one: Run, other: Run) -> Evidence:
    proven = one.evidence is other.evidence is Evidence.DECLARED
    return Evidence.DECLARED if proven else Evidence.INFERRED


def reference(decision: Decision) -> str:
    """Return what a decision is about: it can be made only once for each reference."""
    if isinstance(decision, PairDecided):
        return f"pair {decision.control.run_id}\n{decision.candidate.run_id}"
    if isinstance(decision, NullDecided):
        return f"null {decision.first.run_id}\n{decision.second.run_id}"
    return f"run {decision.run.run_id}"


def encode(decision: Decision) -> bytes:
    """Return the canonical bytes of a decision."""
    return _encoder.encode(decision)


def decode(body: bytes | str) -> Decision:
    """Read back a decision that ``encode`` wrote."""
    return _decoder.decode(body)
