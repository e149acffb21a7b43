"""Old evidence goes, every figure stays, and what went does not come back as news."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid.judge.facts import CallDetail, InvokeDetail, SpanFact, Usage
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import Added
from otel_turnavoid.store.pruning import Pruned
from otel_turnavoid.vocabulary import Entry

MakeBatch = Callable[..., Batch]
EPOCH_S = 1_790_000_000
"""When the processor's clock reads 0 here."""
DAY = 86_400
ENTRIES = 11
"""Entries of a run of three turns."""


def prune(bench: Any, before: float) -> Pruned:
    """Remove what is older, and return how much that was."""
    steps = bench.ledger.prune(round((EPOCH_S + before) * SECOND))
    return Pruned(*map(sum, zip(*steps, strict=True)))


@pytest.fixture
def pair(run: MakeBatch, seen: MakeBatch) -> tuple[Batch, ...]:
    """A control, a candidate with a turn less, and what was observed of them."""
    return run("c"), run("k", "exact-reuse", turns=2), seen("c"), seen("k")


@pytest.fixture
def decided(bench: Any, pair: tuple[Batch, ...]) -> Any:
    bench.add(*pair, at=0)
    bench.decide(DAY)
    return bench


def test_the_evidence_of_decided_runs_goes_and_the_journal_stays(decided: Any) -> None:
    journal = list(decided.ledger.decisions())

    assert prune(decided, 2 * DAY) == Pruned(runs=2, facts=ENTRIES + 8, observations=2)

    assert list(decided.ledger.decisions()) == journal
    assert decided.ledger.sizes() == {
        "spans": 0,
        "observations": 0,
        "runs": 0,
        "decisions": len(journal),
    }
    with decided.ledger._database.read() as connection:
        for table in ("keys", "pending", "twins"):
            count = f"SELECT count(*) FROM turnavoid_{table}"
            assert connection.exec_driver_sql(count).scalar() == 0


def test_what_went_is_not_taken_again_and_changes_nothing(
    decided: Any, pair: tuple[Batch, ...]
) -> None:
    prune(decided, 2 * DAY)
    journal = list(decided.ledger.decisions())

    assert decided.add(*pair, at=2 * DAY) == Added(0, 0, 0, late=ENTRIES + 8 + 2)

    assert decided.decide(9 * DAY) == []
    assert decided.contradicted() == []
    assert list(decided.ledger.decisions()) == journal


def test_the_limit_holds_after_a_restart_and_where_more_is_kept_from_now_on(
    decided: Any, pair: tuple[Batch, ...]
) -> None:
    prune(decided, 2 * DAY)
    decided.reopen()
    prune(decided, -9 * DAY)

    assert decided.add(*pair, at=2 * DAY).late == ENTRIES + 8 + 2


def test_without_retention_evidence_of_any_age_is_taken(bench: Any, run: MakeBatch) -> None:
    assert bench.add(run("c", start_ns=SECOND), at=0) == Added(ENTRIES, 0, 0)


def test_what_is_young_enough_is_taken_beside_what_is_too_late(
    decided: Any, run: MakeBatch, pair: tuple[Batch, ...]
) -> None:
    prune(decided, 2 * DAY)
    young = run("young", start_ns=(EPOCH_S + 2 * DAY) * SECOND)

    assert decided.add(*pair, young, at=2 * DAY) == Added(ENTRIES, 0, 0, late=ENTRIES + 8 + 2)


def test_a_run_that_something_arrived_for_lately_stays(decided: Any) -> None:
    assert prune(decided, -1) == Pruned()
    assert decided.ledger.sizes()["runs"] == 2


def test_a_run_whose_outcome_is_not_final_stays(bench: Any, pair: tuple[Batch, ...]) -> None:
    bench.add(pair[0], at=0)
    bench.decide(1)

    assert prune(bench, 2 * DAY) == Pruned()
    assert bench.outcomes() == {"c": "unpaired"}


def test_a_run_that_is_young_by_its_senders_clock_stays(
    bench: Any, run: MakeBatch, seen: MakeBatch
) -> None:
    """Else its evidence would be news when it comes again: it is not too late."""
    ahead = (EPOCH_S + 3 * DAY) * SECOND
    bench.add(run("c", start_ns=ahead), at=0)
    bench.decide(9 * DAY)

    assert prune(bench, 2 * DAY) == Pruned()
    assert bench.ledger.sizes()["runs"] == 1


def test_a_run_about_which_something_waits_stays(decided: Any, seen: MakeBatch) -> None:
    decided.add(seen("k", labels=["order:42=kept"]), at=DAY)

    assert prune(decided, 2 * DAY) == Pruned(runs=1, facts=ENTRIES, observations=1)
    assert decided.outcomes() == {"k": "paired"}


def test_a_candidate_finds_no_partner_whose_evidence_is_gone(
    decided: Any, run: MakeBatch, seen: MakeBatch
) -> None:
    prune(decided, 2 * DAY)
    now = (EPOCH_S + 2 * DAY) * SECOND
    decided.add(run("late", "fused-batch", start_ns=now), seen("late", observed_ns=now), at=2 * DAY)

    assert decided.decide(9 * DAY) == [("run", "late", "unpaired")]


def test_observations_of_runs_that_never_came_go(bench: Any, seen: MakeBatch) -> None:
    bench.add(seen("never"), at=0)
    bench.decide(1)

    assert prune(bench, 2 * DAY) == Pruned(observations=1)


def test_many_runs_go_in_steps(bench: Any) -> None:
    bench.ledger.add([foreign(n, n, Entry.INVOKE) for n in range(1, 451)], arrived_ns=1)
    bench.decide(9 * DAY)

    steps = list(bench.ledger.prune(EPOCH_S * SECOND))

    assert max(step.runs for step in steps) <= 100
    assert sum(step.runs for step in steps) == 450
    assert bench.ledger.sizes()["spans"] == 0


def test_whoever_stops_in_between_goes_on_later(bench: Any) -> None:
    bench.ledger.add([foreign(n, n, Entry.INVOKE) for n in range(1, 451)], arrived_ns=1)
    bench.decide(9 * DAY)
    steps = bench.ledger.prune(EPOCH_S * SECOND)
    first = next(steps)
    while not first.runs:
        first = next(steps)
    steps.close()

    assert prune(bench, 0).runs == 450 - first.runs


def foreign(trace: int, span: int, entry: Entry, *, at: int = 7, parent: int = 0) -> SpanFact:
    """A span of another instrumentation, without a run id."""
    call = CallDetail(response_id=f"r{span}", usage=Usage(input=span, output=1))
    return SpanFact(
        trace_id=f"{trace:032x}",
        span_id=f"{span:016x}",
        parent_id=f"{parent:016x}" if parent else None,
        entry=entry,
        dialect="genai",
        scope="other",
        start_ns=at,
        end_ns=at + 1,
        invoke=InvokeDetail() if entry is Entry.INVOKE else None,
        call=call if entry is Entry.LLM_CALL else None,
    )


def test_a_trace_goes_with_the_last_of_its_runs(bench: Any) -> None:
    call = Entry.LLM_CALL
    one = [foreign(1, 1, Entry.INVOKE), foreign(1, 2, call, parent=1)]
    other = [foreign(1, 3, Entry.INVOKE, at=20), foreign(1, 4, call, parent=3, at=20)]
    bench.ledger.add([*one, *other], arrived_ns=1)
    bench.decide(9 * DAY)
    assert len(bench.outcomes()) == 2

    assert sum(step.facts for step in bench.ledger.prune(20)) == 0
    assert sum(step.facts for step in bench.ledger.prune(30)) == 4


def test_what_copies_were_found_by_goes_too(bench: Any) -> None:
    bench.ledger.add([foreign(1, 1, Entry.LLM_CALL)], arrived_ns=1)
    bench.decide(9 * DAY)

    assert prune(bench, 0) == Pruned(runs=1, facts=1)
    with bench.ledger._database.read() as connection:
        count = "SELECT count(*) FROM turnavoid_twins"
        assert connection.exec_driver_sql(count).scalar() == 0
