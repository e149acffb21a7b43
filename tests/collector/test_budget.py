"""What may be in hand at once: requests, their bytes, and messages that are still arriving."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from otel_turnavoid.collector.budget import LATE, TOO_LITTLE_MEMORY, Budget

PATIENCE_S = 60.0


class Senders:
    """Messages that arrive when the test says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[bytes]] = []

    async def read(self) -> bytes:
        """Ask for a message, and wait for it."""
        message: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.asked.append(message)
        return await message

    async def asked_for(self, count: int) -> None:
        """Return once so many messages were asked for."""
        while len(self.asked) < count:  # noqa: ASYNC110 - the door opens by the clock
            await asyncio.sleep(0.01)


def on_a_loop(test: Callable[[Budget, Senders], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await asyncio.wait_for(test(Budget(10), Senders()), timeout=60)

    return asyncio.run(run())


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class TestBytes:
    def test_beyond_the_limit_they_are_refused(self) -> None:
        budget = Budget(10)
        with budget.hold() as first, budget.hold() as second:
            assert first(6)
            assert not second(5)
            assert second(4)

    def test_they_are_given_back(self) -> None:
        budget = Budget(10)
        with budget.hold() as first:
            first(10)
        with budget.hold() as second:
            assert second(10)

    def test_a_request_alone_is_never_refused(self) -> None:
        budget = Budget(10)
        with budget.hold() as alone:
            assert alone(8)
            assert alone(8)


class TestArrival:
    def test_a_message_that_arrives_is_returned(self) -> None:
        async def test(budget: Budget, senders: Senders) -> Any:
            arrival = asyncio.ensure_future(budget.arrival(senders.read, PATIENCE_S))
            await senders.asked_for(1)
            senders.asked[0].set_result(b"here")
            return await arrival

        assert on_a_loop(test) == b"here"

    def test_four_are_asked_for_at_once_and_the_next_when_one_has_arrived(self) -> None:
        async def test(budget: Budget, senders: Senders) -> list[int]:
            tasks = [
                asyncio.ensure_future(budget.arrival(senders.read, PATIENCE_S)) for _ in range(6)
            ]
            await settled()
            counts = [len(senders.asked)]
            senders.asked[2].set_result(b"")
            await settled()
            counts.append(len(senders.asked))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            return counts

        assert on_a_loop(test) == [4, 5]

    def test_memory_is_looked_at_before_each_is_asked_for(self) -> None:
        async def test(budget: Budget, senders: Senders) -> tuple[list[Any], int]:
            looks = iter((False, False, True, True, True))
            budget.pressed = lambda: next(looks)
            arrivals = [budget.arrival(senders.read, PATIENCE_S) for _ in range(5)]
            everything = asyncio.gather(*arrivals)
            await settled()
            for message in senders.asked:
                message.set_result(b"here")
            return list(await everything), len(senders.asked)

        refused = TOO_LITTLE_MEMORY
        assert on_a_loop(test) == ([b"here", b"here", refused, refused, refused], 2)

    def test_senders_that_send_nothing_do_not_keep_others_waiting(self) -> None:
        async def test(budget: Budget, senders: Senders) -> Any:
            silent = [
                asyncio.ensure_future(budget.arrival(senders.read, PATIENCE_S)) for _ in range(8)
            ]
            last = asyncio.ensure_future(budget.arrival(senders.read, PATIENCE_S))
            await senders.asked_for(9)
            senders.asked[8].set_result(b"here")
            message = await last
            for task in silent:
                task.cancel()
            await asyncio.wait(silent)
            return message

        assert on_a_loop(test) == b"here"

    def test_one_that_does_not_arrive_in_time_is_late(self) -> None:
        async def test(budget: Budget, senders: Senders) -> Any:
            return await budget.arrival(senders.read, 0.0)

        assert on_a_loop(test) is LATE

    def test_those_given_up_are_refused(self) -> None:
        async def test(budget: Budget, senders: Senders) -> Any:
            arrival = asyncio.ensure_future(budget.arrival(senders.read, PATIENCE_S))
            await senders.asked_for(1)
            budget.give_up_arriving()
            return await arrival

        assert on_a_loop(test) is TOO_LITTLE_MEMORY
