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

    async def arrival(self, message: Awaitable[Any], patience_s: float) -> Any:
        """Return a message when it has arrived, or a refusal: it is late, or was given up."""
        arriving = asyncio.ensure_future(message)
        self._arriving.add(arriving)
        try:
            await asyncio.wait({arriving}, timeout=patience_s)
            if arriving.cancelled():
                return TOO_LITTLE_MEMORY
            return arriving.result() if arriving.done() else LATE
        finally:
            self._arriving.discard(arriving)
            arriving.cancel()

    def give_up_arriving(self) -> None:
        """Refuse every message that is still arriving, so that its memory is free."""
        for arriving in self._arriving:
            arriving.cancel()
