"""Turns of the threads of one process at a database that takes one writer at a time.

Databases hand their lock to whoever asks at the right moment: a thread that writes one
transaction after another would keep all others waiting until they give up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from otel_turnavoid.errors import LedgerError


class Turns:
    """A lock that threads get in the order in which they asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, patience_s: float) -> Iterator[float]:
        """Wait for a turn, and give it on at the end.

        Yields what is left of ``patience_s`` for what else must be waited for.

        Raises:
            LedgerError: It did not come within ``patience_s`` seconds.
        """
        ends = time.monotonic() + patience_s
        self._take(patience_s)
        try:
            yield max(0.0, ends - time.monotonic())
        finally:
            self._give_on()

    def _take(self, patience_s: float) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(patience_s):
            return
        with self._lock:
            if mine.is_set():  # given just now
                return
            self._waiting.remove(mine)
        raise LedgerError(f"the ledger was busy for {patience_s:.0f} s")

    def _give_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False
