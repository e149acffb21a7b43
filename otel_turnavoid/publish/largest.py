"""The pairs that move the figures most: what a reader should look at before believing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final, NamedTuple

from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.ledger import Row

SHOWN: Final = 3
"""Pairs of each kind."""


class Kind(NamedTuple):
    """By what pairs are the largest."""

    name: str
    title: str


AVOIDED: Final = Kind("avoided", "Most turns avoided")
WITHHELD: Final = Kind("withheld", "Most turns withheld")
ADDED: Final = Kind("added", "Most turns added")
KINDS: Final = (AVOIDED, WITHHELD, ADDED)


class Largest(NamedTuple):
    """The largest pairs of one kind."""

    kind: Kind
    pairs: tuple[PairDecided, ...]


class Comparison(NamedTuple):
    """One candidate row of a trace/v1 file, which holds its control's figures too."""

    row: Row
    avoided: int
    withheld: int
    added: int


class LargestRows(NamedTuple):
    """The largest rows of one kind."""

    kind: Kind
    rows: tuple[Comparison, ...]


def largest(pairs: Iterable[PairDecided], *, most: int = SHOWN) -> list[Largest]:
    """Return the largest pairs of each kind, the same ones for any order of the pairs."""
    found = list(pairs)
    return [
        Largest(kind, tuple(chosen))
        for kind in KINDS
        if (chosen := nsmallest(most, _moving(found, kind), key=lambda one: _place(one, kind)))
    ]


def _moving(pairs: Iterable[PairDecided], kind: Kind) -> Iterator[PairDecided]:
    return (pair for pair in pairs if getattr(pair, kind.name))


def _place(pair: PairDecided, kind: Kind) -> tuple[int, str, str]:
    return -getattr(pair, kind.name), pair.control.run_id, pair.candidate.run_id


class Watch:
    """Remembers the largest rows of a stream that somebody else folds."""

    def __init__(self, *, strict: bool = False, most: int = SHOWN) -> None:
        self._strict = strict
        self._most = most
        self._kept: dict[Kind, list[Comparison]] = {kind: [] for kind in KINDS}

    def through(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows as they come, keeping the largest in mind."""
        for row in rows:
            if row.control_committed_model_turns != row.candidate_committed_model_turns:
                self._see(row)
            yield row

    def largest(self) -> list[LargestRows]:
        """Return the largest rows of each kind, the same ones for any order of the rows."""
        return [LargestRows(kind, tuple(kept)) for kind, kept in self._kept.items() if kept]

    def _see(self, row: Row) -> None:
        seen = _compared(row, strict=self._strict)
        kind = AVOIDED if seen.avoided else WITHHELD if seen.withheld else ADDED
        self._kept[kind] = nsmallest(
            self._most, [*self._kept[kind], seen], key=lambda one: _row_place(one, kind)
        )


def _compared(row: Row, *, strict: bool) -> Comparison:
    """Return what a row earns, by the rule of the fold."""
    turns = row.control_committed_model_turns - row.candidate_committed_model_turns
    effects = row.required_effect_observation
    equal = effects.control_required == effects.candidate_required
    required = bool(effects.control_required) or not strict
    earns = equal and required and row.lifecycle == "realized"
    potential = max(turns, 0)
    return Comparison(
        row=row,
        avoided=potential if earns else 0,
        withheld=0 if earns else potential,
        added=max(-turns, 0),
    )


def _row_place(one: Comparison, kind: Kind) -> tuple[int, str, str, int, str]:
    row = one.row
    return -getattr(one, kind.name), row.trace_id, row.unit_id, row.turn_index, row.arm
