"""AgentTurns that open and close by themselves, by the retry rule (design section 2).

Calls of the agent outside of any ``agent_turn`` make their turns: a call with the identical
input messages continues the turn, one with another input begins the next. Where an input is not
stated, only what follows a failed call is another attempt. A call announced as a continuation
(``samplings=0``) stays in the turn before it. A turn spans its calls: it starts with its first
and ends with its last, so tools that follow lie outside. It is exported once it is certain that
it is over, which is when another turn begins or the entry around it ends.
"""

from __future__ import annotations

from threading import Condition, RLock, get_ident
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_turnavoid.instrument.handles import CallHandle, TurnHandle


class _Coming(NamedTuple):
    """A turn whose span is being started."""

    purpose: str
    digest: str | None
    thread: int

    def awaited_by(self, purpose: str, digest: str | None, *, continuation: bool) -> bool:
        """Tell whether a call of this thread continues it; who starts it never waits."""
        return (
            self.purpose == purpose
            and self.thread != get_ident()
            and (continuation or (digest is not None and digest == self.digest))
        )


class AutomaticTurns:
    """The automatic turns directly below one entry; parallel calls make parallel turns.

    The lock is never held while a call runs, nor while a span starts or ends: processors may
    take long over that, or wait for what other threads do. Only a call that continues a turn
    whose span another thread is starting waits for it, as that span is its parent.
    """

    __slots__ = ("_closed", "_coming", "_lock", "_started", "_turns")

    def __init__(self) -> None:
        self._lock = RLock()  # reentrant: a finalizer may end a call at any moment
        self._started = Condition(self._lock)
        self._turns: list[TurnHandle] = []
        """Turns with calls that run, and the last one."""
        self._coming: list[_Coming] = []
        self._closed = False

    def enter(
        self,
        purpose: str,
        digest: str | None,
        *,
        continuation: bool,
        start: Callable[[], TurnHandle],
    ) -> TurnHandle:
        """Return the turn that a new call belongs to, a new one where it continues none.

        Args:
            purpose: ``turnavoid.call.purpose``.
            digest: Of the input messages, if they are stated.
            continuation: Whether the call is known to sample nothing new.
            start: Opens a turn.
        """
        with self._lock:
            while True:
                for turn in reversed(self._turns):
                    if _continues(turn, purpose, digest, continuation=continuation):
                        turn.input = digest
                        turn.running += 1
                        return turn
                if not any(
                    coming.awaited_by(purpose, digest, continuation=continuation)
                    for coming in self._coming
                ):
                    break
                self._started.wait()
            over = self._take_idle()
            coming = _Coming(purpose, digest, get_ident())
            self._coming.append(coming)
        started: TurnHandle | None = None
        try:
            started = start()
            started.automatic_for = purpose
            started.input = digest
            started.running = 1
            return started
        finally:
            with self._lock:
                self._coming.remove(coming)
                if started is not None:
                    over += self._take_idle()  # those that came and ended meanwhile
                    self._turns.append(started)
                self._started.notify_all()
            _end(over)

    def leave(self, call: CallHandle) -> None:
        """Hear that a call has ended which ``enter`` gave its turn."""
        turn = call.turn
        if turn is None:
            return
        with self._lock:
            turn.running -= 1
            turn.last_failed = call.failed
            turn.last_end_ns = getattr(call.span, "end_time", None)
            over = not turn.running and (self._closed or turn is not self._turns[-1])
            if over:
                self._turns.remove(turn)
        if over:
            _end([turn])

    def close(self) -> None:
        """Hear that the entry around the turns ends; calls that still run end theirs."""
        with self._lock:
            self._closed = True
            over = self._take_idle()
        _end(over)

    def _take_idle(self) -> list[TurnHandle]:
        """Take out the turns in which no call runs: they are over."""
        idle = [turn for turn in self._turns if not turn.running]
        self._turns = [turn for turn in self._turns if turn.running]
        return idle


def _end(turns: list[TurnHandle]) -> None:
    for turn in turns:
        turn.end(end_ns=turn.last_end_ns)


def _continues(turn: TurnHandle, purpose: str, digest: str | None, *, continuation: bool) -> bool:
    if turn.automatic_for != purpose:
        return False
    if continuation:
        return True
    if digest is not None and turn.input is not None:
        return digest == turn.input
    return not turn.running and turn.last_failed
