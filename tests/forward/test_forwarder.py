"""Every queue takes a request, or none does; and only together with the ledger."""

from __future__ import annotations

import asyncio
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
    Forwarder,
    Queue,
    QueueError,
    QueueFile,
    QueueFullError,
    Request,
    Signal,
)
from otel_turnavoid.forward.outcome import Delivered, Outcome
from otel_turnavoid.forward.request import Stored

TRACES = Request(Signal.TRACES, b"t", 3)
LOGS = Request(Signal.LOGS, b"l", 2)


class Sender:
    def __init__(self) -> None:
        self.got: list[tuple[Encoding, bytes]] = []

    async def send(self, request: Stored) -> Outcome:
        self.got.append((request.encoding, request.body))
        return Delivered()

    async def close(self) -> None:
        pass


class Troubled(QueueFile):
    def write(self, added, removed):
        if added:
            raise QueueError("no disk")
        super().write(added, removed)


class World:
    """Two exporters: ``a`` takes both signals, ``b`` traces as JSON."""

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[tuple[Fate, str, Signal]] = Counter()
        self.a, self.b = Sender(), Sender()
        self.one = self._exporter("a", QueueFile(folder / "a"), self.a, Encoding.PROTOBUF)
        self.two = self._exporter("b", QueueFile(folder / "b"), self.b, Encoding.JSON, 1)
        self.forwarder = Forwarder({Signal.TRACES: [self.one, self.two], Signal.LOGS: [self.one]})

    def _exporter(self, name, file, sender, encoding, max_requests=10) -> Exporter:
        queue = Queue(file, max_requests=max_requests, max_bytes=1000)
        return Exporter(name, queue, sender, self._count, Delivery(encoding, consumers=1))

    def _count(self, fate: Fate, exporter: str, signal: Signal, items: int) -> None:
        self.counts[fate, exporter, signal] += items

    @property
    def got(self) -> tuple[list[bytes], list[bytes]]:
        return [body for _, body in self.a.got], [body for _, body in self.b.got]


@pytest.fixture
def world(tmp_path) -> Callable[..., World]:
    """Run a scenario, send what is queued, and return the world after it."""

    def run(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> World:
        async def main() -> World:
            world = World(tmp_path)
            world.forwarder.start()
            try:
                await asyncio.wait_for(scenario(world), 60)
            finally:
                await world.forwarder.stop(60)
            return world

        return asyncio.run(main())

    return run


def test_a_request_goes_to_every_exporter_of_its_signal(world):
    async def scenario(world: World) -> None:
        await world.forwarder.forward(TRACES)
        await world.forwarder.forward(LOGS)

    assert world(scenario).got == ([b"t", b"l"], [b"t"])


def test_what_is_offered_goes_the_same_way(world):
    async def scenario(world: World) -> None:
        await world.forwarder.offer(Signal.LOGS, b"own", 1)

    after = world(scenario)

    assert after.got == ([b"own"], [])
    assert after.counts == {(Fate.SENT, "a", Signal.LOGS): 1}


def test_without_exporters_an_offer_goes_nowhere():
    asyncio.run(Forwarder().offer(Signal.TRACES, b"own", 1))

    assert not Forwarder().takes(Signal.TRACES)


def test_json_goes_as_it_came_to_who_reads_json_and_as_protobuf_to_others(world):
    async def scenario(world: World) -> None:
        await world.forwarder.forward(TRACES._replace(json=b"{}"))

    after = world(scenario)

    assert (after.a.got, after.b.got) == (
        [(Encoding.PROTOBUF, b"t")],
        [(Encoding.JSON, b"{}")],
    )


def test_it_is_sent_only_after_the_commit(world, eventually):
    async def scenario(world: World) -> None:
        committed = asyncio.Event()

        async def commit() -> None:
            await committed.wait()

        forwarding = asyncio.create_task(world.forwarder.forward(TRACES, commit))
        await eventually(lambda: len(world.one.queue))
        await world.forwarder.offer(Signal.LOGS, b"l", 1)
        await eventually(lambda: world.a.got)
        assert world.got == ([b"l"], [])
        committed.set()
        await forwarding

    assert world(scenario).got == ([b"l", b"t"], [b"t"])


def test_what_the_ledger_did_not_take_is_not_forwarded(world):
    async def scenario(world: World) -> None:
        async def commit() -> None:
            raise RuntimeError("no ledger")

        with pytest.raises(RuntimeError, match="no ledger"):
            await world.forwarder.forward(TRACES, commit)

    after = world(scenario)

    assert after.got == ([], [])
    assert len(after.one.queue) == 0
    assert after.counts == {}


def test_what_its_sender_gave_up_is_not_forwarded(world, eventually):
    async def scenario(world: World) -> None:
        forwarding = asyncio.create_task(world.forwarder.forward(TRACES, asyncio.Event().wait))
        await eventually(lambda: len(world.one.queue))
        forwarding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await forwarding

    assert world(scenario).got == ([], [])


def test_where_one_queue_is_full_nothing_is_begun(world):
    async def scenario(world: World) -> None:
        blocked = world.two.queue.enter(Signal.TRACES, Encoding.PROTOBUF, 1, b"x")
        await blocked.stored

        async def commit() -> None:
            pytest.fail("the ledger was written")

        with pytest.raises(QueueFullError, match=r"^the queue of b is full$"):
            await world.forwarder.forward(TRACES, commit)
        assert len(world.one.queue) == 0
        world.two.queue.withdraw(blocked)

    after = world(scenario)

    assert after.got == ([], [])
    assert after.counts == {(Fate.ENQUEUE_FAILED, "b", Signal.TRACES): 3}


def test_what_one_disk_refuses_goes_to_no_backend(world, tmp_path):
    async def scenario(world: World) -> None:
        await world.two.queue._in_thread(world.two.queue._file.close)
        world.two.queue._file = Troubled(tmp_path / "b")
        with pytest.raises(QueueError, match="no disk"):
            await world.forwarder.forward(TRACES)

    after = world(scenario)

    assert after.got == ([], [])
    assert after.counts == {(Fate.ENQUEUE_FAILED, "b", Signal.TRACES): 3}


def test_what_is_accepted_is_sent_dropped_or_queued(world):
    async def scenario(world: World) -> None:
        for number in range(5):
            await world.forwarder.forward(LOGS._replace(body=bytes([number])))

    after = world(scenario)

    assert after.counts[Fate.SENT, "a", Signal.LOGS] + len(after.one.queue) == 10
