"""How long to wait between attempts: exponential with jitter, in the Collector's terms."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

LONGEST_WAIT_S: Final = 600.0
"""However late a backend asks to come back, it is tried again after this."""


class RetryPolicy(NamedTuple):
    """``retry_on_failure``; times in seconds."""

    enabled: bool = True
    """Whether a request is sent again at all; without, it is dropped at the first trouble."""
    initial_interval_s: float = 5.0
    randomization_factor: float = 0.5
    """Each wait is spread evenly over its interval, less and more this share of it."""
    multiplier: float = 1.5
    max_interval_s: float = 30.0
    max_elapsed_s: float = 0.0
    """When a request is given up and dropped, from its first attempt; 0 is never."""


class Backoff:
    """The waits of one request, from its first attempt on."""

    def __init__(
        self,
        policy: RetryPolicy,
        now_s: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Start now.

        Args:
            policy: The intervals.
            now_s: A clock that only goes forward, in seconds.
            chance: Returns numbers from 0 to 1, evenly spread.
        """
        self._policy = policy
        self._now_s = now_s
        self._chance = chance
        self._interval_s = policy.initial_interval_s
        self._start_s = now_s()

    def wait_s(self, asked_s: float | None = None) -> float | None:
        """Return how long to wait before the next attempt; None is to give up.

        Args:
            asked_s: What the backend asked for. It is never tried earlier.
        """
        policy = self._policy
        if not policy.enabled:
            return None
        spread = policy.randomization_factor * (2 * self._chance() - 1)
        wait_s = self._interval_s * (1 + spread)
        self._interval_s = min(self._interval_s * policy.multiplier, policy.max_interval_s)
        if asked_s is not None:
            wait_s = max(wait_s, min(asked_s, LONGEST_WAIT_S))
        elapsed_s = self._now_s() - self._start_s
        if policy.max_elapsed_s and elapsed_s + wait_s > policy.max_elapsed_s:
            return None
        return wait_s
