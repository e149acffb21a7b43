"""The dashboard of the accounts: a row for each, and no panel that adds two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as model

from dashboards import apart, turns, variables
from dashboards.panels import Drawn

UID: Final = "turnavoid-turns"
TITLE: Final = "Turn avoidance"

_ABOUT = (
    "Whole model turns that disappeared while the task still reached its required effects. Each"
    " row is an account of its own; nothing of one is added to another."
)


def build() -> dashboard.Dashboard:
    """Return the dashboard."""
    built = (
        dashboard.Dashboard(TITLE)
        .uid(UID)
        .description(_ABOUT)
        .tags(["turnavoid"])
        .time("now-24h", "now")
        .refresh("1m")
        .timezone("browser")
        .editable()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables(variables.accounts())
        .link(
            dashboard.DashboardLink("Operations")
            .type(model.DashboardLinkType.LINK)
            .url("/d/turnavoid-operations")
            .keep_time(keep_time=True)
        )
    )
    for title, panels in _open():
        built.with_row(dashboard.Row(title))
        for panel in panels:
            built.with_panel(panel)
    for title, panels in _folded():
        row = dashboard.Row(title).collapsed(collapsed=True)
        for panel in panels:
            row.with_panel(panel)
        built.with_row(row)
    return built


def _open() -> Iterator[tuple[str, Iterable[Drawn]]]:
    yield "Turns", turns.turns()
    yield "Noise floor: equal controls against each other", turns.noise()


def _folded() -> Iterator[tuple[str, Iterable[Drawn]]]:
    yield "Runs and verdicts", turns.verdicts()
    yield "Retained turns (never avoided ones)", apart.retained()
    yield "Tools", apart.tools()
    yield "Speculation", apart.speculation()
    yield "Effects", apart.effects()
    yield "Work and overhead", apart.work()
    yield "Tokens", apart.tokens()
