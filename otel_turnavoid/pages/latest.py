"""The latest pairs that fit what is asked for; looks at no more decisions than it may."""

from __future__ import annotations

from typing import Final, NamedTuple

from otel_turnavoid.pages.asked import Asked
from otel_turnavoid.store import Ledger
from otel_turnavoid.store.reading import Record

SHOWN: Final = 25
"""Pairs on one page."""

MOST: Final = 5000
"""Pairs that are looked at for one page."""

_STEP: Final = 500


class Latest(NamedTuple):
    """Pairs, the latest first."""

    records: tuple[Record, ...]
    before: int | None
    """Below which number to go on; None at the end of the journal."""
    looked_at: int
    """Pairs that were looked at to find these."""


def latest(ledger: Ledger, asked: Asked, *, shown: int = SHOWN, most: int = MOST) -> Latest:
    """Return the latest pairs that are asked for.

    Args:
        ledger: Where to look.
        asked: Which pairs, and before which number.
        shown: Pairs to find at most.
        most: Pairs to look at, so that a rare one is no reason to read a whole ledger.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    found: list[Record] = []
    looked_at, before = 0, asked.before
    # Where nothing is left out, what is shown and one more is all that has to be read.
    step = min(_STEP, most) if asked._replace(before=None) != Asked() else shown + 1
    while looked_at < most:
        wanted = min(step, most - looked_at)
        page = ledger.latest_pairs(before, most=wanted)
        for record in page:
            if len(found) == shown:
                return Latest(tuple(found), before, looked_at)
            before = record.number
            looked_at += 1
            if asked.wants(record):
                found.append(record)
        if len(page) < wanted:
            return Latest(tuple(found), None, looked_at)
    return Latest(tuple(found), before, looked_at)
