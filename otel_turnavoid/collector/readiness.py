"""Whether exports are taken: asked of the ledger itself, which has to be written for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from otel_turnavoid.errors import LedgerError

INTERVAL_S: Final = 5.0
"""Between two looks that nobody asked for."""

FRESH_S: Final = 1.0
"""So old may an answer be: probes, however many, do not load the ledger."""

PATIENCE_S: Final = 2.0
"""A ledger that takes longer than this to be written is not ready."""

STARTING: Final = "starting"
STOPPING: Final = "stopping"

_logger = logging.getLogger(__name__)


class Readiness:
    """Looks whether exports are taken; for one event loop."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Begin as not ready.

        Args:
            clock: Seconds; the event loop's where left out.
        """
        self.reasons: tuple[str, ...] = (STARTING,)
        """Why exports are not taken, as of the last look; nothing where they are."""
        self._clock = clock or asyncio.get_running_loop().time
        self._write: Callable[[], Awaitable[object]] | None = None
        self._others: Callable[[], Iterable[str]] = tuple
        self._changed: Callable[[bool], Awaitable[None]] | None = None
        self._writing: asyncio.Future[object] | None = None
        self._looked_s = float("-inf")
        self._stopping = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether exports are taken, as of the last look."""
        return not self.reasons

    def started(
        self,
        write: Callable[[], Awaitable[object]],
        *,
        others: Callable[[], Iterable[str]] = tuple,
        changed: Callable[[bool], Awaitable[None]] | None = None,
    ) -> None:
        """Look from now on.

        Args:
            write: Writes something to the ledger; raises LedgerError.
            others: Returns what else keeps exports from being taken.
            changed: Told when the answer changes.
        """
        self._write = write
        self._others = others
        self._changed = changed

    async def look(self) -> tuple[str, ...]:
        """Return why exports are not taken, looking anew where the last answer is old."""
        if self._write is not None and not self._stopping.is_set():
            now_s = self._clock()
            if now_s - self._looked_s >= FRESH_S:
                self._looked_s = now_s
                await self._note(await self._found())
        return self.reasons

    async def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.is_set():
            await self.look()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), INTERVAL_S)

    def stop(self) -> None:
        """Be ready no more."""
        self._stopping.set()
        self.reasons = (STOPPING,)

    async def _found(self) -> tuple[str, ...]:
        ledger = () if await self._written() else ("the ledger cannot be written",)
        return (*ledger, *self._others())

    async def _written(self) -> bool:
        if self._write is None:
            return False
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
        # One that hangs is not joined by another with each probe.
        done, _ = await asyncio.wait({self._writing}, timeout=PATIENCE_S)
        if not done:
            return False
        writing, self._writing = self._writing, None
        try:
            writing.result()
        except LedgerError:
            return False
        return True

    async def _note(self, reasons: tuple[str, ...]) -> None:
        if self._stopping.is_set() or reasons == self.reasons:
            return
        before, self.reasons = self.reasons, reasons
        if reasons:
            _logger.warning("not ready: %s", "; ".join(reasons))
        elif before != (STARTING,):
            _logger.info("ready again")
        if self._changed is not None and bool(before) != bool(reasons):
            await self._changed(not reasons)
