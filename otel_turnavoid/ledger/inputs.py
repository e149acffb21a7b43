"""The rules between rows: turns in order, three arms to an input, and those agreeing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger.rules import id_problem, shared_problem
from otel_turnavoid.vocabulary import Arm

if TYPE_CHECKING:
    from otel_turnavoid.ledger.row import Gross, Row

ARMS: Final = tuple(arm.value for arm in Arm)
"""The arms in the order of the report."""

InputKey = tuple[str, str, int]
"""``trace_id``, ``unit_id``, ``turn_index``."""

_SHARED: Final = (
    "input_digest",
    "decision_basis_through_turn",
    "control_committed_model_turns",
    "control_gross",
    "independent_observer",
    "control_required",
)
_Shared = tuple[str, int, int, "Gross", str, tuple[str, ...]]
"""What the arms of one input must state alike, in the order of ``_SHARED``."""


class _Unit:
    """One (trace, unit): its last turn index by arm, and the inputs that lack an arm."""

    __slots__ = ("last", "open")

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.open: dict[int, tuple[_Shared, list[str]]] = {}
        """By turn index: what the first arm stated, and the arms seen."""


class Inputs:
    """What is known of inputs across their arms; a whole input is forgotten."""

    def __init__(self) -> None:
        self.complete = 0
        self._units: dict[tuple[str, str], _Unit] = {}
        self._faults: dict[InputKey, str] = {}

    def add(self, row: Row) -> str | None:
        """Note a row; return what is wrong with it by itself or after earlier rows."""
        observation = row.required_effect_observation
        shared = (
            row.input_digest,
            row.decision_basis_through_turn,
            row.control_committed_model_turns,
            row.control_gross,
            observation.independent_observer,
            observation.control_required,
        )
        arm = row.arm
        turn = row.turn_index
        key = (row.trace_id, row.unit_id)
        unit = self._units.get(key)
        if unit is None:
            problem = id_problem("trace_id", row.trace_id) or id_problem("unit_id", row.unit_id)
            if problem:
                return problem
            unit = self._units[key] = _Unit()
        known = unit.open.get(turn)
        # What a sound row stated already needs no second look: two of three rows end here.
        if known is None or known[0] != shared:
            problem = shared_problem(row)
            if problem:
                return problem
            if known is None:
                known = unit.open[turn] = (shared, [])
            else:
                self._note_disagreement(row, known, shared)
        last = unit.last.get(arm, -1)
        if turn <= last:
            return (
                f"turn_index {turn} comes after {last} in trace {row.trace_id}, unit "
                f"{row.unit_id}, arm {arm}; increasing turns are wanted"
            )
        unit.last[arm] = turn
        # Turns increase in each arm, so the arms of one input are distinct without a check.
        seen = known[1]
        seen.append(arm)
        if len(seen) == len(ARMS):
            del unit.open[turn]
            self.complete += 1
        return None

    def _note_disagreement(
        self, row: Row, known: tuple[_Shared, list[str]], shared: _Shared
    ) -> None:
        first, arms = known
        field = next(
            name for name, one, other in zip(_SHARED, first, shared, strict=True) if one != other
        )
        self._faults.setdefault(
            (row.trace_id, row.unit_id, row.turn_index),
            f"{field} differs between the arms {arms[0]} and {row.arm}; the same is wanted",
        )

    def check(self) -> None:
        """Raise TraceError for the first input, by key, that is not whole."""
        faults = self._faults
        for (trace_id, unit_id), unit in self._units.items():
            for turn, (_, seen) in unit.open.items():
                missing = " and ".join(arm for arm in ARMS if arm not in seen)
                faults.setdefault(
                    (trace_id, unit_id, turn),
                    f"has no row for {missing}; each input needs its three arms",
                )
        if faults:
            key = min(faults)
            at = dict(zip(("trace_id", "unit_id", "turn_index"), key, strict=True))
            raise TraceError(at, faults[key])
