"""Queries over the published instruments, by their own names and labels.

Prometheus may keep the suffixes of names (``_seconds``, ``_total``) or not, as its translation
strategy says; every query finds both.
"""

from __future__ import annotations

from typing import Final

from otel_turnavoid.collector.telemetry import Own
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import Attr, GenAI, Instrument, Kind

ARM: Final = label_name(Attr.ARM)
VARIANT: Final = label_name(Attr.VARIANT)
EVIDENCE: Final = label_name(Attr.EVIDENCE)
COMPARISON: Final = label_name(Attr.COMPARISON)
AGENT: Final = label_name(GenAI.AGENT_NAME)
EXPERIMENT: Final = label_name(Attr.EXPERIMENT_ID)
OVERFLOW: Final = label_name("otel.metric.overflow")

ARMS: Final = (ARM, VARIANT)
APART: Final = (ARM, VARIANT, EVIDENCE, COMPARISON)
"""What never stands in one figure; rules keep it apart, dashboards choose it by variables."""

BAR: Final = "$__rate_interval"
"""What lies between two points of a graph, and the sample before it."""
RANGE: Final = "$__range"
HOUR: Final = "1h"

_CHOSEN: Final = {
    Attr.ARM: f'{ARM}=~"$arm"',
    Attr.VARIANT: f'{VARIANT}=~"$variant"',
    Attr.EVIDENCE: f'{EVIDENCE}="$evidence"',
    Attr.COMPARISON: f'{COMPARISON}=~"$comparison"',
}
"""Label -> how the variables of the dashboard choose its values."""

_ALWAYS: Final = ('job=~"$job"', f'{EXPERIMENT}=~"$experiment"', f'{AGENT}=~"$agent"')

_UNITS: Final = {"s": "(_seconds)?", "By": "(_bytes)?", "1": "(_ratio)?"}


def names(instrument: Instrument | Own, part: str = "") -> str:
    """Return a regular expression of the names under which Prometheus has an instrument.

    Args:
        instrument: Of the accounts or of the processor's own.
        part: ``sum``, ``count`` or ``bucket`` of a histogram.
    """
    name = label_name(instrument.name) + _UNITS.get(instrument.unit, "")
    if instrument.kind is Kind.COUNTER:
        name += "(_total)?"
    return f"{name}_{part}" if part else name


def every(instrument: Instrument | Own, *where: str, part: str = "") -> str:
    """Return a selector of all series of an instrument."""
    return "{" + ", ".join((f'__name__=~"{names(instrument, part)}"', *where)) + "}"


def chosen(instrument: Instrument, *where: str, part: str = "", control: bool = False) -> str:
    """Return a selector of the series that the dashboard's variables choose.

    Args:
        instrument: Of the accounts.
        where: More matchers.
        part: Of a histogram.
        control: The control arm, whichever candidates are chosen.
    """
    by_variable = [
        matcher
        for key, matcher in _CHOSEN.items()
        if key in instrument.labels and not (control and key in {Attr.ARM, Attr.VARIANT})
    ]
    if control:
        by_variable.insert(0, f'{ARM}="control"')
    return every(instrument, *by_variable, *where, *_ALWAYS, part=part)


def summed(by: tuple[str, ...], inner: str) -> str:
    """Return a sum over processes and over the labels that are not named."""
    return f"sum by ({', '.join(by)}) ({inner})"


def increase(selector: str, window: str, by: tuple[str, ...]) -> str:
    """Return how much counters grew; a restart is no growth and no fall."""
    return summed(by, f"increase({selector}[{window}])")


def filled(inner: str, base: str) -> str:
    """Return ``inner``, and 0 where only ``base`` has a series: what never happened has none."""
    return f"(({inner}) or ({base}) * 0)"


def total(instrument: Instrument, by: tuple[str, ...] = ARMS) -> str:
    """Return what an account holds of the chosen series since its ledger began."""
    return summed(by, chosen(instrument))


def grown(instrument: Instrument, window: str, by: tuple[str, ...] = ARMS) -> str:
    """Return by how much the chosen series grew."""
    return increase(chosen(instrument), window, by)


def net(avoided: str, added: str, pairs: str) -> str:
    """Return turns avoided less turns added, wherever there was a pair."""
    return f"{filled(avoided, pairs)} - {filled(added, pairs)}"
