"""Evidence read again under another configuration is the same evidence, read better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from otel_turnavoid.judge.facts import CallDetail, Configured, SpanFact
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import Added, deciding
from otel_turnavoid.vocabulary import Arm, Entry, Evidence, Lifecycle


def calls(arm: Arm, run_id: str | None, *, added: bool) -> Sequence[SpanFact]:
    """Return bare calls of other instrumentations: three in the control, two in the candidate."""
    configured = Configured(
        run_id=run_id, arm=arm, lifecycle=Lifecycle.REALIZED, digest_parts={"task": '"cancel"'}
    )
    count, trace_id = (3, "c" * 32) if arm is Arm.CONTROL else (2, "d" * 32)
    return [
        SpanFact(
            trace_id=trace_id,
            span_id=f"{number:016x}",
            entry=Entry.LLM_CALL,
            dialect="gen_ai",
            scope="openai",
            service="agent",
            start_ns=10 * number,
            end_ns=10 * number + 5,
            call=CallDetail(model="m"),
            configured=configured if added else None,
        )
        for number in range(1, count + 1)
    ]


@pytest.fixture
def recorded(bench: Any) -> Callable[..., Any]:
    """Add both runs as read with or without a configuration, the run id by name or none."""
    bench.settings = Settings(accept=frozenset(Evidence), digest=("task",))

    def add(*, added: bool, prefix: str = "run") -> Any:
        both = [
            *calls(Arm.CONTROL, f"{prefix}-c", added=added),
            *calls(Arm.FUSED_BATCH, f"{prefix}-k", added=added),
        ]
        return bench.add(Batch(facts=both), at=0)

    return add


def test_it_is_counted_as_known(recorded: Callable[..., Any]) -> None:
    recorded(added=False)

    assert recorded(added=True) == Added(0, 0, 5)


def test_it_makes_runs_of_calls_that_belonged_to_none(
    bench: Any, recorded: Callable[..., Any]
) -> None:
    recorded(added=False)
    bench.decide(0)
    before = bench.outcomes()
    recorded(added=True)
    bench.decide(1)

    assert before == {f"trace:{'c' * 32}": "unattributed", f"trace:{'d' * 32}": "unattributed"}
    assert bench.outcomes() == {"run-c": "unpaired", "run-k": "unpaired"}


def test_it_contradicts_nothing_by_itself(bench: Any, recorded: Callable[..., Any]) -> None:
    recorded(added=False)
    recorded(added=True)
    bench.decide(0, final=True)

    assert bench.journal()[0] == ("pair", "run-c", "run-k", 0, 1, "effects-unobserved")


def test_runs_that_lose_all_their_spans_are_forgotten(
    bench: Any, recorded: Callable[..., Any]
) -> None:
    recorded(added=True)
    bench.decide(0)
    recorded(added=True, prefix="session")
    bench.decide(1)

    assert bench.outcomes() == {"session-c": "unpaired", "session-k": "unpaired"}


def test_a_run_that_cannot_be_assembled_does_not_hold_up_the_others(
    bench: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    assemble = deciding.assemble

    def broken(run_id: str, *arguments: Any) -> Any:
        if run_id == "c":
            raise ZeroDivisionError
        return assemble(run_id, *arguments)

    monkeypatch.setattr(deciding, "assemble", broken)
    bench.add(run("c"), run("k", "fused-batch"), at=0)
    bench.decide(1)

    assert bench.outcomes() == {"k": "unpaired"}
    assert "run 'c' cannot be assembled and is left out" in caplog.messages
