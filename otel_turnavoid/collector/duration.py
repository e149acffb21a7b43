"""Durations as configuration files write them: ``10m``, ``500ms``, ``1h30m``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_LONGEST: Final = 100 * 365 * 24 * _UNITS["h"]

WANTED: Final = "a duration such as 10m, 500ms or 1h30m"


class Duration(int):
    """Nanoseconds; written with units in configuration files."""

    __slots__ = ()

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return int(self) / _UNITS["s"]


def parse(text: object) -> Duration | None:
    """Return the duration that ``text`` spells, or None where it spells none.

    The units are those of the collector (``ns``, ``us``, ``ms``, ``s``, ``m``, ``h``) and ``d``,
    a day of 24 hours; each part may have decimals, a bare ``0`` needs no unit, and nothing is
    longer than a century.
    """
    if text == "0" or (text == 0 and not isinstance(text, (bool, str))):
        return Duration(0)
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        return None
    total = sum(Decimal(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    return Duration(int(total)) if total <= _LONGEST else None
