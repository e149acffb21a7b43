"""The accounts that are not turns, each in a table of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from otel_turnavoid.pages.by_series import MOST, BySeries, Name, cells, columns
from otel_turnavoid.pages.section import section
from otel_turnavoid.pages.table import table
from otel_turnavoid.publish.figures import counted, of
from otel_turnavoid.publish.markup import Html, element
from otel_turnavoid.vocabulary import (
    Attr,
    Basis,
    Component,
    Disposition,
    Instrument,
    Metric,
    Outcome,
    OverheadKind,
    TokenType,
)


class _Figure(NamedTuple):
    """One column of an account."""

    title: str
    instrument: Instrument
    labels: tuple[tuple[str, str], ...] = ()
    """Amounts with these labels only."""
    scale: float = 1.0


class _Account(NamedTuple):
    """One account that is not turns."""

    name: str
    title: str
    note: str
    figures: tuple[_Figure, ...]
    digits: int = 0


def _labelled(
    instrument: Instrument, key: str, words: Iterable[str], scale: float = 1.0
) -> Iterator[_Figure]:
    for word in words:
        yield _Figure(word.replace("_", " "), instrument, ((key, str(word)),), scale)


_MS: Final = 1000.0

_ACCOUNTS: Final = (
    _Account(
        "effects",
        "Required effects",
        "What the observer saw of the control's effects in the candidate's runs.",
        (
            _Figure("preserved", Metric.EFFECTS_PRESERVED),
            _Figure("suppressed", Metric.EFFECTS_SUPPRESSED),
        ),
    ),
    _Account(
        "committed",
        "Committed turns",
        "Of runs that stand in a decided pair, each run once, whatever it was compared with.",
        (_Figure("turns", Metric.TURNS_COMMITTED),),
    ),
    _Account(
        "retained",
        "Kept turns made cheaper",
        "Attribution by the mechanism, already inside the candidate's work; never an avoided turn.",
        (
            _Figure("pairs", Metric.RETAINED_CHEAPER),
            _Figure("tokens less", Metric.RETAINED_TOKENS),
            _Figure("ms less", Metric.RETAINED_LATENCY, scale=_MS),
        ),
    ),
    _Account(
        "tools",
        "Tools",
        "Executions of paired runs, each run once; avoided ones only in pairs with no cause to"
        " withhold. A tool call is not a turn.",
        (
            _Figure("executed", Metric.TOOLS_EXECUTED),
            _Figure("avoided", Metric.TOOLS_AVOIDED),
        ),
    ),
    _Account(
        "speculation",
        "Speculation",
        "Speculative model calls and tool executions, by what became of them.",
        tuple(_labelled(Metric.SPECULATION_CALLS, Attr.OUTCOME, Disposition)),
    ),
    _Account(
        "time",
        "Time (ms)",
        "Work of models and tools before the overhead of the change, each run once.",
        tuple(_labelled(Metric.WORK_DURATION, Attr.COMPONENT, Component, _MS)),
        1,
    ),
    _Account(
        "overhead",
        "Overhead (ms)",
        "What the change itself costs.",
        tuple(_labelled(Metric.OVERHEAD_DURATION, Attr.OVERHEAD_KIND, OverheadKind, _MS)),
        1,
    ),
    _Account(
        "saved",
        "Time saved (ms)",
        "Control less candidate over decided pairs; net also less the overhead. It can be"
        " negative.",
        tuple(_labelled(Metric.SAVED_DURATION, Attr.BASIS, Basis, _MS)),
        1,
    ),
    _Account(
        "cost",
        "Cost (USD)",
        "Stated cost of models and tools before the overhead of the change, each run once.",
        tuple(_labelled(Metric.WORK_COST, Attr.COMPONENT, Component)),
        4,
    ),
    _Account(
        "overhead-cost",
        "Overhead (USD)",
        "Stated cost of what the change itself needs.",
        tuple(_labelled(Metric.OVERHEAD_COST, Attr.OVERHEAD_KIND, OverheadKind)),
        4,
    ),
    _Account(
        "saved-cost",
        "Cost saved (USD)",
        "Control less candidate over decided pairs of which every call states its cost.",
        tuple(_labelled(Metric.SAVED_COST, Attr.BASIS, Basis)),
        4,
    ),
    _Account(
        "tokens",
        "Tokens",
        "As the provider counted them, each run once. The cache figures are parts of input,"
        " reasoning is part of output: do not add them.",
        tuple(_labelled(Metric.TOKENS_USED, Attr.TOKEN_TYPE, TokenType)),
    ),
)
"""In the order of the page; turns and noise have pages of their own kind."""


def other_accounts(found: BySeries) -> Iterator[Html]:
    """Yield every account but turns and noise that has any figures, then runs by outcome."""
    for account in _ACCOUNTS:
        instruments = {figure.instrument for figure in account.figures}
        names = [
            name
            for name in found.names(*instruments)
            if any(_amount(found, figure, name) for figure in account.figures)
        ]
        if names:
            yield _account(found, account, names)
    runs = _runs(found)
    if runs is not None:
        yield runs


def _account(found: BySeries, account: _Account, names: list[Name]) -> Html:
    apart = columns(names)
    rest = len(names) - MOST
    return section(
        account.title,
        table(
            f"{account.title} by series",
            (*apart, *(figure.title for figure in account.figures)),
            [
                [
                    *cells(name, apart),
                    *(
                        f"{_amount(found, figure, name) + 0.0:,.{account.digits}f}"
                        for figure in account.figures
                    ),
                ]
                for name in names[:MOST]
            ],
            words=len(apart),
        ),
        element("p", f"… and {of(rest, 'more series')}".removesuffix("s")) if rest > 0 else None,
        name=account.name,
        note=account.note,
    )


def _amount(found: BySeries, figure: _Figure, name: Name) -> float:
    return found.amount(figure.instrument, name, *figure.labels) * figure.scale


def _runs(found: BySeries) -> Html | None:
    names = found.names(Metric.RUNS_OBSERVED)
    if not names:
        return None
    rows = [
        [
            outcome.value,
            *(
                counted(found.count(Metric.RUNS_OBSERVED, name, (Attr.OUTCOME, outcome.value)))
                for name in names
            ),
        ]
        for outcome in Outcome
    ]
    return section(
        "Runs",
        table(
            "Runs by their final outcome",
            ("outcome", *(f"{name.evidence} evidence" for name in names)),
            rows,
        ),
        name="runs",
        note="Only paired runs stand in the accounts.",
    )
