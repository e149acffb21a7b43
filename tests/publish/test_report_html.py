"""The report as a page: whole, self-contained, escaped, accounts apart."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from otel_turnavoid.ledger import Report, empty_report, fold, replay
from otel_turnavoid.publish.largest import Watch
from otel_turnavoid.publish.report_html import report_html
from otel_turnavoid.publish.sections import Live
from otel_turnavoid.publish.trace import trace_rows

WITNESS = Path(__file__).parents[2] / "examples" / "witness.jsonl"
VOID = {"meta"}
"""Elements that HTML never closes; SVG closes its own."""


class Page(HTMLParser):
    """Tables by their heading; elements that were not closed; addresses that would be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.heading = ""
        self.tables: dict[str, list[list[str]]] = {}
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.charts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self.heading = ""
        if tag == "figcaption":
            self.charts.append("")
        if tag == "tr":
            self.tables.setdefault(self.heading, []).append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of an SVG element that holds nothing."""

    def handle_data(self, data: str) -> None:
        if "figcaption" in self.open:
            self.charts[-1] += data
        if "h2" in self.open:
            self.heading += data
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[self.heading][-1].append(data)


@pytest.fixture(scope="module")
def witness() -> Report:
    with WITNESS.open("rb") as stream:
        return replay(stream)


def test_each_account_has_a_table_of_its_own(witness: Report) -> None:
    assert list(Page(report_html(witness)).tables) == [
        "Model turns",
        "Withheld turns by lifecycle and reason",
        "Required effects",
        "Kept turns made cheaper",
        "Time (ms)",
        "Cost (USD)",
        "Inputs by lifecycle",
    ]


def test_avoided_stands_beside_added_and_net(witness: Report) -> None:
    assert Page(report_html(witness)).tables["Model turns"] == [
        ["arm", "inputs", "control", "candidate", "avoided", "added", "net", "withheld"],
        ["exact-reuse", "6", "7", "3", "2", "0", "+2", "2"],
        ["fused-batch", "6", "7", "6", "1", "0", "+1", "0"],
    ]


def test_the_page_is_whole_and_loads_nothing(witness: Report) -> None:
    text = report_html(witness)
    page = Page(text)

    assert text.startswith("<!doctype html>\n")
    assert page.open == []
    assert "url(" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert not re.search(r" (?:style|on\w+)=", text)


def test_every_link_leads_to_a_part_of_the_page(witness: Report) -> None:
    page = Page(report_html(witness))

    assert page.loaded
    assert {link.removeprefix("#") for link in page.loaded} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_each_account_has_a_chart_of_its_own(witness: Report) -> None:
    assert Page(report_html(witness)).charts == [
        "Turns avoided, added and withheld, by arm",
        "Withheld turns by lifecycle and reason, by arm",
        "Required effects, by arm",
        "Kept turns made cheaper, each figure on a scale of its own",
        "Time (ms), by arm",
        "Cost (USD), by arm",
    ]


def test_the_largest_rows_stand_beside_each_other_by_their_turns() -> None:
    watch = Watch()
    with WITNESS.open("rb") as stream:
        report = replay(stream, through=watch.through)

    text = report_html(report, rows=watch.largest())

    assert "<h3>Most turns avoided</h3>" in text
    assert "<h3>Most turns withheld</h3>" in text
    assert '<i class="control"></i><i class="control"></i></span> 2 turns</p>' in text


def test_a_ledger_s_page_has_series_interval_noise_and_causes(verdicts) -> None:
    pairs = (
        verdicts.pair(9, 1, task=1, variant="<b>"),
        verdicts.pair(3, 4, task=2, variant="<b>"),
        verdicts.pair(6, 1, task=3, variant="<b>", effects=()),
    )
    more = Live(pairs, (verdicts.null(4, 3),), 0)

    text = report_html(fold(trace_rows(pairs)), more=more)

    page = Page(text)
    assert page.charts[:3] == [
        "Turns avoided, added and withheld, by series",
        (
            "Turns saved per pair: the mean with its 95% interval. Left of 0 the candidate needed"
            " more turns, right of it fewer; an interval across 0 shows no effect."
        ),
        "Withheld turns by first cause, by series",
    ]
    assert page.tables["Noise: control against control"][1] == [
        *("declared", "1", "1", "0", "+1", "1", "+1.00", "-")
    ]
    assert "No effect seen: " in text
    assert "<b>" not in text.replace("<b>5", "")
    assert "exact-reuse (&lt;b&gt;, declared evidence)" in text


def test_what_comes_from_data_is_escaped(witness: Report) -> None:
    report = msgspec.structs.replace(witness, honesty_verdict='<b>"HONEST" & $more</b>')

    text = report_html(report)

    assert "&lt;b&gt;&quot;HONEST&quot; &amp; $more&lt;/b&gt;" in text
    assert '<b>"HONEST"' not in text


def test_a_report_of_nothing_has_no_tables() -> None:
    page = Page(report_html(empty_report()))

    assert page.tables == {}
    assert page.open == []
