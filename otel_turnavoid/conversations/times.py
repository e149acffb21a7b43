"""Times in records, as nanoseconds since the Unix epoch."""

from __future__ import annotations

import re
from typing import Any, Final

_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:?\d\d)?"
)
_MONTHS: Final = 12
_MARCH: Final = 3
_EPOCH_DAY: Final = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def time_ns(value: Any) -> int | None:
    """Return the time that an ISO 8601 text means, UTC where it names no offset; else None."""
    found = _ISO.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    return (seconds - _offset(found[8])) * 10**9 + int((found[7] or "0").ljust(9, "0"))


def _days(year: int, month: int, day: int) -> int:
    """Return the days since the epoch, in the proleptic Gregorian calendar."""
    # A year that begins in March has its leap day at its end.
    if month < _MARCH:
        year, month = year - 1, month + _MONTHS
    leaps = year // 4 - year // 100 + year // 400
    return 365 * year + leaps + (153 * (month - _MARCH) + 2) // 5 + day - 1 - _EPOCH_DAY


def _offset(zone: str | None) -> int:
    if zone in (None, "Z"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
