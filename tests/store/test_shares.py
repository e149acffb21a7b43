"""Every decision belongs to one share of the journal, and every share to one process at most."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import shares
from otel_turnavoid.store.shares import Author, Holding, Totals

LEASE_S = 30
MakeBatch = Callable[..., Batch]


class Clock:
    """The database's clock, in seconds."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shares, "clock", lambda _: round(clock.now * SECOND))
    return clock


@pytest.fixture
def hold(bench: Any, clock: Clock) -> Callable[[str, float], list[Holding]]:
    def at(holder: str, now: float) -> list[Holding]:
        clock.now = now
        return bench.ledger.hold(holder, lease_ns=LEASE_S * SECOND)

    return at


def working(share: int, wait: float = 0) -> Holding:
    return Holding(share, working=True, wait_ns=round(wait * SECOND))


def kept(share: int) -> Holding:
    return Holding(share, working=False, wait_ns=0)


def test_each_process_works_for_a_share_of_its_own(hold) -> None:
    assert hold("a", 0) == [working(1)]
    assert hold("b", 1) == [working(2)]
    assert hold("c", 2) == [working(3)]


def test_a_lease_that_is_extended_does_not_end(hold) -> None:
    for now in range(0, 100, 10):
        assert hold("a", now) == [working(1)]
        assert hold("b", now) == [working(2)]


def test_a_share_that_was_let_go_belongs_to_the_next_that_starts(bench, hold) -> None:
    hold("a", 0)
    hold("b", 0)
    bench.ledger.release("a")

    assert hold("c", 1) == [working(1)]
    assert hold("b", 2) == [working(2)]


def test_a_share_whose_lease_ended_belongs_to_the_next_that_starts(hold) -> None:
    hold("a", 0)

    assert hold("b", LEASE_S - 1) == [working(2)]
    assert hold("c", LEASE_S) == [working(1)]


def test_who_comes_back_too_late_works_for_another_share(hold) -> None:
    hold("a", 0)
    hold("b", LEASE_S)

    assert hold("a", LEASE_S + 1) == [working(2)]


def test_a_share_is_kept_when_nobody_came_for_it_within_another_lease(hold) -> None:
    hold("a", 0)
    hold("b", 0)

    for now in (20, 40, 2 * LEASE_S - 1):
        assert hold("b", now) == [working(2)]
    assert hold("b", 2 * LEASE_S) == [kept(1), working(2)]


def test_a_share_is_kept_by_one_process_only(hold) -> None:
    for holder in ("a", "b", "c"):
        hold(holder, 0)
    hold("b", 40)
    hold("c", 40)

    assert hold("b", 60) == [kept(1), working(2)]
    assert hold("c", 60) == [working(3)]


def test_who_starts_takes_a_kept_share_back_and_waits_until_its_keeper_stopped(hold) -> None:
    hold("a", 0)
    hold("b", 0)
    hold("b", 40)
    hold("b", 60)

    assert hold("c", 75) == [working(1, wait=60 + LEASE_S - 75)]
    assert hold("b", 76) == [working(2)]
    assert hold("c", 85) == [working(1)]


def test_a_share_of_a_process_of_this_machine_that_ended_is_free_at_once(bench, url) -> None:
    if shares.this_place() is None:
        pytest.skip("this system does not tell which processes run")
    program = (
        "from otel_turnavoid.store import Ledger\n"
        f"Ledger.open({url!r}).hold('gone', lease_ns=10**12)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)

    assert bench.ledger.hold("next", lease_ns=10**12) == [working(1)]


def test_a_share_of_a_process_that_runs_is_not_free(bench) -> None:
    bench.ledger.hold("a", lease_ns=10**12)

    assert bench.ledger.hold("b", lease_ns=10**12) == [working(2)]


def test_the_clock_of_leases_is_the_databases_and_near_this_machines(bench) -> None:
    before = time.time_ns()
    with bench.ledger._database.read() as connection:
        now = shares.clock(connection)

    # The server of these tests runs here; it counts in microseconds.
    assert before - 1000 <= now <= time.time_ns()


def decide(bench: Any, at: float, author: Author | None) -> None:
    bench.ledger.decide(Settings(), now_ns=round((1_790_000_000 + at) * SECOND), author=author)


def journal(bench: Any, share: int) -> list[str]:
    return [type(made).__name__ for _, made in bench.ledger.decisions(share=share)]


def test_what_a_process_decides_belongs_to_its_share(
    bench, hold, run: MakeBatch, seen: MakeBatch
) -> None:
    hold("a", 0)
    hold("b", 0)
    bench.add(run("c1"), run("k1", "exact-reuse", turns=1), seen("c1"), seen("k1"), at=0)
    decide(bench, 10, Author(1, "a"))
    bench.add(run("c2", task=2), run("k2", "exact-reuse", task=2), seen("c2"), seen("k2"), at=20)
    decide(bench, 30, Author(2, "b"))

    assert journal(bench, 1) == journal(bench, 2) == ["PairDecided", "RunDecided", "RunDecided"]
    both = [*bench.ledger.decisions(share=1), *bench.ledger.decisions(share=2)]
    assert both == list(bench.ledger.decisions())


def test_what_is_decided_outside_of_any_share_belongs_to_the_first(
    bench, hold, run: MakeBatch, seen: MakeBatch
) -> None:
    hold("a", 0)
    hold("b", 0)
    bench.add(run("c"), run("k", "exact-reuse"), seen("c"), seen("k"), at=0)
    decide(bench, 10, None)

    assert list(bench.ledger.decisions(share=1)) == list(bench.ledger.decisions())


def test_a_contradiction_belongs_to_the_share_that_met_it(
    bench, hold, run: MakeBatch, seen: MakeBatch
) -> None:
    hold("a", 0)
    hold("b", 0)
    bench.add(run("c"), run("k", "exact-reuse", turns=1), seen("c"), seen("k"), at=0)
    decide(bench, 10, Author(1, "a"))
    bench.add(seen("k", labels=["order:42=kept"]), at=20)
    decide(bench, 30, Author(2, "b"))

    assert list(bench.ledger.contradictions(share=1)) == []
    assert list(bench.ledger.contradictions(share=2)) == list(bench.ledger.contradictions())
    assert len(list(bench.ledger.contradictions())) == 1


def test_nobody_decides_for_a_share_that_another_took_over(
    bench, hold, run: MakeBatch, seen: MakeBatch
) -> None:
    hold("a", 0)
    hold("b", LEASE_S)
    bench.add(run("c"), run("k", "exact-reuse"), seen("c"), seen("k"), at=0)

    with pytest.raises(LedgerError) as caught:
        decide(bench, 10, Author(1, "a"))

    assert str(caught.value) == (
        "share 1 of the ledger was taken over by another processor,"
        " because this one did not extend its lease in time"
    )
    decide(bench, 10, Author(1, "b"))
    assert journal(bench, 1) == ["PairDecided", "RunDecided", "RunDecided"]


def test_what_a_share_folds_to_is_kept_by_who_holds_it(bench: Any, hold: Any) -> None:
    hold("a", 0)
    first = Totals(decision=7, contradiction=1, form="rules", body=b"x")
    bench.ledger.save_totals(Author(1, "a"), first)
    bench.ledger.save_totals(Author(1, "a"), first._replace(decision=9))

    assert bench.ledger.saved_totals(1, "rules") == first._replace(decision=9)
    assert bench.ledger.saved_totals(1, "other rules") is None
    assert bench.ledger.saved_totals(2, "rules") is None
    with pytest.raises(LedgerError, match="was taken over"):
        bench.ledger.save_totals(Author(1, "b"), first)
