"""The pages in a real browser: in light, dark and on a phone, by keyboard and by ear.

A processor runs as users run it, filled by the demo's agents and observer. Every page is kept
as a picture in ``test-artifacts/pages`` for somebody to look at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from chromium import Tab, browsing

from otel_turnavoid.demo import stage
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger

pytestmark = pytest.mark.browser

PICTURES: Final = Path(__file__).parents[2] / "test-artifacts" / "pages"
DESKTOP, PHONE = 1200, 360
JAEGER: Final = "http://localhost:16686"

WIDE: Final = """
  [...document.querySelectorAll("body *")]
    .filter(one => !one.closest(".scroll, .told, .of, thead, .skip"))
    .filter(one => one.getBoundingClientRect().right > WIDTH + 1)
    .map(one => one.tagName + " " + one.className)
"""
"""What reaches out of the window, unless it may be scrolled or is for screen readers only.

The window's own width says nothing: a phone makes it as wide as the page.
"""

WEAK: Final = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = one => {
    for (; one; one = one.parentElement) {
      const found = parts(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const weak = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const said = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!said && !one.matches("input, select") || !one.checkVisibility()) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(parts(style.color)), light(ground(one))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24;
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5))
      weak.add(`${one.tagName} ${one.className}: ${style.color}`);
  }
  return [...weak];
})()
"""
"""Text with too little contrast for WCAG 2.2 AA."""

SMALL: Final = """
  [...document.querySelectorAll("button, input, select, nav a")]
    .filter(one => {
      const box = one.getBoundingClientRect();
      return box.width < 24 || box.height < 24;
    }).map(one => one.outerHTML)
"""
"""What is too small for a finger (WCAG 2.2, target size)."""

STOPS: Final = 'a, button, input, select, [tabindex="0"]'
FOCUSED: Final = "document.activeElement.textContent.trim() || document.activeElement.id"


class Site(NamedTuple):
    """A running processor and its pages."""

    url: str
    paths: dict[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    built = stage.Stage.build(tmp_path_factory.mktemp("demo"))
    config = yaml.safe_load(built.config.read_text())
    config["extensions"]["pages"] = {"jaeger_url": f"{JAEGER}/"}
    built.config.write_text(yaml.safe_dump(config))
    with stage.processor(built):
        stage.agents(built)
        stage.observer(built)
        assert stage.verdicts(built).complete
        with Ledger.open(built.ledger_url, create=False) as ledger:
            numbers = {
                decision.candidate.run_id: number
                for number, decision in ledger.decisions()
                if isinstance(decision, PairDecided)
            }
            (trace_id,) = ledger.run("refund-reuse").run.trace_ids
        paths = {
            "overview": "/",
            "pairs": "/pairs",
            "withheld-pairs": "/pairs?result=withheld&cause=effects-suppressed",
            "avoided-pair": f"/pairs/{numbers['refund-reuse']}",
            "withheld-pair": f"/pairs/{numbers['readdress-reuse']}",
            "added-pair": f"/pairs/{numbers['exchange-batch']}",
            "run": "/runs/complaint-batch",
            "trace": f"/traces/{trace_id}",
            "not-found": "/find?id=refund-reus",
        }
        yield Site(f"http://localhost:{built.ports.http}", paths)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is missing")
        pytest.skip("needs Chromium")
    with browsing(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def show(site: Site, browser: Tab) -> Callable[..., Tab]:
    """Open a page by its name, as wide as told."""

    def shown(name: str, *, width: int = DESKTOP, dark: bool = False) -> Tab:
        browser.complaints.clear()
        browser.look(width=width, dark=dark)
        browser.open(f"{site.url}{site.paths[name]}")
        return browser

    return shown


PAGES: Final = (
    *("overview", "pairs", "withheld-pairs", "avoided-pair", "withheld-pair", "added-pair"),
    *("run", "trace", "not-found"),
)
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "desktop": {"width": DESKTOP},
    "dark": {"width": DESKTOP, "dark": True},
    "phone": {"width": PHONE},
    "dark-phone": {"width": PHONE, "dark": True},
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_styled_readable_and_no_wider_than_its_window(
    show: Callable[..., Tab], page: str, look: str
) -> None:
    tab = show(page, **LOOKS[look])
    tab.picture(PICTURES / f"{page}-{look}.png")

    # That a page is not there, the browser says too.
    expected = ["404"] if page == "not-found" else []
    assert [said for said in tab.complaints if "(Not Found)" not in said] == []
    assert len(tab.complaints) == len(expected)
    width = LOOKS[look]["width"]
    assert tab.ask("document.documentElement.scrollWidth") == width
    assert tab.ask(WIDE.replace("WIDTH", str(width))) == []
    assert tab.ask(WEAK) == []
    assert tab.ask(SMALL) == []
    assert tab.ask("getComputedStyle(document.querySelector('header.site')).display") == "flex"


def test_the_first_tab_leads_past_navigation_to_the_content(show: Callable[..., Tab]) -> None:
    tab = show("overview")

    assert tab.ask("document.querySelector('.skip').getBoundingClientRect().right") < 0
    tab.press("Tab")
    assert tab.ask(FOCUSED) == "Skip to content"
    assert tab.ask("document.activeElement.getBoundingClientRect().left") == 0
    tab.press("Enter")
    assert tab.ask("document.activeElement.id") == "content"


def test_why_a_turn_was_withheld_is_found_by_keyboard_alone(
    show: Callable[..., Tab], site: Site
) -> None:
    tab = show("overview")

    press_until(tab, "effects-suppressed")
    tab.press("Enter", leaving=True)
    assert tab.ask("document.querySelector('h1').textContent") == "Pairs"
    press_until(tab, "readdress-reuse")
    tab.press("Enter", leaving=True)

    assert tab.ask("location.pathname") == site.paths["withheld-pair"]
    said = tab.ask("document.querySelector('#why').innerText")
    assert [line for line in said.split("\n") if line][:3] == [
        "Why this was withheld",
        "effects-suppressed",
        "A required effect of the control is missing in the candidate.",
    ]


def test_a_run_is_found_by_its_id_typed_into_the_search_box(show: Callable[..., Tab]) -> None:
    tab = show("overview", width=PHONE)

    press_until(tab, "find")
    tab.type("cancel-batch")
    tab.press("Enter", leaving=True)

    assert tab.ask("location.pathname") == "/runs/cancel-batch"
    assert tab.ask("document.getElementById('find').value") == "cancel-batch"


def test_pairs_are_chosen_by_the_form(show: Callable[..., Tab]) -> None:
    tab = show("pairs")

    tab.ask("document.querySelector('#pairs-result').value = 'added'")
    press_until(tab, "pairs-experiment")
    tab.type("customer-desk")
    tab.press("Enter", leaving=True)

    rows = tab.ask("[...document.querySelectorAll('tbody tr')].map(one => one.innerText)")
    assert len(rows) == 1
    assert "exchange-batch" in rows[0]
    assert tab.ask("document.querySelector('#pairs-result').value") == "added"


@pytest.mark.parametrize("page", ["overview", "withheld-pair"])
def test_whatever_has_the_focus_is_seen_to_have_it(show: Callable[..., Tab], page: str) -> None:
    tab = show(page)

    seen: list[Any] = []
    while True:
        tab.press("Tab")
        at = tab.ask("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
        if at in seen or tab.ask("document.activeElement === document.body"):
            break
        seen.append(at)
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert tab.ask(outline) == "solid", tab.ask(FOCUSED)
    stops = tab.ask(f"document.querySelectorAll('{STOPS}').length")
    assert seen == sorted(seen)
    assert len(seen) == stops


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_screen_reader_is_told_of_landmarks_tables_and_timelines(
    show: Callable[..., Tab], width: int
) -> None:
    told = show("withheld-pair", width=width).roles()

    landmarks = {"banner", "navigation", "search", "main", "contentinfo"}
    assert landmarks <= {role for role, _ in told}
    assert ("image", "Agent turns, calls and tools over time; listed below") in told
    assert ("region", "Control run readdress-control") in told
    assert ("region", "Candidate (exact-reuse) run readdress-reuse") in told
    assert ("rowheader", "mail:1005=new address") in told
    assert ("searchbox", "Run, trace or pair") in told


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_pairs_stay_a_table_for_who_cannot_see_that_they_are_cards(
    show: Callable[..., Tab], width: int
) -> None:
    told = show("pairs", width=width).roles()

    assert ("table", "Decided pairs, the latest first") in told
    columns = [name for role, name in told if role == "columnheader"]
    assert columns == ["pair", "result", "turns", "first cause", "arm", "experiment", "decided"]
    assert sum(role == "rowheader" for role, _ in told) == 7
    cells = [name for role, name in told if role == "cell"]
    assert "2 withheld" in cells


def test_both_runs_lead_to_their_traces_in_jaeger(show: Callable[..., Tab]) -> None:
    tab = show("withheld-pair")

    found = tab.ask(
        f"[...document.querySelectorAll('a[href^=\"{JAEGER}/trace/\"]')].map(one => one.href)"
    )
    assert len(set(found)) == 2


def press_until(tab: Tab, name: str) -> None:
    """Press Tab until something has the focus whose text or id has this in it."""
    for _ in range(100):
        tab.press("Tab")
        if name in tab.ask(FOCUSED):
            return
    raise AssertionError(f"no way to {name} by keyboard")
