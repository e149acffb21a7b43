"""Facts are kept once, decisions in order, and both outlive the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import Added, Ledger
from otel_turnavoid.vocabulary import Entry

MakeRun = Callable[..., Batch]
ENTRIES = 11
"""Entries of a run of three turns with a tool each: Invoke, UserTurn, 3 x 3."""


def fact_of(number: int) -> SpanFact:
    return SpanFact(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        entry=Entry.INVOKE,
        own=True,
        dialect="turnavoid",
        scope="test",
        start_ns=number * SECOND,
        end_ns=number * SECOND + 1,
        run_id=f"run-{number}",
        seq=0,
    )


def test_the_same_facts_again_change_nothing(
    bench: Any, run: MakeRun, seen: Callable[..., Batch]
) -> None:
    first = bench.add(run("c"), seen("c"), at=0)
    sizes = bench.ledger.sizes()

    again = bench.add(run("c"), seen("c"), at=1)

    assert first == Added(facts=ENTRIES, observations=1, duplicates=0)
    assert again == Added(facts=0, observations=0, duplicates=ENTRIES + 1)
    assert bench.ledger.sizes() == sizes


def test_the_same_facts_after_a_restart_change_nothing(bench: Any, run: MakeRun) -> None:
    bench.add(run("c"), at=0)
    bench.reopen()

    assert bench.add(run("c"), at=1) == Added(0, 0, ENTRIES)


def test_known_facts_do_not_wake_a_decided_run(
    bench: Any, run: MakeRun, seen: Callable[..., Batch]
) -> None:
    everything = run("c"), run("k", "fused-batch", turns=2), seen("c"), seen("k")
    bench.add(*everything, at=0)
    bench.decide(1)

    bench.add(*everything, at=2)

    assert bench.decide(100_000) == []


def test_nothing_to_add_is_no_transaction(bench: Any) -> None:
    assert bench.add(at=0) == Added(0, 0, 0)


def test_duplicates_within_one_call_count_once(bench: Any, run: MakeRun) -> None:
    assert bench.add(run("c"), run("c"), run("c"), at=0) == Added(ENTRIES, 0, 2 * ENTRIES)
    assert bench.ledger.sizes()["spans"] == ENTRIES


def test_new_facts_among_known_ones_are_found(bench: Any, run: MakeRun) -> None:
    whole = run("c")
    half = msgspec.structs.replace(whole, facts=whole.facts[::2])
    bench.add(half, at=0)

    added = bench.add(run("c"), run("d"), run("d"), at=1)

    assert added == Added(
        facts=2 * ENTRIES - len(half.facts), observations=0, duplicates=ENTRIES + len(half.facts)
    )
    assert bench.ledger.sizes()["spans"] == 2 * ENTRIES


def test_two_contents_under_one_span_id_are_both_kept(bench: Any) -> None:
    fact = fact_of(1)
    other = msgspec.structs.replace(fact, end_ns=fact.end_ns + 1)

    assert bench.ledger.add([fact], arrived_ns=1) == Added(1, 0, 0)
    assert bench.ledger.add([other], arrived_ns=2) == Added(1, 0, 0)
    assert bench.ledger.add([other, fact], arrived_ns=3) == Added(0, 0, 2)
    assert bench.ledger.sizes()["spans"] == 2


def test_two_observations_by_one_observer_are_both_kept(
    bench: Any, seen: Callable[..., Batch]
) -> None:
    bench.add(seen("c"), at=0)

    assert bench.add(seen("c", labels=["order:42=kept"]), at=1) == Added(0, 1, 0)
    assert bench.ledger.sizes()["observations"] == 2


def test_many_more_facts_than_fit_one_statement_are_compared(bench: Any) -> None:
    facts = [fact_of(number) for number in range(1, 1702)]
    bench.ledger.add(facts[::3], arrived_ns=1)

    added = bench.ledger.add(facts, arrived_ns=2)

    known = len(facts[::3])
    assert added == Added(len(facts) - known, 0, known)


def test_runs_come_by_start_over_many_pages(bench: Any) -> None:
    numbers = list(range(1, 1203))
    facts = [fact_of(number) for number in numbers]
    bench.ledger.add(facts[::-1], arrived_ns=1)
    bench.decide(0)

    assert [line.run.run_id for line in bench.ledger.runs()] == [f"run-{n}" for n in numbers]


def test_runs_that_start_together_come_by_id_over_many_pages(bench: Any) -> None:
    facts = [msgspec.structs.replace(fact_of(n), start_ns=7) for n in range(1, 1102)]
    bench.ledger.add(facts, arrived_ns=1)
    bench.decide(0)

    ids = [line.run.run_id for line in bench.ledger.runs()]

    assert ids == sorted(f"run-{n}" for n in range(1, 1102))


def test_the_journal_goes_on_after_any_decision_over_many_pages(bench: Any) -> None:
    facts = [fact_of(number) for number in range(1, 1102)]
    bench.ledger.add(facts, arrived_ns=1)
    bench.decide(0)
    journal = list(bench.ledger.decisions())

    ids = [number for number, _ in journal]
    assert len(ids) == 1101
    assert ids == sorted(set(ids))
    assert list(bench.ledger.decisions(after=ids[700])) == journal[701:]
    assert list(bench.ledger.decisions(after=ids[-1])) == []


def test_runs_go_on_after_any_run_over_many_pages(bench: Any) -> None:
    bench.ledger.add([fact_of(number) for number in range(1, 1203)], arrived_ns=1)
    bench.decide(0)
    lines = list(bench.ledger.runs())
    last = lines[600].run

    assert list(bench.ledger.runs(after=(last.start_ns, last.run_id))) == lines[601:]
    assert list(bench.ledger.runs(after=(2**62, ""))) == []


def test_decide_returns_what_it_journals_in_order(
    bench: Any, run: MakeRun, seen: Callable[..., Batch]
) -> None:
    bench.add(run("c"), run("k", "fused-batch", turns=2), seen("c"), seen("k"), at=0)

    made = bench.ledger.decide(Settings(), now_ns=2**62)

    assert made == [decision for _, decision in bench.ledger.decisions()]


def test_a_ledger_may_be_written_and_decided_from_many_threads(bench: Any, run: MakeRun) -> None:
    runs = [run(f"c{number}", task=number) for number in range(24)]
    errors: list[BaseException] = []

    def work(part: int) -> None:
        try:
            for batch in runs[part::4]:
                bench.add(batch, at=0)
                bench.decide(0)
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.decide(0)

    assert errors == []
    assert bench.outcomes() == {f"c{number}": "unpaired" for number in range(24)}


def test_closing_twice_is_safe(url: str) -> None:
    ledger = Ledger.open(url)
    ledger.close()

    ledger.close()


@pytest.mark.parametrize("run_id", ["é漢字", "a'; DROP TABLE turnavoid_runs; --", "x" * 4000, "%_"])
def test_a_run_id_is_only_ever_text(bench: Any, run: MakeRun, run_id: str) -> None:
    bench.add(run(run_id), at=0)
    bench.decide(0)

    assert bench.outcomes() == {run_id: "unpaired"}
