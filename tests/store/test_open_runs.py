"""Runs without a final outcome: how many there may be, and that any number expires in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store.deciding import Step
from otel_turnavoid.store.shares import Author
from otel_turnavoid.vocabulary import Entry

EPOCH_NS = 1_790_000_000 * SECOND
EXPIRY = 24 * 3600
MANY = 10**9
ME = Author(1, "me")


def open_runs(bench: Any, numbers: range, at: float) -> None:
    """Begin runs that do not end."""
    facts = [
        SpanFact(
            trace_id=f"{number:032x}",
            span_id=f"{number:016x}",
            entry=Entry.AGENT_TURN,
            own=True,
            dialect="turnavoid",
            scope="test",
            start_ns=number * SECOND,
            end_ns=number * SECOND + 1,
            run_id=f"run-{number:04}",
            seq=1,
        )
        for number in numbers
    ]
    bench.ledger.add(facts, arrived_ns=EPOCH_NS + round(at * SECOND))


def steps(bench: Any, at: float, most: int = MANY) -> list[Step]:
    bench.ledger.hold("me", lease_ns=10**15)
    now_ns = EPOCH_NS + round(at * SECOND)
    return list(bench.ledger.deciding(Settings(), now_ns=now_ns, author=ME, max_open_runs=most))


def decided(made: list[Step]) -> list[str]:
    return [each.run.run_id for step in made for each in step.decisions]


def test_any_number_of_runs_expires_in_steps(bench: Any) -> None:
    open_runs(bench, range(1001), at=0)

    made = steps(bench, EXPIRY)

    assert max(len(step.decisions) for step in made) <= 200
    assert sum(step.expired for step in made) == 1001
    assert decided(made) == [f"run-{number:04}" for number in range(1001)]


def test_whoever_stops_in_between_goes_on_where_it_stopped(bench: Any) -> None:
    open_runs(bench, range(700), at=0)
    steps(bench, 1)
    bench.ledger.hold("me", lease_ns=10**15)
    begun = bench.ledger.deciding(
        Settings(), now_ns=EPOCH_NS + EXPIRY * SECOND, author=ME, max_open_runs=MANY
    )
    first = next(step for step in begun if step.decisions)
    begun.close()

    rest = decided(steps(bench, EXPIRY))

    assert decided([first]) + rest == [f"run-{number:04}" for number in range(700)]


def test_of_too_many_open_runs_the_oldest_get_their_outcome_early(bench: Any) -> None:
    open_runs(bench, range(5), at=0)
    open_runs(bench, range(5, 10), at=1)

    made = steps(bench, 2, most=7)

    assert decided(made) == ["run-0000", "run-0001", "run-0002"]
    assert sum(step.displaced for step in made) == 3
    assert sum(step.expired for step in made) == 0
    assert {name for name, outcome in bench.outcomes().items() if outcome == "incomplete"} == {
        f"run-{number:04}" for number in range(10)
    }


def test_far_too_many_are_displaced_in_steps(bench: Any) -> None:
    open_runs(bench, range(901), at=0)

    made = steps(bench, 2, most=100)

    assert max(len(step.decisions) for step in made) <= 200
    assert decided(made) == [f"run-{number:04}" for number in range(801)]


def test_as_many_as_may_be_open_stay(bench: Any) -> None:
    open_runs(bench, range(7), at=0)

    assert decided(steps(bench, 2, most=7)) == []


def test_runs_with_their_final_outcome_are_not_open(
    bench: Any, run: Callable[..., Batch], seen: Callable[..., Batch]
) -> None:
    bench.add(run("c"), run("k", "fused-batch"), seen("c"), seen("k"), at=0)
    steps(bench, 1)
    open_runs(bench, range(2), at=2)

    assert decided(steps(bench, 20, most=2)) == []


def test_open_runs_are_counted_every_ten_seconds_only(bench: Any) -> None:
    """The count reads every one of them."""
    open_runs(bench, range(3), at=0)
    assert decided(steps(bench, 1, most=3)) == []
    open_runs(bench, range(3, 5), at=2)

    assert decided(steps(bench, 10.9, most=3)) == []
    assert decided(steps(bench, 11, most=3)) == ["run-0000", "run-0001"]
