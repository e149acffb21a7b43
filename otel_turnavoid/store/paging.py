"""Values in pages, for conditions that list them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

PAGE: Final = 400
"""Values in one IN list."""


def chunks(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield the values sorted, a page at a time."""
    ordered = sorted(values)
    for start in range(0, len(ordered), PAGE):
        yield ordered[start : start + PAGE]
