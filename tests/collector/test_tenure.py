"""What a processor may publish, by the leases of the ledger and its own clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from otel_turnavoid.collector.tenure import Held, Tenure
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.store.shares import Holding

LEASE_S = 30.0


class FakeLedger:
    """Grants what it is told to."""

    def __init__(self) -> None:
        self.grants = [Holding(1, working=True, wait_ns=0)]
        self.asked: list[tuple[str, int]] = []
        self.gone = False

    def hold(self, holder: str, *, lease_ns: int) -> list[Holding]:
        if self.gone:
            raise LedgerError("gone")
        self.asked.append((holder, lease_ns))
        return self.grants


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tenure(ledger, clock):
    with ThreadPoolExecutor(1) as threads:
        yield Tenure(ledger, threads, lease_s=LEASE_S, clock=clock)


def test_it_asks_for_its_lease_under_one_name(tenure, ledger):
    tenure.renew()
    tenure.renew()

    assert {lease_ns for _, lease_ns in ledger.asked} == {round(LEASE_S * SECOND)}
    assert {holder for holder, _ in ledger.asked} == {tenure.author.holder}


def test_two_have_two_names(ledger, clock):
    with ThreadPoolExecutor(1) as threads:
        for tenure in (Tenure(ledger, threads, lease_s=1, clock=clock) for _ in range(2)):
            tenure.renew()

    assert len({holder for holder, _ in ledger.asked}) == 2


def test_it_publishes_until_its_lease_ends_and_goes_on_when_that_is_extended(tenure, clock):
    tenure.renew()

    clock.now = LEASE_S - 0.1
    assert tenure.published() == [Held(1, working=True)]
    clock.now = LEASE_S
    assert tenure.published() == []
    tenure.renew()
    assert tenure.published() == [Held(1, working=True)]


def test_a_lease_counts_from_before_it_was_asked_for(ledger, clock):
    def slow(holder: str, *, lease_ns: int) -> list[Holding]:
        clock.now += 10
        return [Holding(1, working=True, wait_ns=0)]

    ledger.hold = slow
    with ThreadPoolExecutor(1) as threads:
        tenure = Tenure(ledger, threads, lease_s=LEASE_S, clock=clock)
        tenure.renew()

    clock.now = LEASE_S
    assert tenure.published() == []


def test_it_decides_before_it_publishes_what_somebody_else_may_still_show(tenure, ledger, clock):
    ledger.grants = [Holding(3, working=True, wait_ns=7 * SECOND)]
    tenure.renew()

    assert tenure.author.share == 3
    assert tenure.published() == []
    clock.now = 6.9
    ledger.grants = [Holding(3, working=True, wait_ns=0)]
    tenure.renew()
    assert tenure.published() == []
    clock.now = 7.0
    assert tenure.published() == [Held(3, working=True)]


def test_the_share_that_it_decides_for_comes_first(tenure, ledger):
    kept = [Holding(1, working=False, wait_ns=0), Holding(4, working=False, wait_ns=0)]
    ledger.grants = [*kept, Holding(2, working=True, wait_ns=0)]
    tenure.renew()

    held = [Held(2, working=True), Held(1, working=False), Held(4, working=False)]
    assert tenure.held() == tenure.published() == held


def test_where_the_lease_cannot_be_extended_it_runs_out(tenure, ledger, clock):
    tenure.renew()
    ledger.gone = True

    clock.now = 10
    with pytest.raises(LedgerError):
        tenure.renew()
    assert tenure.published() == [Held(1, working=True)]
    clock.now = LEASE_S
    assert tenure.published() == []
    assert tenure.held() == [Held(1, working=True)]
