"""What is read from files while the process runs: the last good reading is kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar, final

from otel_turnavoid.collector.endpoint import reason
from otel_turnavoid.errors import ConfigurationError

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


@final
class Kept(Generic[_T]):
    """A value that comes from files, read again and again.

    Files that are missing or broken half way through a change leave the value as it was: a
    running endpoint does not lose its certificate, nor its senders their access, over them.
    """

    def __init__(self, read: Callable[[], _T], key: str) -> None:
        """Read for the first time.

        Args:
            read: Returns the value; raises ConfigurationError.
            key: The configuration key of the files, for the log.

        Raises:
            ConfigurationError: The files cannot be used.
        """
        self._read = read
        self._key = key
        self._problem: str | None = None
        self.value = read()
        """As last read well."""

    def refresh(self) -> None:
        """Read again, and say in the log what came of it; raises nothing."""
        try:
            value = self._read()
        except ConfigurationError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _logger.warning("%s; what was read before stays in use", error)
            return
        if self._problem is not None:
            self._problem = None
            _logger.info("%s: can be read again", self._key)
        if value != self.value:
            self.value = value
            _logger.info("%s: has changed, the new files are in use", self._key)

    @asynccontextmanager
    async def fresh(self, interval_s: float) -> AsyncIterator[None]:
        """Refresh at an interval, beside the block."""

        async def keep_on() -> None:
            while True:
                await asyncio.sleep(interval_s)
                await asyncio.to_thread(self.refresh)

        task = asyncio.create_task(keep_on())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def read_file(path: str, key: str) -> bytes:
    """Return what is in a file that the configuration names.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(key, f"{path} cannot be read: {reason(error)}") from None
