"""What a paused run hands to its next segment: small, text, safe to keep in a database."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Link, SpanContext, TraceFlags

from otel_turnavoid.errors import UsageError
from otel_turnavoid.instrument.run import Counts
from otel_turnavoid.vocabulary import Attr

if TYPE_CHECKING:
    from otel_turnavoid.instrument.run import RunState

_VERSION = 1


@dataclass(frozen=True)
class Handover:
    """A run between two segments. Holds ids, words, counts and a digest, no content."""

    run_id: str
    """Empty where a run that was suppressed paused: nothing goes on then."""
    common: dict[str, str]
    """Arm and variant."""
    said: dict[str, Any] = field(default_factory=dict)
    """What every segment repeats: digest, experiment, unit, agent…"""
    agent_turns: int = 0
    llm_calls: int = 0
    tool_turns: int = 0
    entries: int = 0
    """Counts so far; ``entries`` is the next sequence number."""
    proven: bool = True
    """Whether the counts are known to be whole."""
    trace_id: int = 0
    span_id: int = 0
    """The paused Invoke, for a link."""

    @classmethod
    def of(
        cls, run: RunState, said: dict[str, Any], paused: SpanContext, *, proven: bool
    ) -> Handover:
        """Return the handover of a run that pauses now."""
        counts = run.counts()._asdict()
        common = {key: value for key, value in run.common.items() if key != Attr.RUN_ID}
        return cls(
            run_id=run.run_id or "",
            common=common,
            said=said,
            **counts,
            proven=proven and run.numbered,
            trace_id=paused.trace_id,
            span_id=paused.span_id,
        )

    @property
    def counts(self) -> Counts:
        """Entries of the segments so far."""
        return Counts(self.agent_turns, self.llm_calls, self.tool_turns, self.entries)

    @property
    def links(self) -> list[Link]:
        """Return a link to the paused Invoke, if it was recorded."""
        where = SpanContext(self.trace_id, self.span_id, is_remote=True, trace_flags=TraceFlags(1))
        return [Link(where)] if where.is_valid else []

    def __str__(self) -> str:
        return json.dumps({"v": _VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Handover:
        """Read what ``str(handover)`` wrote.

        Raises:
            UsageError: It is something else.
        """
        try:
            said = json.loads(text)
            version = said.pop("v")
            handover = cls(**said)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"not a handover of a paused run: {error}") from None
        if version != _VERSION:
            raise UsageError(f"a handover of version {version!r}, this is version {_VERSION}")
        if not isinstance(handover.run_id, str) or not isinstance(handover.common, dict):
            raise UsageError("not a handover of a paused run: it names no run")
        if not all(type(number) is int and number >= 0 for number in handover.counts):
            raise UsageError("not a handover of a paused run: its counts are no whole numbers")
        return handover
