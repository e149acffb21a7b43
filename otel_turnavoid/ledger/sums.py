"""Sums that are correctly rounded and do not depend on the order of what is added.

A double has 53 bits, an exact sum of doubles may need two thousand. It is kept as an
*expansion*: a few doubles whose exact sum is the exact sum of everything added.
``math.fsum`` rounds expansions once, at the end.
"""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def expansion(values: Iterable[float]) -> list[float]:
    """Return a few doubles with exactly the same sum as ``values``.

    ``[inf]`` stands for a sum beyond the largest double, and stays so whatever non-negative
    number is added.
    """
    rest = list(filter(None, values))
    terms: list[float] = []
    try:
        if rest and (least := min(rest)) > 0.0:
            # Two passes in place of three where it can be shown that they are enough. The
            # plain sum and every value are multiples of the least value's last bit, and so is
            # what they leave; a rest not above the least value then has at most 53 bits.
            total = sum(rest)
            rest.append(-total)
            terms.append(total)
            left = fsum(rest)
            if abs(left) <= least:
                return [total, left] if left else [total]
        while term := fsum(rest):
            terms.append(term)
            rest.append(-term)
    except (OverflowError, ValueError):
        return [inf]
    return terms


def rounded(*expansions: Iterable[float]) -> float:
    """Return the sum of all terms, correctly rounded; never -0.0."""
    return fsum(term for terms in expansions for term in terms) + 0.0


def negated(terms: Iterable[float]) -> list[float]:
    """Return the expansion of the opposite sum."""
    return [-term for term in terms]
