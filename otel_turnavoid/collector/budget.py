"""What may be in hand at once, over all connections and both protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from otel_turnavoid.collector.answer import Refused, Trouble

TOO_MANY_BYTES: Final = Refused(Trouble.UNAVAILABLE, "too many bytes of requests in hand")
TOO_MANY_REQUESTS: Final = Refused(Trouble.UNAVAILABLE, "too many requests in hand")
LATE: Final = Refused(Trouble.UNAVAILABLE, "the message did not arrive in time")
TOO_LITTLE_MEMORY: Final = Refused(Trouble.UNAVAILABLE, "too little memory is left")

_ASKED_FOR_AT_ONCE: Final = 4
_AT_THE_DOOR_S: Final = 0.1
"""A sender that is slower than this does not keep others waiting."""


class Budget:
    """Requests that may be in hand at once, and bytes of their bodies."""

    def __init__(
        self,
        limit: int,
        requests: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            limit: Bytes, after decompression.
            requests: How many; any number where left out.
        """
        self.pressed: Callable[[], bool] = lambda: False
        """Whether memory is short."""
        self._limit = limit
        self._most = requests
        self._held = 0
        self._requests = 0
        self._arriving: set[asyncio.Future[Any]] = set()
        self._door = asyncio.Semaphore(_ASKED_FOR_AT_ONCE)

    def refusal(self) -> Refused | None:
        """Return why no more requests are taken, before anything of one is read."""
        if self._most is not None and self._requests >= self._most:
            return TOO_MANY_REQUESTS
        return TOO_LITTLE_MEMORY if self.pressed() else None

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], bool]]:
        """Yield a function that asks for more bytes; what it was given is given back at the end.

        A request alone is never refused: whatever its own limit allows can be taken.
        """
        mine = 0
        self._requests += 1

        def more(size: int) -> bool:
            nonlocal mine
            if self._held + size > self._limit and self._held > mine:
                return False
            mine += size
            self._held += size
            return True

        try:
            yield more
        finally:
            self._held -= mine
            self._requests -= 1

    async def arrival(self, read: Callable[[], Awaitable[Any]], patience_s: float) -> Any:
        """Return a message when it has arrived, or a refusal: memory is short, or it is late.

        Nobody knows how large a message is before it has arrived, and its sender sends only
        once it is asked for. So few are asked for at once, each after a look at the memory.

        Args:
            read: Asks for the message.
            patience_s: How long it may take to arrive.
        """
        arriving: asyncio.Future[Any] | None = None
        try:
            async with self._door:
                if self.pressed():
                    return TOO_LITTLE_MEMORY
                arriving = asyncio.ensure_future(read())
                self._arriving.add(arriving)
                await asyncio.wait({arriving}, timeout=min(_AT_THE_DOOR_S, patience_s))
            await asyncio.wait({arriving}, timeout=max(0.0, patience_s - _AT_THE_DOOR_S))
            if arriving.cancelled():
                return TOO_LITTLE_MEMORY
            return arriving.result() if arriving.done() else LATE
        finally:
            if arriving is not None:
                self._arriving.discard(arriving)
                arriving.cancel()

    def give_up_arriving(self) -> None:
        """Refuse every message that is still arriving, so that its memory is free."""
        for arriving in self._arriving:
            arriving.cancel()
