"""Ready is who takes exports: asked of the ledger, and told at once."""

from __future__ import annotations

import asyncio

import pytest

from otel_turnavoid.collector import readiness as module
from otel_turnavoid.collector.readiness import FRESH_S, Readiness
from otel_turnavoid.errors import LedgerError


class Ledger:
    """Can be written or not, and counts how often it was tried."""

    def __init__(self, *, works=True):
        self.works = works
        self.written = 0

    async def write(self):
        self.written += 1
        if not self.works:
            raise LedgerError("the disk is full")


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_until_it_started_it_is_not_ready(clock):
    async def looked():
        return await Readiness(clock).look()

    assert asyncio.run(looked()) == ("starting",)


def test_it_is_ready_where_the_ledger_can_be_written(clock):
    async def looked():
        readiness = Readiness(clock)
        readiness.started(Ledger().write)
        return await readiness.look()

    assert asyncio.run(looked()) == ()


def test_it_says_why_it_is_not(clock):
    async def looked():
        readiness = Readiness(clock)
        readiness.started(Ledger(works=False).write, others=lambda: ["memory is short"])
        return await readiness.look()

    assert asyncio.run(looked()) == ("the ledger cannot be written", "memory is short")


def test_it_is_ready_again_without_being_sent_anything(clock):
    async def looked():
        readiness, ledger = Readiness(clock), Ledger(works=False)
        readiness.started(ledger.write)
        first = await readiness.look()
        ledger.works = True
        clock.now_s += FRESH_S
        return first, await readiness.look()

    assert asyncio.run(looked()) == (("the ledger cannot be written",), ())


def test_many_probes_write_once(clock):
    async def looked():
        readiness, ledger = Readiness(clock), Ledger()
        readiness.started(ledger.write)
        for _ in range(100):
            await readiness.look()
        return ledger.written

    assert asyncio.run(looked()) == 1


def test_a_ledger_that_hangs_is_not_ready_and_is_asked_once(clock, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)

    async def looked():
        readiness, asked = Readiness(clock), []
        answer = asyncio.get_running_loop().create_future()

        async def write():
            asked.append(1)
            await answer

        readiness.started(write)
        seen = []
        for _ in range(3):
            seen.append(await readiness.look())
            clock.now_s += FRESH_S
        answer.set_result(None)
        seen.append(await readiness.look())
        return seen, len(asked)

    slow = ("the ledger cannot be written",)
    assert asyncio.run(looked()) == ([slow, slow, slow, ()], 1)


def test_a_change_is_told_once(clock):
    async def looked():
        readiness, ledger, told = Readiness(clock), Ledger(), []

        async def changed(ready):
            told.append(ready)

        readiness.started(ledger.write, changed=changed)
        for works in (True, True, False, False, True):
            ledger.works = works
            await readiness.look()
            clock.now_s += FRESH_S
        return told

    assert asyncio.run(looked()) == [True, False, True]


def test_stopping_is_not_ready_and_writes_nothing_more(clock):
    async def looked():
        readiness, ledger = Readiness(clock), Ledger()
        readiness.started(ledger.write)
        readiness.stop()
        return await readiness.look(), ledger.written

    assert asyncio.run(looked()) == (("stopping",), 0)


def test_trouble_is_logged_when_it_begins_and_when_it_ends(clock, caplog):
    async def looked():
        readiness, ledger = Readiness(clock), Ledger()
        readiness.started(ledger.write)
        for works in (True, False, False, True):
            ledger.works = works
            await readiness.look()
            clock.now_s += FRESH_S

    with caplog.at_level("INFO", logger="otel_turnavoid"):
        asyncio.run(looked())

    assert [entry.message for entry in caplog.records] == [
        "not ready: the ledger cannot be written",
        "ready again",
    ]
