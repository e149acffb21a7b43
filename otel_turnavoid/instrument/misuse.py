"""What happens on bad use: an error in development, a log line and a count in production."""

from __future__ import annotations

import logging
import os
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Final

from otel_turnavoid.errors import UsageError
from otel_turnavoid.vocabulary import Env, Word

if TYPE_CHECKING:
    from collections.abc import Mapping

MODE_VARIABLE: Final = Env.MODE
"""``development`` or ``production``; anything else, and nothing, is ``production``."""

_LOGGED_AT_MOST: Final = 1000
_logger = logging.getLogger(__name__)


class Misuse(Word):
    """Kinds of bad use."""

    VOCABULARY = "vocabulary"
    """A word outside a closed vocabulary."""
    VALUE = "value"
    """A number or name that cannot be meant, or parameters that contradict each other."""
    DIGEST = "digest"
    """An input without a digest, or a malformed digest."""
    LEAKAGE = "leakage"
    """A decision that rests on its own turn or a later one."""
    OUTSIDE = "outside"
    """An entry outside an invoke, a model call of the agent outside an agent turn."""
    ENDED = "ended"
    """Something said about an entry, or entered into a run, after its end."""
    FUNCTION = "function"
    """A decorator on something that it cannot decorate."""
    TURN = "turn"
    """A model call whose input changed inside an AgentTurn that was opened by hand."""
    LIFECYCLE = "lifecycle"
    """A step of the lifecycle that an earlier one rules out."""
    PROCESS = "process"
    """A run in another process without a hop, or a hop that never reported back."""
    IMPAIRED = "impaired"
    """Entries that suppression, sampling or limits kept from being wholly recorded; not bad use
    of the API, so it is counted and logged and never raised."""


_counts: Counter[str] = Counter()
_logged: set[str] = set()
_lock = Lock()


def misused(kind: Misuse, problem: str) -> None:
    """Report bad use of the API.

    Raises:
        UsageError: in development mode.
    """
    if os.environ.get(MODE_VARIABLE) == "development":
        raise UsageError(problem)
    noticed(kind, f"{problem} (said once; {MODE_VARIABLE}=development raises it)")


def noticed(kind: Misuse, problem: str) -> None:
    """Count something, and log it the first time."""
    with _lock:
        _counts[kind.value] += 1
        first = problem not in _logged and len(_logged) < _LOGGED_AT_MOST
        if first:
            _logged.add(problem)
    if first:
        _logger.warning("%s", problem)


def misuses() -> Mapping[str, int]:
    """Return how often the API was used badly since the process started, by kind.

    Kinds: those of ``Misuse``; those that never occurred are left out.
    """
    with _lock:
        return dict(_counts)


def _forked() -> None:
    """Let a forked child begin with a free lock: its parent's threads are not there to free it."""
    global _lock  # noqa: PLW0603 - replaced as a whole
    _lock = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)
