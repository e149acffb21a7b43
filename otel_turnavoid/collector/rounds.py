"""What one round in the background does with the ledger: decide, remove what is old, publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_turnavoid.collector import telemetry

if TYPE_CHECKING:
    from otel_turnavoid.collector.components import LedgerExtension
    from otel_turnavoid.collector.journal import Journal
    from otel_turnavoid.collector.telemetry import Telemetry
    from otel_turnavoid.collector.tenure import Tenure
    from otel_turnavoid.judge.settings import Settings
    from otel_turnavoid.store import Ledger
    from otel_turnavoid.store.pruning import Pruned

PUBLISHED_TOGETHER: Final = 5000
"""Decisions after which a round shows what it has done so far."""

PRUNE_STEPS: Final = 10
"""Transactions of one round that remove what is old: deciding does not wait for more."""

PRUNINGS: Final = 24
"""How often retention is looked after in its own length."""


class Rounds:
    """The rounds of one processor; call it in one thread at a time."""

    def __init__(  # noqa: PLR0913 - the parts that it joins
        self,
        ledger: Ledger,
        tenure: Tenure,
        journal: Journal,
        *,
        settings: Settings,
        limits: LedgerExtension,
        own: Telemetry,
        clock: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._tenure = tenure
        self._journal = journal
        self._settings = settings
        self._limits = limits
        self._own = own
        self._clock = clock
        self._pruning: Iterator[Pruned] = iter(())
        self._pruned_ns: int | None = None

    def __call__(self) -> bool:
        """Do one round; return whether anything new was decided, here or elsewhere.

        Raises:
            LedgerError: The ledger cannot be used; the next round goes on.
        """
        try:
            self._decide()
            self._prune()
        finally:
            grown = self._journal.read_on()
        return grown

    def _decide(self) -> None:
        made = 0
        for step in self._ledger.deciding(
            self._settings,
            now_ns=self._clock(),
            author=self._tenure.author,
            max_open_runs=self._limits.max_open_runs,
        ):
            self._own.count(telemetry.EXPIRED_RUNS, step.expired, "age")
            self._own.count(telemetry.EXPIRED_RUNS, step.displaced, "limit")
            made += len(step.decisions)
            if made >= PUBLISHED_TOGETHER:
                return  # a backlog is published bit by bit, and goes on with the next round

    def _prune(self) -> None:
        retention_ns = self._limits.retention
        if retention_ns is None:
            return
        now_ns = self._clock()
        if self._pruned_ns is None or now_ns - self._pruned_ns >= retention_ns // PRUNINGS:
            self._pruned_ns = now_ns
            self._pruning = self._ledger.prune(now_ns - retention_ns)
        for removed in islice(self._pruning, PRUNE_STEPS):
            for kind, count in removed._asdict().items():
                self._own.count(telemetry.PRUNED, count, kind)
