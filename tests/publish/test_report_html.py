"""The report as a page: whole, self-contained, escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from otel_turnavoid.ledger import Report, empty_report, replay
from otel_turnavoid.publish.report_html import report_html

WITNESS = Path(__file__).parents[2] / "examples" / "witness.jsonl"
VOID = {"meta"}


class Page(HTMLParser):
    """Tables by their heading; elements that were not closed; addresses that would be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.heading = ""
        self.tables: dict[str, list[list[str]]] = {}
        self.loaded: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self.heading = ""
        if tag == "tr":
            self.tables.setdefault(self.heading, []).append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
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
    assert (page.open, page.loaded) == ([], [])
    assert "url(" not in text
    assert "@import" not in text


def test_what_comes_from_data_is_escaped(witness: Report) -> None:
    report = msgspec.structs.replace(witness, honesty_verdict='<b>"HONEST" & $more</b>')

    text = report_html(report)

    assert "&lt;b&gt;&quot;HONEST&quot; &amp; $more&lt;/b&gt;" in text
    assert "<b>" not in text


def test_a_report_of_nothing_has_no_tables() -> None:
    page = Page(report_html(empty_report()))

    assert page.tables == {}
    assert page.open == []
