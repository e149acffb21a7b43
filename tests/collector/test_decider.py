"""When rounds of deciding happen, without a ledger."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

from otel_turnavoid.collector import decider as module
from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.decider import Decider
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.errors import LedgerError


class Rounds:
    """Counts rounds; the first ``failures`` of them fail."""

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.happened = threading.Semaphore(0)

    def decide(self) -> bool:
        self.count += 1
        self.happened.release()
        if self.count <= self.failures:
            raise LedgerError("database is locked")
        return True

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.happened.acquire, timeout=60)


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def own() -> Telemetry:
    return Telemetry()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def decided(rounds, executor, own) -> Callable[..., Any]:
    """Run a scenario beside a decider; idle rounds come an hour apart unless said otherwise."""

    def run(scenario: Callable[[Decider], Coroutine[Any, Any, Any]], idle_s: float = 3600) -> int:
        rung = []

        async def main() -> None:
            decider = Decider(
                rounds.decide, executor, own, settle_s=0, decided=lambda: rung.append(1)
            )
            working = asyncio.create_task(decider.run())
            try:
                await scenario(decider)
            finally:
                decider.close()
                await working

        with mock.patch.object(module, "IDLE_S", idle_s):
            asyncio.run(main())
        return len(rung)

    return run


def test_a_commit_is_followed_by_a_round(rounds, decided):
    async def scenario(decider: Decider) -> None:
        decider.committed()
        await rounds.wait()

    decided(scenario)


def test_commits_close_together_share_a_round(rounds, decided):
    async def scenario(decider: Decider) -> None:
        for _ in range(5):
            decider.committed()
        await rounds.wait()
        assert rounds.count == 1

    decided(scenario)


def test_waits_end_without_a_commit(rounds, decided):
    async def scenario(_decider: Decider) -> None:
        await rounds.wait()
        await rounds.wait()

    decided(scenario, idle_s=0.01)


def test_the_end_is_one_more_round(rounds, decided):
    async def scenario(_decider: Decider) -> None:
        assert rounds.count == 0

    decided(scenario)

    assert rounds.count == 1


def test_each_round_that_decided_is_told(rounds, decided):
    async def scenario(decider: Decider) -> None:
        decider.committed()
        await rounds.wait()

    assert decided(scenario) == rounds.count


def test_a_failed_round_is_followed_by_another(rounds, decided, own, caplog):
    rounds.failures = 2
    caplog.set_level("INFO", logger="otel_turnavoid")

    async def scenario(_decider: Decider) -> None:
        for _ in range(3):
            await rounds.wait()

    decided(scenario, idle_s=0.01)

    assert own.value(telemetry.LEDGER_FAILURES) == 2
    assert [record.message for record in caplog.records] == [
        "the ledger cannot decide, will keep trying: database is locked",
        "the ledger decides again",
    ]


def test_the_lag_is_that_of_a_commit_that_no_round_has_seen(rounds, decided):
    rounds.failures = 1000

    async def scenario(decider: Decider) -> None:
        assert decider.lag_s() == 0
        with mock.patch("time.monotonic", return_value=100.0):
            decider.committed()
        with mock.patch("time.monotonic", return_value=107.0):
            assert decider.lag_s() == 7

    decided(scenario)
