"""``processors.memory_limiter``: refuse, before anything is read, what memory has no room for.

The counts of requests and bytes in hand bound what they cost, but not what gRPC buffers of
messages that are still arriving, nor what anything else in the process takes. So the memory that
the process really uses is looked at, too.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.section import Section
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import SECOND

_MIB: Final = 1 << 20
_SPIKE_SHARE: Final = 5
"""Without a spike limit, soft and hard limit lie this part of the hard one apart."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_RESIDENT: Final = Path("/proc/self/statm")
_CONTAINER: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_Mib = Annotated[int, msgspec.Meta(ge=1)]
_Percentage = Annotated[int, msgspec.Meta(ge=1, le=100)]

_logger = logging.getLogger(__name__)


class MemoryLimiter(Section, frozen=True):
    """``processors.memory_limiter``, with the collector's keys."""

    check_interval: Duration = Duration(SECOND)
    """Time between looks at the memory in use."""
    limit_mib: _Mib | None = None
    """Hard limit: above it, messages that are still arriving are dropped."""
    spike_limit_mib: _Mib | None = None
    """What may come between two looks: above the hard limit less this, requests are refused."""
    limit_percentage: _Percentage | None = None
    """``limit_mib`` in percent of the memory of the container or machine."""
    spike_limit_percentage: _Percentage | None = None
    """``spike_limit_mib`` in percent of that memory."""

    def limits(self, key: str, total: int | None = None) -> tuple[int, int]:
        """Return the soft and the hard limit in bytes.

        Args:
            key: Where the section stands in the configuration, for errors.
            total: Bytes of memory that percentages are of; those of this machine if left out.

        Raises:
            ConfigurationError: There is no limit, or the spike leaves nothing of it.
        """
        if self.check_interval <= 0:
            raise ConfigurationError(f"{key}.check_interval", "must be above 0s")
        hard = self._bytes(self.limit_mib, self.limit_percentage, total)
        if hard is None:
            raise ConfigurationError(key, "wants limit_mib or limit_percentage")
        spike = self._bytes(self.spike_limit_mib, self.spike_limit_percentage, total)
        if spike is None:
            spike = hard // _SPIKE_SHARE
        if spike >= hard:
            raise ConfigurationError(f"{key}.spike_limit_mib", "must be below the limit")
        return hard - spike, hard

    @staticmethod
    def _bytes(mib: int | None, percentage: int | None, total: int | None) -> int | None:
        if mib is not None:
            return mib * _MIB
        if percentage is None:
            return None
        return (total or total_bytes()) * percentage // 100


class MemoryGuard:
    """Looks at the memory in use, and says when it is short."""

    def __init__(
        self,
        soft: int,
        hard: int,
        relieve: Callable[[], None],
        used: Callable[[], int] | None = None,
    ) -> None:
        """Prepare; ``run`` looks.

        Args:
            soft: Bytes above which memory is short.
            hard: Bytes above which ``relieve`` is called.
            relieve: Gives up what can be given up.
            used: Returns the bytes in use.
        """
        self.pressed = False
        """Whether memory was short at the last look."""
        self._soft = soft
        self._hard = hard
        self._relieve = relieve
        self._used = used or resident_bytes
        self._ended = asyncio.Event()

    def look(self) -> None:
        """Look once, and make room where there is too little."""
        used = self._used()
        if used > self._hard:
            self._relieve()
            gc.collect()
            used = self._used()
        self._weigh(used)

    def short(self) -> bool:
        """Look, and return whether memory is short now: senders are faster than the clock."""
        self._weigh(self._used())
        return self.pressed

    def _weigh(self, used: int) -> None:
        pressed = used > self._soft
        if pressed and not self.pressed:
            _logger.warning("memory is short (%d MiB), senders are told to retry", used // _MIB)
        elif self.pressed and not pressed:
            _logger.info("memory is not short any more (%d MiB)", used // _MIB)
        self.pressed = pressed

    async def run(self, interval_s: float) -> None:
        """Look until closed."""
        while not self._ended.is_set():
            self.look()
            try:
                await asyncio.wait_for(self._ended.wait(), interval_s)
            except asyncio.TimeoutError:
                continue

    def close(self) -> None:
        """Look no more."""
        self._ended.set()


def resident_bytes() -> int:
    """Return the memory that this process uses, in bytes.

    Raises:
        OSError: This system does not say.
    """
    return int(_RESIDENT.read_bytes().split()[1]) * _PAGE


def total_bytes() -> int:
    """Return the memory that this process may use at most: its container's, or the machine's."""
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE
    for path in _CONTAINER:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
