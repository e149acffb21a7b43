"""Group commit, without a ledger: what is committed together, and who learns what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.writer import BusyError, Writer
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import Added


class Store:
    """Remembers commits; a commit waits while the gate is shut, and can be made to fail."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.poison: dict[str, Exception] = {}

    def add(self, facts: Any, observations: Any) -> Added:
        self.entered.set()
        assert self.gate.wait(60)
        for fact in facts:
            if fact.span_id in self.poison:
                raise self.poison[fact.span_id]
        self.commits.append([fact.span_id for fact in facts])
        return Added(len(facts), len(observations), 0)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def own() -> Telemetry:
    return Telemetry()


@pytest.fixture
def written(
    store: Store, executor: ThreadPoolExecutor, own: Telemetry
) -> Callable[[Callable[[Writer], Coroutine[Any, Any, Any]]], Any]:
    """Run a scenario with a writer that works beside it."""

    def run(scenario: Callable[[Writer], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            writer = Writer(store.add, executor, own, limit=3, committed=lambda: None)
            working = asyncio.create_task(writer.run())
            try:
                return await scenario(writer)
            finally:
                store.gate.set()
                writer.close()
                await working

        return asyncio.run(main())

    return run


def batch(name: str) -> Batch:
    fact = SpanFact(trace_id="t", span_id=name, dialect="d", scope="s", start_ns=0, end_ns=1)
    return Batch(facts=[fact], spans=1)


async def while_committing(
    store: Store, writer: Writer, first: str, *others: str
) -> list[asyncio.Task[None]]:
    """Start one commit, hold it in the store, and let others queue behind it."""
    store.gate.clear()
    tasks = [asyncio.create_task(writer.commit(batch(first)))]
    await asyncio.to_thread(store.entered.wait, 10)
    for name in others:
        tasks.append(asyncio.create_task(writer.commit(batch(name))))
        await asyncio.sleep(0)
    return tasks


def test_what_waits_is_committed_together(store, written):
    async def scenario(writer: Writer) -> None:
        tasks = await while_committing(store, writer, "a", "b", "c")
        store.gate.set()
        await asyncio.gather(*tasks)

    written(scenario)

    assert store.commits == [["a"], ["b", "c"]]


def test_nobody_is_answered_before_the_commit(store, written):
    async def scenario(writer: Writer) -> list[bool]:
        tasks = await while_committing(store, writer, "a", "b")
        before = [task.done() for task in tasks]
        store.gate.set()
        await asyncio.gather(*tasks)
        return before

    assert written(scenario) == [False, False]


def test_a_full_queue_is_busy(store, written):
    async def scenario(writer: Writer) -> None:
        tasks = await while_committing(store, writer, "a", "b", "c", "d")
        with pytest.raises(BusyError, match="too many requests wait for the ledger"):
            await writer.commit(batch("e"))
        store.gate.set()
        await asyncio.gather(*tasks)

    written(scenario)

    assert store.commits == [["a"], ["b", "c", "d"]]


def test_trouble_of_the_ledger_is_told_to_everybody_in_the_commit(store, written, own):
    store.poison["b"] = LedgerError("database is locked")

    async def scenario(writer: Writer) -> list[Any]:
        tasks = await while_committing(store, writer, "a", "b", "c")
        store.gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = written(scenario)

    assert first is None
    assert [type(error) for error in others] == [LedgerError, LedgerError]
    assert own.value(telemetry.LEDGER_FAILURES) == 1


def test_a_batch_that_runs_into_a_bug_fails_alone(store, written):
    store.poison["b"] = RuntimeError("surprise")

    async def scenario(writer: Writer) -> list[Any]:
        tasks = await while_committing(store, writer, "a", "b", "c")
        store.gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = written(scenario)

    assert [type(result) for result in results] == [type(None), RuntimeError, type(None)]
    assert store.commits == [["a"], ["c"]]


def test_the_writer_goes_on_after_trouble(store, written, caplog):
    store.poison["a"] = LedgerError("database is locked")
    caplog.set_level("INFO", logger="otel_turnavoid")

    async def scenario(writer: Writer) -> None:
        for _ in range(2):
            with pytest.raises(LedgerError):
                await writer.commit(batch("a"))
        await writer.commit(batch("b"))

    written(scenario)

    assert store.commits == [["b"]]
    assert [record.message for record in caplog.records] == [
        "the ledger takes no exports, senders are told to retry: database is locked",
        "the ledger takes exports again",
    ]


def test_a_sender_that_went_away_while_waiting_is_not_committed(store, written):
    async def scenario(writer: Writer) -> None:
        tasks = await while_committing(store, writer, "a", "b", "c")
        tasks[1].cancel()
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(tasks[0], tasks[2])

    written(scenario)

    assert store.commits == [["a"], ["c"]]


def test_what_waits_at_the_close_is_committed(store, written):
    async def scenario(writer: Writer) -> list[asyncio.Task[None]]:
        tasks = await while_committing(store, writer, "a", "b")
        writer.close()
        store.gate.set()
        await asyncio.gather(*tasks)
        return tasks

    written(scenario)

    assert store.commits == [["a"], ["b"]]


def test_after_the_close_nothing_is_taken(written):
    async def scenario(writer: Writer) -> None:
        writer.close()
        with pytest.raises(BusyError, match="stopping"):
            await writer.commit(batch("a"))

    written(scenario)


def test_what_was_stored_is_counted(written, own):
    async def scenario(writer: Writer) -> None:
        await writer.commit(batch("a"))

    written(scenario)

    assert own.value(telemetry.FACTS) == 1
