"""What senders do wrong, said in the log without letting them fill it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, final

_QUIET_S: Final = 60.0

_logger = logging.getLogger(__name__)


@final
class Complaints:
    """The same line in the log at most once a minute, however often it is true."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}

    def add(self, line: str) -> None:
        """Say ``line``, or count it for the next time."""
        now = self._clock()
        with self._lock:
            since, unsaid = self._said.get(line, (now - _QUIET_S, 0))
            if now - since < _QUIET_S:
                self._said[line] = (since, unsaid + 1)
                return
            self._said[line] = (now, 0)
        _logger.warning("%s%s", line, f" ({unsaid} more times)" if unsaid else "")
