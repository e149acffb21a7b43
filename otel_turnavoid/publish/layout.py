"""Lines of plain text: paragraphs, fields and tables, times, and text from senders.

Ids, names and labels come from senders: what cannot be printed is escaped, so that they can
neither break a line nor speak to a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from textwrap import wrap
from typing import Final

_WIDTH: Final = 100
_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60 * _SECOND_MS


def clean(text: str) -> str:
    """Return text from a sender with everything escaped that is not printable."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def fields(*named: tuple[str, str]) -> Iterator[str]:
    """Yield named values, the names in one column."""
    width = max(len(name) for name, _ in named)
    for name, value in named:
        yield from paragraph(f"{name:<{width}}  {value}", "  ", " " * (width + 4))


def paragraph(text: str, first: str, then: str) -> Iterator[str]:
    """Yield text in lines, the first one indented by ``first``, others by ``then``."""
    yield from wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(
    rows: Sequence[Sequence[str]], indent: str, *, numbers: Iterable[int] = ()
) -> Iterator[str]:
    """Yield rows with their columns aligned, those of ``numbers`` to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = set(numbers)
    for row in rows:
        cells = (
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield (indent + "  ".join(cells)).rstrip()


def moment(nanoseconds: int) -> str:
    """Return nanoseconds since the epoch as a time of day, to the second."""
    then = datetime.fromtimestamp(nanoseconds // 1_000_000_000, timezone.utc)
    return f"{then:%Y-%m-%d %H:%M:%S} UTC"


def duration(milliseconds: float) -> str:
    """Return a duration in the unit in which people say it."""
    if abs(milliseconds) < _SECOND_MS:
        return f"{milliseconds:.0f} ms"
    if abs(milliseconds) < 2 * _MINUTE_MS:
        return f"{milliseconds / _SECOND_MS:.1f} s"
    minutes, seconds = divmod(round(abs(milliseconds) / _SECOND_MS), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if milliseconds < 0 else ""
    return f"{sign}{hours} h {minutes} min" if hours else f"{sign}{minutes} min {seconds} s"


def count(number: int, noun: str) -> str:
    """Return ``1 turn`` or ``2 turns``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
