"""The figures of a snapshot by series: what may be looked at together, and nothing else.

What differs in arm, variant, evidence or comparison is a series of its own and never added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.totals import OVERFLOW_KEY, Distribution, Snapshot
from otel_turnavoid.vocabulary import Arm, Attr, Instrument

Label = tuple[str, str]

MOST: Final = 50
"""Series in one table."""

_OVERFLOWN: Final = "further variants"
"""Where an instrument had no room left for a series of its own."""

_ARMS: Final = {arm.value: place for place, arm in enumerate(Arm)}


class Name(NamedTuple):
    """What tells one series from another; empty where it does not apply."""

    arm: str
    variant: str
    evidence: str
    comparison: str

    @property
    def words(self) -> str:
        """For people."""
        apart = (
            clean(self.variant),
            self.evidence and f"{self.evidence} evidence",
            self.comparison,
        )
        return f"{self.arm} ({', '.join(filter(None, apart))})"


class BySeries:
    """A snapshot, put in order once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._amounts: dict[str, dict[Name, list[tuple[frozenset[Label], float]]]] = {}
        for instrument, series, _ in snapshot.families:
            found = self._amounts.setdefault(instrument.name, defaultdict(list))
            for labels, value in series:
                if not isinstance(value, Distribution):
                    found[_name(labels)].append((frozenset(labels), value))

    def names(self, *instruments: Instrument) -> list[Name]:
        """Return the series that any of these instruments has, in a fixed order."""
        found = {name for each in instruments for name in self._amounts.get(each.name, ())}
        return sorted(found, key=lambda name: (_ARMS.get(name.arm, len(_ARMS)), *name))

    def amount(self, instrument: Instrument, name: Name, *labels: Label) -> float:
        """Return what an instrument has of a series, only with these labels if there are any."""
        wanted = frozenset(labels)
        amounts = self._amounts.get(instrument.name, {}).get(name, ())
        return sum(value for stated, value in amounts if wanted <= stated)

    def count(self, instrument: Instrument, name: Name, *labels: Label) -> int:
        """Return the same of an instrument that counts things."""
        return int(self.amount(instrument, name, *labels))


def columns(names: Iterable[Name]) -> tuple[str, ...]:
    """Return the columns that tell these series apart."""
    found = list(names)
    return (
        "arm",
        *(("variant",) if any(name.variant for name in found) else ()),
        "evidence",
        *(("comparison",) if any(name.comparison for name in found) else ()),
    )


def cells(name: Name, apart: Sequence[str]) -> list[str]:
    """Return the cells of a series in these columns."""
    return [clean(getattr(name, column)) or "-" for column in apart]


def _name(labels: Iterable[Label]) -> Name:
    said = dict(labels)
    return Name(
        _OVERFLOWN if OVERFLOW_KEY in said else said.get(Attr.ARM, ""),
        said.get(Attr.VARIANT, ""),
        said.get(Attr.EVIDENCE, ""),
        said.get(Attr.COMPARISON, ""),
    )
