"""Hand-made facts, observations and runs, so that each test can spoil one thing.

``Script`` writes the facts of one run entry by entry, as our instrumentation would: numbered,
nested, and with counts declared at its end. Times are milliseconds after ``START_NS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import msgspec
import pytest

from otel_turnavoid.judge.across import Across
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.facts import (
    CallDetail,
    Counts,
    InvokeDetail,
    Observation,
    SpanFact,
    ToolDetail,
    Usage,
)
from otel_turnavoid.judge.run import Key, Run, Work
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import (
    SCOPE,
    Arm,
    Disposition,
    Entry,
    Evidence,
    InvokeState,
    Lifecycle,
    Mechanism,
    Reason,
)

START_NS = 1_780_000_000_000_000_000
MS = 1_000_000
DIGEST = "sha256:" + "1d" * 32
USAGE = Usage(input=200, output=20)


class Script:
    """The facts of one run; every method adds an entry and returns its fact."""

    def __init__(
        self,
        run_id: str = "k",
        arm: Arm | None = Arm.EXACT_REUSE,
        *,
        start_ms: int = 0,
        trace_id: str | None = None,
        **common: Any,
    ) -> None:
        self.now_ms = start_ms
        self.spans: list[SpanFact] = []
        self._trace_id = trace_id or f"trace-of-{run_id}"
        self._numbers, self._seqs = count(), count()
        self._common = {
            "run_id": run_id,
            "arm": arm,
            "scope": SCOPE,
            "service": "agent",
            "instance": f"agent-{run_id}",
            "dialect": "turnavoid",
            **common,
        }
        self.root = self._make(Entry.INVOKE, None, start_ms, start_ms, {"own": True})

    def add(
        self,
        entry: Entry | None,
        parent: SpanFact | None = None,
        *,
        start_ms: int | None = None,
        ms: int = 0,
        **said: Any,
    ) -> SpanFact:
        """Add an entry of ours below ``parent`` (the Invoke); it starts now unless told."""
        begun_ms = self.now_ms if start_ms is None else start_ms
        fact = self._make(
            entry, parent or self.root, begun_ms, begun_ms + ms, {"own": True, **said}
        )
        self.spans.append(fact)
        self.now_ms = max(self.now_ms, begun_ms + ms)
        return fact

    def foreign(
        self,
        entry: Entry | None,
        parent: SpanFact | None = None,
        *,
        stamped: bool = False,
        scope: str = "other.instrumentation",
        **said: Any,
    ) -> SpanFact:
        """Add another instrumentation's span; ``stamped`` with the run id or not."""
        common = {"own": False, "scope": scope, "dialect": "gen_ai"}
        if not stamped:
            common |= {"run_id": None, "arm": None}
        if entry is Entry.LLM_CALL:
            said.setdefault("call", CallDetail(model="gpt-5.1", usage=USAGE))
        return self.add(entry, parent, **{**common, **said})

    def call(
        self, parent: SpanFact | None = None, *, ms: int = 1000, start_ms: int | None = None, **said
    ) -> SpanFact:
        """Add an LlmCall; keywords that a ``CallDetail`` has go there."""
        fields = {key: said.pop(key) for key in CallDetail.__struct_fields__ if key in said}
        detail = CallDetail(**{"model": "gpt-5.1", "usage": USAGE, **fields})
        return self.add(Entry.LLM_CALL, parent, ms=ms, start_ms=start_ms, call=detail, **said)

    def tool(
        self, parent: SpanFact | None = None, *, ms: int = 100, start_ms: int | None = None, **said
    ) -> SpanFact:
        """Add a ToolTurn; keywords that a ``ToolDetail`` has go there."""
        fields = {key: said.pop(key) for key in ToolDetail.__struct_fields__ if key in said}
        detail = ToolDetail(**{"name": "lookup", **fields})
        return self.add(Entry.TOOL_TURN, parent, ms=ms, start_ms=start_ms, tool=detail, **said)

    def turn(
        self,
        *calls: dict[str, Any],
        says: Disposition | None = Disposition.COMMITTED,
        parent: SpanFact | None = None,
        nested: bool = True,
        **said: Any,
    ) -> SpanFact:
        """Add an AgentTurn with these calls in it, one after the other."""
        at, begun_ms = len(self.spans), self.now_ms
        turn = self.add(Entry.AGENT_TURN, parent, turn=says, **said)
        for each in calls:
            self.call(turn if nested else parent, **each)
        turn = msgspec.structs.replace(turn, end_ns=START_NS + self.now_ms * MS)
        self.spans[at] = turn
        assert turn.start_ns == START_NS + begun_ms * MS
        return turn

    def turns(self, number: int, *, tools: int = 0) -> Script:
        """Add plain turns: one committed call on an input of its own, then tools."""
        for _ in range(number):
            self.turn({"input_digest": digest_number(next(self._numbers))})
            for _ in range(tools):
                self.tool()
        return self

    def counts(self) -> Counts:
        """Count what is there, as the Invoke would."""
        entries = [fact for fact in self.spans if fact.own and fact.entry is not None]
        counted = [fact for fact in self.spans if fact.own or fact.run_id is not None]
        return Counts(
            agent_turns=sum(fact.entry is Entry.AGENT_TURN for fact in entries),
            llm_calls=sum(fact.entry is Entry.LLM_CALL for fact in counted),
            tool_turns=sum(fact.entry is Entry.TOOL_TURN for fact in counted),
            entries=len(entries) + 1,
        )

    def done(self, **said: Any) -> list[SpanFact]:
        """End the run: the Invoke with its counts, unless told otherwise, and all else."""
        detail = {
            "state": InvokeState.COMPLETED,
            "counts": self.counts(),
            "digest": DIGEST,
            "mechanism": Mechanism.EXACT_REUSE,
            "lifecycle": Lifecycle.REALIZED,
            "reason": Reason.EXACT_MATCH,
            **{key: said.pop(key) for key in InvokeDetail.__struct_fields__ if key in said},
        }
        root = msgspec.structs.replace(
            self.root,
            end_ns=START_NS + self.now_ms * MS,
            invoke=InvokeDetail(**detail),
            **said,
        )
        return [root, *self.spans]

    def _make(
        self,
        entry: Entry | None,
        parent: SpanFact | None,
        start_ms: int,
        end_ms: int,
        said: dict[str, Any],
    ) -> SpanFact:
        fields = {
            "trace_id": self._trace_id,
            "span_id": f"{self._common['run_id']}-{next(self._numbers)}",
            "parent_id": parent.span_id if parent is not None else None,
            "start_ns": START_NS + start_ms * MS,
            "end_ns": START_NS + end_ms * MS,
            **self._common,
            **said,
        }
        if fields["own"] and entry is not None and "seq" not in fields:
            fields["seq"] = next(self._seqs)
        return SpanFact(entry=entry, **fields)


def digest_number(number: int) -> str:
    return f"sha256:{number:064x}"


def observation_of(run_id: str, *labels: str, at_ms: int = 1000, **changes: Any) -> Observation:
    fields = {
        "observer": "orders-db",
        "labels": labels,
        "observed_ns": START_NS + at_ms * MS,
        "service": "observer",
        "instance": "observer-1",
    }
    return Observation(run_id=run_id, **{**fields, **changes})


def run_of(
    run_id: str, arm: Arm | None, turns: int | None, *labels: str, start_ns: int = 0, **changes: Any
) -> Run:
    control = arm is Arm.CONTROL
    fields = {
        "run_id": run_id,
        "evidence": Evidence.DECLARED,
        "arm": arm,
        "variant": None,
        "key": Key("", DIGEST, "", 0),
        "ended": True,
        "state": InvokeState.COMPLETED,
        "start_ns": start_ns,
        "end_ns": start_ns + 1,
        "mechanism": Mechanism.CONTROL if control else Mechanism.EXACT_REUSE,
        "lifecycle": Lifecycle.REALIZED,
        "reason": Reason.BASELINE if control else Reason.EXACT_MATCH,
        "decision_basis": -1,
        "model_turns": turns,
        "llm_calls": turns,
        "tool_calls": 2,
        "usage": USAGE,
        "rejections": (),
        "causes": (),
        "problems": (),
        "models": ("gpt-5.1",),
        "scopes": (SCOPE,),
        "identities": (("agent", f"agent-{run_id}"),),
        "observations": (observation_of(run_id, *labels),) if labels else (),
        "work": Work(),
        "retained": None,
        "batches": (),
        "speculation": (),
        "agent": None,
        "trace_ids": (run_id,),
    }
    return Run(**{**fields, **changes})


@pytest.fixture(scope="session")
def script() -> type[Script]:
    return Script


@pytest.fixture(scope="session")
def observation() -> Callable[..., Observation]:
    return observation_of


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    return run_of


@pytest.fixture(scope="session")
def number() -> Callable[[int], str]:
    """A digest for each number."""
    return digest_number


@pytest.fixture(scope="session")
def assembled() -> Callable[..., Run]:
    """The run that facts and observations of it make."""

    def make(
        facts: Iterable[SpanFact], *observations: Observation, run_id: str = "k", **settings: Any
    ) -> Run:
        return assemble(run_id, facts, observations, Settings(**settings))

    return make


@pytest.fixture(scope="session")
def assembled_across() -> Callable[..., Run]:
    """The run that facts make, beside what other runs' spans say about it."""

    def make(facts: Iterable[SpanFact], found: Across) -> Run:
        return assemble("k", facts, (), Settings(), found)

    return make
