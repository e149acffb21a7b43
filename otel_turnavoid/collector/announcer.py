"""Hands every verdict to the exporters of spans and log records, each at least once.

It follows the journal behind the decider: what it has handed on is durable in the exporters'
queues before its place is remembered in the ledger. Killed in between, it hands the same
verdicts on again under the same ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final, TypeVar

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.forward import Forwarder, QueueError, QueueFullError, Signal
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.publish.metrics import ledger_instance_id
from otel_turnavoid.publish.verdict_telemetry import Verdict, verdict_records, verdict_spans

if TYPE_CHECKING:
    from otel_turnavoid.collector.journal import Bell
    from otel_turnavoid.collector.tenure import Tenure
    from otel_turnavoid.store import Ledger

TOGETHER: Final = 200
"""Verdicts of one request."""

PATIENCE_S: Final = 1.0
"""When to try again what a queue or the ledger did not take."""

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class Announcer:
    """Announces the verdicts of the shares that this process holds; for one event loop."""

    def __init__(  # noqa: PLR0913 - the parts that it joins
        self,
        ledger: Ledger,
        tenure: Tenure,
        forwarder: Forwarder,
        bell: Bell,
        executor: Executor,
        *,
        resource: Callable[[int], Mapping[str, str]],
    ) -> None:
        """Prepare; nothing is announced where nothing is forwarded.

        Args:
            ledger: Whose verdicts.
            tenure: Which shares of its journal are held.
            forwarder: Where verdicts go.
            bell: Rings where something was decided.
            executor: Threads that read the ledger.
            resource: Attributes of who publishes a share.
        """
        self._ledger = ledger
        self._tenure = tenure
        self._forwarder = forwarder
        self._bell = bell
        self._executor = executor
        self._resource = resource
        self._id = ledger_instance_id(ledger.birth_ns)
        self._places: dict[int, int] = {}
        self._closed = asyncio.Event()
        self._failing = False

    @property
    def idle(self) -> bool:
        """Whether there is nowhere to announce to."""
        return not any(map(self._forwarder.takes, (Signal.TRACES, Signal.LOGS)))

    async def begin(self) -> None:
        """Look where the shares stand, before anything new is decided.

        Raises:
            LedgerError: The ledger cannot be used.
        """
        if not self.idle:
            await self._find_places()

    async def run(self) -> None:
        """Announce until closed; what was decided by then is announced too."""
        while not self.idle:
            rung, closed = self._bell.next(), self._closed.is_set()
            taken = await self._try_round()
            if closed:
                return
            await self._wait(rung, None if taken else PATIENCE_S)

    def close(self) -> None:
        """Let ``run`` end after one more round."""
        self._closed.set()

    async def _try_round(self) -> bool:
        """Announce what is new; return whether everything was taken."""
        try:
            await self._round()
        except (LedgerError, QueueError, QueueFullError) as error:
            if not self._failing:
                self._failing = True
                _logger.warning("verdicts wait to be announced: %s", error)
            return False
        self._failing = False
        return True

    async def _round(self) -> None:
        await self._find_places()
        for share in self._places:
            while await self._step(share):
                pass

    async def _step(self, share: int) -> bool:
        """Announce some verdicts of a share; return whether there may be more."""
        after = self._places[share]
        found = await self._in(lambda: self._ledger.verdicts(share, after, most=TOGETHER))
        if not found:
            return False
        verdicts = [
            Verdict(record.number, record.decided_ns, record.decision)
            for record in found
            if isinstance(record.decision, PairDecided)
        ]
        resource, last = self._resource(share), found[-1].number
        if self._forwarder.takes(Signal.TRACES):
            body = verdict_spans(verdicts, resource, self._id)
            await self._forwarder.offer(Signal.TRACES, body, len(verdicts))
        if self._forwarder.takes(Signal.LOGS):
            body = verdict_records(verdicts, resource, self._id)
            await self._forwarder.offer(Signal.LOGS, body, len(verdicts))
        await self._in(lambda: self._ledger.announce(share, last))
        self._places[share] = last
        return len(found) == TOGETHER

    async def _find_places(self) -> None:
        known = self._places
        held = sorted(each.share for each in self._tenure.held())
        self._places = {
            share: known[share] if share in known else await self._place_of(share) for share in held
        }

    async def _place_of(self, share: int) -> int:
        return await self._in(lambda: self._ledger.begin_announcing(share))

    async def _wait(self, rung: asyncio.Event, patience_s: float | None) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (rung, self._closed)]
        try:
            await asyncio.wait(waits, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _in(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
