"""The first page: accounts side by side and kept apart, why turns were withheld, latest pairs."""

from __future__ import annotations

from otel_turnavoid.pages import links
from otel_turnavoid.pages.asked import Asked
from otel_turnavoid.pages.by_series import BySeries
from otel_turnavoid.pages.counting import Counted
from otel_turnavoid.pages.frame import frame
from otel_turnavoid.pages.latest import Latest
from otel_turnavoid.pages.other_accounts import other_accounts
from otel_turnavoid.pages.pair_list import form, rows
from otel_turnavoid.pages.section import section
from otel_turnavoid.pages.turns import causes, noise, turns
from otel_turnavoid.publish.figures import counted, of
from otel_turnavoid.publish.markup import Html, element


def overview(found: Counted, pairs: Latest, *, said: str) -> str:
    """Return the page.

    Args:
        found: The accounts, as far as they are counted.
        pairs: The latest ones.
        said: What the footer says.
    """
    accounts = BySeries(found.snapshot)
    return frame(
        "Overview",
        element("h1", "Did whole model turns disappear?"),
        element(
            "p",
            "And did the task still reach its required effects? Only then does a turn count as"
            " avoided; everything else is withheld, with its cause.",
            class_="lead",
        ),
        _counting(found),
        _contradicted(found),
        turns(accounts),
        causes(accounts),
        noise(accounts),
        section(
            "Latest pairs",
            rows(pairs.records),
            element("p", element("a", "All pairs", href=links.PAIRS)),
            element("h3", "Which pairs do you look for?"),
            form(Asked()),
            name="latest",
        ),
        element("p", "Apart from turns: never added to them, nor to each other", class_="divide"),
        element("div", *other_accounts(accounts), class_="accounts"),
        here=links.OVERVIEW,
        said=said,
    )


def _counting(found: Counted) -> Html | None:
    if found.whole:
        return None
    return element(
        "p",
        f"Still counting: {counted(found.decisions)} of {of(found.of, 'decision')} so far. ",
        element("a", "Reload", href=""),
        " to see all.",
        class_="warning",
        role="status",
    )


def _contradicted(found: Counted) -> Html | None:
    if not found.contradicted:
        return None
    return element(
        "p",
        f"Evidence that arrived later speaks against {of(found.contradicted, 'verdict')};"
        " verdicts stay as they are.",
        class_="warning",
    )
