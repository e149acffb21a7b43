"""What can be said about an AgentTurn while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.scope import Handle
from otel_turnavoid.vocabulary import Attr, Disposition, Entry

if TYPE_CHECKING:
    from otel_turnavoid.instrument.call_handle import CallHandle
    from otel_turnavoid.instrument.run import RunState

_COMMITTED: Final = Disposition.COMMITTED.value
_FAILED: Final = Disposition.FAILED.value
_DISCARDED: Final = Disposition.DISCARDED.value


class TurnHandle(Handle):
    """An open AgentTurn."""

    entry: ClassVar[str] = Entry.AGENT_TURN.value

    side_work = False
    """Whether calls of other purposes ended in it."""
    automatic_for: str | None = None
    """Purpose of its calls, where it opened by itself (``automatic``)."""
    input: str | None = None
    running = 0
    last_failed = False
    last_end_ns: int | None = None

    def __init__(self, run: RunState, parent: Handle | None) -> None:
        super().__init__(run, parent)
        self.turn = self
        self.generated: set[str] = set()
        """Dispositions of the calls that ended in this turn and could make it a turn."""
        self.calls: dict[str, CallHandle] = {}
        """The last call that started in it, by purpose."""

    def set(self, *, disposition: str) -> None:
        """State what became of the turn: ``committed``, ``failed`` or ``discarded``.

        By itself, a turn is what the best of its generations became, those of the agent and
        speculative ones. Without any it is discarded where it held calls of other purposes,
        failed where an exception ended it, and else committed: its calls are not instrumented.
        """
        key = Attr.TURN_DISPOSITION
        self.record(key, checks.word(Disposition, key, disposition))

    def _closing(self, late: dict[str, Any], error: BaseException | None) -> None:
        if Attr.TURN_DISPOSITION not in late:
            late[Attr.TURN_DISPOSITION] = self._became(error)
        # Rings of references would have to wait for the cyclic collector.
        self.turn = None
        self.calls.clear()

    def _became(self, error: BaseException | None) -> str:
        if self.generated:
            for disposition in (_COMMITTED, _DISCARDED, _FAILED):
                if disposition in self.generated:
                    return disposition
        if error is not None:
            return _FAILED
        return _DISCARDED if self.side_work else _COMMITTED
