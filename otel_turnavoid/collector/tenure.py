"""What of the ledger's journal this process may publish, and for which share it decides.

Several processors may share one ledger (``store.shares``). Each publishes what it holds, as long
as its lease runs by its own clock: where the ledger cannot be reached to extend it, somebody
else may take over, and the same figures from two processes would count twice in every sum.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.store.shares import Author

if TYPE_CHECKING:
    from otel_turnavoid.store import Ledger

RENEWALS: Final = 3
"""How often a lease is extended in its own length."""

_logger = logging.getLogger(__name__)


class Held(NamedTuple):
    """A share that may be published."""

    share: int
    working: bool
    """Whether this process decides for it, too."""


class Tenure:
    """The shares that this process holds; safe to use from any thread."""

    def __init__(
        self,
        ledger: Ledger,
        executor: Executor,
        *,
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; ``renew`` must have succeeded once before anything else is asked.

        Args:
            ledger: Where leases are kept.
            executor: A thread in which to wait for the ledger.
            lease_s: How long a share is held unless it is extended, in seconds.
            clock: Seconds, by which leases run here.
        """
        self._ledger = ledger
        self._executor = executor
        self._lease_s = lease_s
        self._clock = clock
        self._holder = str(uuid.uuid4())
        self._lock = threading.Lock()
        self._from: dict[Held, float] = {}
        self._until = 0.0
        self._closed = asyncio.Event()
        self._failing = False

    @property
    def author(self) -> Author:
        """For which share this process decides."""
        with self._lock:
            share = next(held.share for held in self._from if held.working)
        return self.author_of(share)

    def author_of(self, share: int) -> Author:
        """Return under which name a share is held."""
        return Author(share, self._holder)

    def held(self) -> list[Held]:
        """Return what this process holds, the share that it decides for first."""
        with self._lock:
            return sorted(self._from, key=lambda held: (not held.working, held.share))

    def published(self) -> list[Held]:
        """Return what of it may be shown now: nothing where the lease may have run out."""
        now = self._clock()
        with self._lock:
            if now >= self._until:
                return []
            shown = [held for held, since in self._from.items() if since <= now]
        return sorted(shown, key=lambda held: (not held.working, held.share))

    def renew(self) -> None:
        """Extend the lease, and take over what nobody publishes any more.

        Raises:
            LedgerError: The ledger cannot be written; what is held runs out.
        """
        # The lease is counted from before it was asked for: never longer here than there.
        asked = self._clock()
        holdings = self._ledger.hold(self._holder, lease_ns=round(self._lease_s * SECOND))
        with self._lock:
            before = self._from
            self._from = {
                held: before.get(held, self._clock() + holding.wait_ns / SECOND)
                for holding in holdings
                for held in (Held(holding.share, holding.working),)
            }
            self._until = asked + self._lease_s
        for held in self._from.keys() - before.keys():
            doing = "decides for" if held.working else "keeps published"
            # Alone on a ledger there is nothing to tell apart.
            level = logging.DEBUG if held == Held(1, working=True) else logging.INFO
            _logger.log(level, "this processor %s share %d of the ledger", doing, held.share)

    async def run(self) -> None:
        """Extend the lease until closed, then let go of everything."""
        while not await self._closes_within(self._lease_s / RENEWALS):
            await self._in_thread(self.renew)
        await self._in_thread(lambda: self._ledger.release(self._holder))

    def close(self) -> None:
        """Let ``run`` end."""
        self._closed.set()

    async def _closes_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def _in_thread(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except LedgerError as error:
            if not self._failing:
                self._failing = True
                _logger.error("the lease of the ledger cannot be extended: %s", error)  # noqa: TRY400 - one line
        else:
            self._failing = False
