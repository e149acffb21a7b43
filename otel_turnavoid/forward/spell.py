"""A bad time: said when it begins and when it ends, and not over and over where it flickers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

QUIET_S: Final = 60.0
"""After a beginning was said, others go unsaid for this long, and so do their ends."""


class Spell:
    """Whether a bad time is on, and whether to speak of it."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Begin in good times.

        Args:
            now_s: A clock that only goes forward, in seconds.
        """
        self.on = False
        self._now_s = now_s
        self._said = False
        self._quiet_until_s = float("-inf")

    def begin(self) -> bool:
        """Return whether to say that a bad time began."""
        if self.on:
            return False
        self.on = True
        now_s = self._now_s()
        self._said = now_s >= self._quiet_until_s
        if self._said:
            self._quiet_until_s = now_s + QUIET_S
        return self._said

    def end(self) -> bool:
        """Return whether to say that a bad time ended."""
        ended, self.on = self.on, False
        return ended and self._said
