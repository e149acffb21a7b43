"""What becomes of a request: sent, sent again, dropped, or kept for the next start."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from otel_turnavoid.forward import (
    Delivery,
    Encoding,
    Exporter,
    Fate,
    Queue,
    QueueFile,
    RetryPolicy,
    Signal,
)
from otel_turnavoid.forward.outcome import Delivered, Failed, Outcome, Retry
from otel_turnavoid.forward.request import Stored

AT_ONCE = RetryPolicy(initial_interval_s=0.001, max_interval_s=0.002)


class ScriptedSender:
    """Answers by a script, then with success; holds attempts while the gate is shut."""

    def __init__(self, *script: Outcome | Exception) -> None:
        self.script = list(script)
        self.attempts: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.closed = False

    async def send(self, request: Stored) -> Outcome:
        self.attempts.append(request.body)
        outcome = self.script.pop(0) if self.script else Delivered()
        await self.gate.wait()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        self.closed = True


class Running:
    """An exporter under test, and what it counted."""

    def __init__(self, path: Path, sender: ScriptedSender, delivery: Delivery) -> None:
        self.sender = sender
        self.counts: Counter[tuple[Fate, Signal]] = Counter()
        queue = Queue(QueueFile(path), max_requests=100, max_bytes=1 << 20)
        self.exporter = Exporter("otlp/x", queue, sender, self._count, delivery)

    def _count(self, fate: Fate, exporter: str, signal: Signal, items: int) -> None:
        assert exporter == "otlp/x"
        self.counts[fate, signal] += items

    async def put(self, *bodies: bytes, signal: Signal = Signal.TRACES, items: int = 1) -> None:
        queue = self.exporter.queue
        for body in bodies:
            ticket = queue.enter(signal, Encoding.PROTOBUF, items, body)
            await ticket.stored
            queue.release(ticket)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)

    async def emptied(self) -> None:
        await self.until(lambda: len(self.exporter.queue) == 0)


@pytest.fixture
def exporting(path: Path) -> Callable[..., Running]:
    """Run a scenario with an exporter, stop it, and return what is to be known of it."""

    def run(
        scenario: Callable[[Running], Coroutine[Any, Any, None]],
        *script: Outcome | Exception,
        retry: RetryPolicy = AT_ONCE,
        consumers: int = 1,
        grace_s: float = 60,
    ) -> Running:
        async def main() -> Running:
            delivery = Delivery(retry=retry, consumers=consumers)
            running = Running(path, ScriptedSender(*script), delivery)
            running.exporter.start()
            try:
                await asyncio.wait_for(scenario(running), 60)
            finally:
                await running.exporter.stop(grace_s)
            return running

        return asyncio.run(main())

    return run


async def send_one(running: Running) -> None:
    await running.put(b"a", items=3)
    await running.emptied()


def test_what_is_queued_is_sent_in_order(exporting):
    async def scenario(running: Running) -> None:
        await running.put(b"a", b"b", b"c")
        await running.emptied()

    assert exporting(scenario).sender.attempts == [b"a", b"b", b"c"]


def test_what_arrived_is_counted_by_signal(exporting):
    async def scenario(running: Running) -> None:
        await running.put(b"a", items=3)
        await running.put(b"b", signal=Signal.LOGS, items=2)
        await running.emptied()

    assert exporting(scenario).counts == {
        (Fate.SENT, Signal.TRACES): 3,
        (Fate.SENT, Signal.LOGS): 2,
    }


def test_after_a_passing_trouble_it_is_sent_again(exporting):
    running = exporting(send_one, Retry("UNAVAILABLE"), Retry("timeout"))

    assert running.sender.attempts == [b"a"] * 3
    assert running.counts == {(Fate.SENT, Signal.TRACES): 3}


def test_a_backend_is_not_tried_before_it_asked(exporting):
    asked_s = 0.05
    start_s = time.monotonic()
    running = exporting(send_one, Retry("UNAVAILABLE", asked_s))

    assert time.monotonic() - start_s >= asked_s
    assert running.sender.attempts == [b"a", b"a"]


def test_what_a_backend_refuses_for_good_is_dropped_and_counted(exporting):
    running = exporting(send_one, Failed("INVALID_ARGUMENT"))

    assert running.sender.attempts == [b"a"]
    assert running.counts == {(Fate.SEND_FAILED, Signal.TRACES): 3}


def test_what_a_backend_refuses_singly_is_counted_and_not_sent_again(exporting):
    running = exporting(send_one, Delivered(rejected=1))

    assert running.sender.attempts == [b"a"]
    assert running.counts == {
        (Fate.SENT, Signal.TRACES): 2,
        (Fate.SEND_FAILED, Signal.TRACES): 1,
    }


def test_a_backend_cannot_refuse_more_than_it_got(exporting):
    assert exporting(send_one, Delivered(rejected=99)).counts == {
        (Fate.SEND_FAILED, Signal.TRACES): 3
    }


def test_what_is_given_up_is_dropped_and_counted(exporting):
    running = exporting(send_one, Retry("UNAVAILABLE"), retry=RetryPolicy(enabled=False))

    assert running.counts == {(Fate.SEND_FAILED, Signal.TRACES): 3}


def test_a_bug_in_sending_loses_nothing(exporting, caplog):
    running = exporting(send_one, RuntimeError("surprise"))

    assert running.counts == {(Fate.SENT, Signal.TRACES): 3}
    assert "otlp/x: sending failed because of a bug" in caplog.messages


def test_one_that_is_refused_does_not_keep_up_the_others(exporting):
    async def scenario(running: Running) -> None:
        await running.put(b"a", b"b")
        await running.until(lambda: running.counts[Fate.SENT, Signal.TRACES] == 1)

    never = RetryPolicy(initial_interval_s=3600)
    running = exporting(scenario, Retry("UNAVAILABLE"), retry=never, consumers=2)

    assert running.sender.attempts == [b"a", b"b"]


def test_no_more_than_the_consumers_are_sent_at_once(exporting):
    async def scenario(running: Running) -> None:
        running.sender.gate.clear()
        await running.put(b"a", b"b", b"c")
        await running.until(lambda: len(running.sender.attempts) == 2)
        running.sender.gate.set()
        await running.emptied()

    assert exporting(scenario, consumers=2).sender.attempts == [b"a", b"b", b"c"]


def test_a_bug_in_the_queue_is_told_and_stopping_still_works(exporting, caplog):
    told: list[bool] = []

    async def scenario(running: Running) -> None:
        def broken(_request: Stored) -> None:
            raise RuntimeError("surprise")

        for task in running.exporter._sending:
            task.add_done_callback(lambda _task: told.append(True))
        running.exporter.queue.done = broken
        await running.put(b"a")
        await running.until(lambda: told)

    exporting(scenario)

    assert "otlp/x: forwarding ended because of a bug" in caplog.messages


class TestStopping:
    def test_what_waits_is_still_sent(self, exporting):
        async def scenario(running: Running) -> None:
            running.sender.gate.clear()
            await running.put(b"a", b"b", b"c")
            asyncio.get_running_loop().call_later(0.01, running.sender.gate.set)

        running = exporting(scenario)

        assert running.sender.attempts == [b"a", b"b", b"c"]
        assert running.sender.closed

    def test_what_is_not_sent_in_time_is_kept_for_the_next_start(self, exporting):
        async def hang(running: Running) -> None:
            running.sender.gate.clear()
            await running.put(b"a", b"b")

        exporting(hang, grace_s=0.01)

        assert exporting(Running.emptied).sender.attempts == [b"a", b"b"]

    def test_a_backend_in_trouble_is_not_waited_for(self, exporting):
        async def scenario(running: Running) -> None:
            await running.put(b"a", b"b")
            await running.until(lambda: running.sender.attempts == [b"a"])

        slow = RetryPolicy(initial_interval_s=3600)
        exporting(scenario, Retry("UNAVAILABLE"), retry=slow, grace_s=3600)

        assert exporting(Running.emptied).sender.attempts == [b"a", b"b"]


class TestLog:
    @pytest.fixture
    def said(self, caplog):
        caplog.set_level("INFO", logger="otel_turnavoid.forward")
        return lambda: caplog.messages

    def test_trouble_is_said_when_it_begins_and_when_it_ends(self, exporting, said):
        exporting(send_one, Retry("UNAVAILABLE"), Retry("timeout"), Retry("timeout"))

        assert said() == [
            "otlp/x: the backend takes no exports: UNAVAILABLE",
            "otlp/x: the backend takes exports again",
        ]

    def test_dropping_is_said_when_it_begins_and_when_it_ends(self, exporting, said):
        async def scenario(running: Running) -> None:
            await running.put(b"a", b"b", items=3)
            await running.put(b"c")
            await running.emptied()

        exporting(scenario, Failed("HTTP 400"), Failed("HTTP 401"))

        assert said() == [
            "otlp/x: traces are dropped, the first 3: HTTP 400",
            "otlp/x: nothing is dropped any more; 6 were",
        ]

    def test_what_is_kept_is_said_at_the_end_and_at_the_next_start(self, exporting, said):
        async def hang(running: Running) -> None:
            running.sender.gate.clear()
            await running.put(b"a", b"b")

        exporting(hang, grace_s=0.01)
        exporting(Running.emptied)

        assert said() == [
            "otlp/x: 2 requests stay queued",
            "otlp/x: 2 requests are queued from last time",
        ]
