"""The report as one self-contained HTML page: no script, nothing loaded from elsewhere.

Turns come first, with how sure they are; the other accounts follow apart from them, each with
a chart and a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from otel_turnavoid.ledger import HONEST, Report
from otel_turnavoid.publish import report_charts as charts
from otel_turnavoid.publish.largest import LargestRows
from otel_turnavoid.publish.markup import Html, element, joined
from otel_turnavoid.publish.page import page
from otel_turnavoid.publish.report_pairs import Shown, pairs_section, rows_section
from otel_turnavoid.publish.section import Section
from otel_turnavoid.publish.sections import (
    STRICT,
    Live,
    conclusions,
    headline,
    sections,
    verdict,
)

_TITLE: Final = "Turns avoided"
_APART: Final = "Apart from turns: never added to them, nor to each other"
_PAIRS: Final = (
    "The pairs that move the figures most, with their runs beside each other. Figures are those"
    " of the verdict; entries are as the ledger has them."
)
_ROWS: Final = (
    "The rows that move the figures most. Of their runs a file of rows knows only the turns and"
    " the effects."
)
_READING: Final = (
    "How to read it: a turn counts as avoided only with an independent observer's proof that the"
    " task reached its required effects. The counts are what the ledger proves; the interval says"
    " how far chance alone could move the mean of the pairs that count, and nothing about those"
    " that do not. Accounts are never added together."
)


def report_html(
    report: Report,
    *,
    strict: bool = False,
    more: Live | None = None,
    pairs: Sequence[Shown] = (),
    rows: Sequence[LargestRows] = (),
) -> str:
    """Return a report as a whole HTML page.

    Args:
        report: What was folded.
        strict: Whether it was folded strictly.
        more: The live verdicts that it was made from, where there are any.
        pairs: The largest of these pairs, explained.
        rows: The largest rows instead, where there are only rows.
    """
    shown = bool(report.rows or (more and more.nulls))
    tables = [each for each in sections(report, more=more) if each.rows] if shown else []
    drawn = _charts(report, more)
    largest = pairs_section(pairs) or rows_section(rows)
    turns = [
        *([_part("What the pairs show", *_concluded(more))] if more and more.pairs else ()),
        *(_section(each, drawn.get(each.title)) for each in tables if not each.apart),
        *([_part("Largest pairs", _note(_PAIRS if pairs else _ROWS), *largest)] if largest else ()),
    ]
    others = [_section(each, drawn.get(each.title)) for each in tables if each.apart]
    return page(
        _TITLE,
        element(
            "header",
            element("h1", _TITLE),
            element("p", headline(report) + (f" {STRICT}" if strict else "")),
            _contents([*turns, *others]),
        ),
        _verdict(report),
        *(part.html for part in turns),
        element("p", _APART, class_="divide") if others else None,
        *(part.html for part in others),
        element("footer", element("p", _READING)),
    )


class _Part(NamedTuple):
    """A part of the page and its heading."""

    title: str
    html: Html


def _charts(report: Report, more: Live | None) -> dict[str, Html | None]:
    """Return the chart of each account, by the title of its table."""
    arms = [arm for arm in report.arms if arm.arm != "control"]
    drawn = {
        "Required effects": charts.effects(arms),
        "Kept turns made cheaper": charts.retained(arms),
        "Time (ms)": charts.time(arms),
        "Cost (USD)": charts.cost(arms),
    }
    if more is None:
        return {
            **drawn,
            "Model turns": charts.turns_of_arms(arms),
            "Withheld turns by lifecycle and reason": charts.withheld_by_attribution(arms),
        }
    pairs, nulls = more.series
    return {
        **drawn,
        "Turns by series": charts.turns_of_series(pairs),
        "How sure: turns saved per pair": charts.means(pairs, nulls),
        "Withheld turns by first cause": charts.causes(pairs),
    }


def _concluded(more: Live) -> Iterator[Html]:
    for series in conclusions(more):
        yield element(
            "div",
            element("h3", series.name),
            *(element("p", line) for line in series.counts),
            element("p", series.finding, class_="finding"),
            element("ul", *(element("li", line) for line in series.cautions)),
            class_=f"shown {series.kind}",
        )


def _contents(parts: Sequence[_Part]) -> Html | None:
    if not parts:
        return None
    links = (
        element("a", part.title.partition(":")[0], href=f"#{_anchor(part.title)}") for part in parts
    )
    return element(
        "nav", element("ul", *(element("li", link) for link in links)), aria_label="Contents"
    )


def _verdict(report: Report) -> Html:
    found = verdict(report)
    honest = " honest" if found.name == HONEST else ""
    return element(
        "section",
        element("h2", "Verdict: ", element("code", found.name)),
        *(element("p", line) for line in found.lines),
        class_=f"verdict{honest}",
    )


def _section(section: Section, chart: Html | None) -> _Part:
    return _part(section.title, _note(section.note), chart, _table(section), _legend(section))


def _part(title: str, *content: Html | None) -> _Part:
    name = _anchor(title)
    heading = f"{name}-title"
    return _Part(
        title,
        element(
            "section",
            element("h2", title, id=heading),
            *content,
            id=name,
            aria_labelledby=heading,
        ),
    )


def _note(text: str) -> Html:
    return element("p", text, class_="note")


def _table(section: Section) -> Html:
    head = (
        element("th", column, scope="col", class_=_class(section, index))
        for index, column in enumerate(section.columns)
    )
    lines = (element("tr", joined(_cells(section, row))) for row in section.rows)
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", *head)),
            element("tbody", *lines),
            aria_label=section.title,
        ),
        class_="scroll",
        role="region",
        aria_label=f"Table: {section.title}",
        tabindex="0",
    )


def _cells(section: Section, row: tuple[str, ...]) -> Iterator[Html]:
    for index, cell in enumerate(row):
        if index == 0 and section.words:
            yield element("th", cell, scope="row")
        else:
            yield element("td", cell, class_=_class(section, index))


def _legend(section: Section) -> Html | None:
    if not section.legend:
        return None
    return element(
        "dl",
        *(
            part
            for word, meaning in section.legend
            for part in (element("dt", element("code", word)), element("dd", meaning))
        ),
    )


def _class(section: Section, index: int) -> str | None:
    return None if index < section.words else "number"


def _anchor(title: str) -> str:
    return "-".join("".join(one if one.isalnum() else " " for one in title.lower()).split())
