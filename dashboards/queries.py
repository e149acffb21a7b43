"""Queries with their legends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dashboards.promql import ARM, ARMS, BAR, VARIANT, chosen, grown, increase
from otel_turnavoid.vocabulary import Instrument


class Query(NamedTuple):
    """One query of a panel."""

    expression: str
    legend: str = ""
    exemplars: bool = False
    """Show exemplars, which lead to a trace."""


def legend(*labels: str) -> str:
    """Return a legend of the values of labels."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


BY_ARM: Final = legend(ARM, VARIANT)


def with_control(instrument: Instrument, *more: str) -> Iterator[Query]:
    """Yield growth in each bar: of the chosen candidates, and of the control, which has no choice.

    Args:
        instrument: Of runs, each counted once.
        more: Labels by which to split it besides arm and variant.
    """
    yield Query(grown(instrument, BAR, (*ARMS, *more)), legend(*ARMS, *more))
    control = increase(chosen(instrument, control=True), BAR, (ARM, *more))
    yield Query(control, legend(ARM, *more))
