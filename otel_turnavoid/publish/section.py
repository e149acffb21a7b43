"""One table of a report, whatever it is written as."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """One table with its title and what to know before reading it."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    """The first columns hold words, the others numbers."""
    legend: tuple[tuple[str, str], ...] = ()
    """Words of the table and what they mean."""
    apart: bool = False
    """Of another account than turns."""
