"""The demo's figures as text: the pairs in words, the accounts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from otel_turnavoid.demo.figures import Figures
from otel_turnavoid.demo.scenario import EXPECTED
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.vocabulary import (
    Account,
    Arm,
    Basis,
    Component,
    Disposition,
    Instrument,
    Kind,
    Metric,
    OverheadKind,
    TokenType,
    WithheldCause,
)

NAME_WIDTH: Final = 34
COLUMN_WIDTH: Final = 13


class Line(NamedTuple):
    """A line of the accounts: one figure for each arm."""

    label: str
    instrument: Instrument
    labels: dict[str, str] = {}  # noqa: RUF012 - never changed
    control: bool = True
    """Whether a control can have such a figure at all."""


def pairs(figures: Figures) -> Iterator[str]:
    """Yield two lines for each verdict: the figures, and why."""
    for ids, expected in EXPECTED.items():
        pair = figures.pairs[ids]
        candidate = pair.candidate
        result = ", ".join(_results(pair)) or "no difference"
        turns = f"{pair.control.model_turns} -> {candidate.model_turns} turns"
        yield f"  {candidate.run_id:<17}{candidate.arm!s:<13}{turns:<14}{result}"
        yield f"  {'':<17}{expected.because}"


def _results(pair: PairDecided) -> Iterator[str]:
    if pair.avoided:
        yield f"{pair.avoided} avoided"
    if pair.withheld:
        yield f"{pair.withheld} withheld ({pair.causes[0]})"
    if pair.added:
        yield f"{pair.added} added"


def turns(figures: Figures) -> Iterator[str]:
    """Yield the account of turns, with what chance alone gives beside it."""
    yield _heading("Turns")
    yield from _lines(figures, [Line("committed", Metric.TURNS_COMMITTED)])
    yield from _lines(figures, [Line("avoided", Metric.TURNS_AVOIDED, control=False)])
    yield from _lines(figures, [Line("withheld", Metric.TURNS_WITHHELD, control=False)])
    for cause in WithheldCause:
        if figures.amount(Metric.TURNS_WITHHELD, withheld_cause=cause):
            labels = {"withheld_cause": cause.value}
            yield from _lines(
                figures, [Line(f"  {cause}", Metric.TURNS_WITHHELD, labels, control=False)]
            )
    yield from _lines(figures, [Line("added", Metric.TURNS_ADDED, control=False)])
    net = [
        figures.amount(Metric.TURNS_AVOIDED, arm=arm) - figures.amount(Metric.TURNS_ADDED, arm=arm)
        for arm in (Arm.EXACT_REUSE, Arm.FUSED_BATCH)
    ]
    yield _row("net (avoided - added)", ["-", *(f"{each:+.0f}" for each in net)])
    avoided, added, count = (
        figures.amount(instrument)
        for instrument in (Metric.NULL_AVOIDED, Metric.NULL_ADDED, Metric.NULL_PAIRS)
    )
    yield (
        f"  chance alone, {count:.0f} pair of equal controls: {avoided:.0f} avoided,"
        f" {added:.0f} added, net {avoided - added:+.0f}"
    )


def apart(figures: Figures) -> Iterator[str]:
    """Yield the other accounts; none of them is ever added to turns or to another."""
    for account, lines in APART.items():
        yield _heading(account)
        yield from _lines(figures, lines)


APART: Final = {
    "Retained turns": [
        Line("pairs with cheaper turns", Metric.RETAINED_CHEAPER, control=False),
        Line("tokens reduced", Metric.RETAINED_TOKENS, control=False),
        Line("latency reduced, ms", Metric.RETAINED_LATENCY, control=False),
    ],
    "Tools": [
        Line("executed", Metric.TOOLS_EXECUTED),
        Line("avoided", Metric.TOOLS_AVOIDED, control=False),
        Line("in a batch, on average", Metric.TOOL_BATCH_SIZE),
        Line("of these one after another", Metric.TOOL_BATCH_DEPTH),
    ],
    "Speculation": [
        Line("calls discarded", Metric.SPECULATION_CALLS, {"outcome": Disposition.DISCARDED}),
        Line("calls committed", Metric.SPECULATION_CALLS, {"outcome": Disposition.COMMITTED}),
    ],
    "Effects": [
        Line("preserved", Metric.EFFECTS_PRESERVED, control=False),
        Line("suppressed", Metric.EFFECTS_SUPPRESSED, control=False),
    ],
    "Work before overhead": [
        Line("model, ms", Metric.WORK_DURATION, {"component": Component.MODEL}),
        Line("tools, ms", Metric.WORK_DURATION, {"component": Component.TOOL}),
        Line("model, USD", Metric.WORK_COST, {"component": Component.MODEL}),
    ],
    "Overhead": [
        *(
            Line(f"{kind}, ms", Metric.OVERHEAD_DURATION, {"overhead_kind": kind})
            for kind in OverheadKind
        ),
        *(
            Line(f"{kind}, USD", Metric.OVERHEAD_COST, {"overhead_kind": kind})
            for kind in OverheadKind
        ),
    ],
    "Saved": [
        *(
            Line(f"{basis}, ms", Metric.SAVED_DURATION, {"basis": basis}, control=False)
            for basis in Basis
        ),
        *(
            Line(f"{basis}, USD", Metric.SAVED_COST, {"basis": basis}, control=False)
            for basis in Basis
        ),
    ],
    "Tokens": [Line(str(kind), Metric.TOKENS_USED, {"token_type": kind}) for kind in TokenType],
}
"""Heading -> lines."""


def arms() -> str:
    """Return the line with the columns' names."""
    return _row("", list(Arm))


def _lines(figures: Figures, lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        cells = [
            _cell(figures, line, arm) if line.control or arm is not Arm.CONTROL else "-"
            for arm in Arm
        ]
        if any(cell.strip("-0.") for cell in cells) or line.instrument.account is Account.TURNS:
            yield _row(line.label, cells)


def _cell(figures: Figures, line: Line, arm: Arm) -> str:
    instrument = line.instrument
    if instrument.kind is Kind.HISTOGRAM:
        return _mean(figures, instrument, arm)
    amount = figures.amount(instrument, arm=arm, **line.labels)
    if instrument.unit == "s":
        return f"{amount * 1000:.1f}"
    return f"{amount:.4f}" if instrument.unit == "{USD}" else f"{amount:.0f}"


def _mean(figures: Figures, instrument: Instrument, arm: Arm) -> str:
    found = [
        value
        for labels, value in figures.accounts.series(instrument)
        if ("turnavoid.arm", arm.value) in labels and not isinstance(value, (int, float))
    ]
    count = sum(each.count for each in found)
    return f"{sum(each.sum for each in found) / count:.1f}" if count else "-"


def _heading(text: str) -> str:
    return f"  {text}"


def _row(label: str, cells: Sequence[str]) -> str:
    return f"    {label:<{NAME_WIDTH}}" + "".join(f"{cell!s:>{COLUMN_WIDTH}}" for cell in cells)
