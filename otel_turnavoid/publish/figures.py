"""Figures as people read them: grouped thousands, an explicit sign where a sign matters."""

from __future__ import annotations

from otel_turnavoid.publish.estimate import Estimate


def of(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural where it takes one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def counted(count: int) -> str:
    """Return a count."""
    return f"{count:,}"


def signed(count: int) -> str:
    """Return a count that can be negative, with its sign."""
    return f"{count:+,}" if count else "0"


def per_pair(value: float | None) -> str:
    """Return turns per pair, with the sign; a dash where it is unknown."""
    if value is None:
        return "-"
    text = f"{value:+,.2f}"
    return "0.00" if float(text.replace(",", "")) == 0 else text


def interval(of_mean: Estimate) -> str:
    """Return an interval; a dash where there is none."""
    if of_mean.low is None or of_mean.high is None:
        return "-"
    return f"{per_pair(of_mean.low)} to {per_pair(of_mean.high)}"


def share(value: float | None) -> str:
    """Return a share in percent; a dash where there is nothing to have a share of.

    Only all is 100%, and only nothing is 0%.
    """
    if value is None:
        return "-"
    if 0 < value < 1:
        return f"{min(max(round(value * 100), 1), 99)}%"
    return f"{round(value * 100)}%"


def milliseconds(value: float) -> str:
    """Return milliseconds to a tenth."""
    return f"{round(value, 1) + 0.0:,.1f}"


def dollars(value: float) -> str:
    """Return US dollars to a millionth."""
    return f"{round(value, 6) + 0.0:,.6f}"
