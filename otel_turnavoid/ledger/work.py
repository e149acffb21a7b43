"""Exact sums of latency and cost, per side: control, candidate, overhead."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger.report import Accounting
from otel_turnavoid.ledger.sums import expansion, negated, rounded

if TYPE_CHECKING:
    from otel_turnavoid.ledger.row import Row

_WAITING: Final = 1024
"""Control numbers (four a row) that wait until they are reduced; few enough to stay in cache."""


class Side:
    """The work of one side, as two expansions."""

    __slots__ = ("cost", "latency")

    def __init__(self) -> None:
        self.latency: list[float] = []
        self.cost: list[float] = []

    def add(self, values: list[float], width: int) -> None:
        """Take in the fields of structs of ``width`` fields: first latencies, then costs."""
        half = width // 2
        latency: list[float] = []
        cost: list[float] = []
        for field in range(half):
            latency += values[field::width]
            cost += values[half + field :: width]
        self.latency = expansion(self.latency + expansion(latency))
        self.cost = expansion(self.cost + expansion(cost))

    def merge(self, other: Side) -> None:
        """Take in the work of other rows."""
        self.latency = expansion(self.latency + other.latency)
        self.cost = expansion(self.cost + other.cost)


class Work:
    """The work of some rows; call ``settle`` before reading the sides."""

    __slots__ = ("_candidate", "_control", "_overhead", "candidate", "control", "overhead")

    def __init__(self) -> None:
        self.control = Side()
        self.candidate = Side()
        self.overhead = Side()
        # Fields of the rows' structs, flat and in their order, not yet in the sides.
        self._control: list[float] = []
        self._candidate: list[float] = []
        self._overhead: list[float] = []

    def add(self, row: Row) -> None:
        """Take in the work of a row."""
        self._control += astuple(row.control_gross)
        self._candidate += astuple(row.candidate_gross)
        self._overhead += astuple(row.overhead)
        if len(self._control) >= _WAITING:
            self.settle()

    def add_control(self, row: Row) -> None:
        """Take in a row of the control arm, whose candidate is its control."""
        self._control += astuple(row.control_gross)
        if len(self._control) >= _WAITING:
            self.settle()

    def settle(self) -> None:
        """Sum what waits."""
        self.control.add(self._control, 4)
        self.candidate.add(self._candidate, 4)
        self.overhead.add(self._overhead, 8)
        self._control.clear()
        self._candidate.clear()
        self._overhead.clear()

    def merge(self, other: Work) -> None:
        """Take in the work of other rows, settled."""
        self.control.merge(other.control)
        self.candidate.merge(other.candidate)
        self.overhead.merge(other.overhead)


def accounting(work: Work, *, mirrored: bool) -> Accounting:
    """Round the figures of report/v1, each once, from exact sums.

    Args:
        work: Settled.
        mirrored: The control arm: its candidate is its control.

    Raises:
        TraceError: where a sum is beyond the largest double.
    """
    control, overhead = work.control, work.overhead
    candidate = control if mirrored else work.candidate
    for side in (control, candidate, overhead):
        if inf in side.latency or inf in side.cost:
            raise TraceError({}, "the sum of the work is beyond the largest double")
    gained_ms, gained_usd = negated(candidate.latency), negated(candidate.cost)
    return Accounting(
        gross_control_latency_ms=rounded(control.latency),
        gross_candidate_latency_ms=rounded(candidate.latency),
        gross_latency_saved_ms=rounded(control.latency, gained_ms),
        overhead_latency_ms=rounded(overhead.latency),
        net_candidate_latency_ms=rounded(candidate.latency, overhead.latency),
        net_latency_saved_ms=rounded(control.latency, gained_ms, negated(overhead.latency)),
        gross_control_cost_usd=rounded(control.cost),
        gross_candidate_cost_usd=rounded(candidate.cost),
        gross_cost_saved_usd=rounded(control.cost, gained_usd),
        overhead_cost_usd=rounded(overhead.cost),
        net_candidate_cost_usd=rounded(candidate.cost, overhead.cost),
        net_cost_saved_usd=rounded(control.cost, gained_usd, negated(overhead.cost)),
    )
