"""What is said where there is no page, or none that may be shown."""

from __future__ import annotations

from collections.abc import Sequence

from otel_turnavoid.pages import links
from otel_turnavoid.pages.frame import frame
from otel_turnavoid.pages.section import section
from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.markup import element


def problem_page(title: str, problem: str, *, asked: str = "", near: Sequence[str] = ()) -> str:
    """Return a page that says what is wrong, with a way on.

    Args:
        title: In few words.
        problem: A sentence.
        asked: What stands in the search box.
        near: Ids of runs that may be meant.
    """
    return frame(
        title,
        element("h1", title),
        element("p", clean(problem), class_="lead"),
        section(
            "Is one of these meant?",
            element("ul", *(element("li", links.run_link(run_id)) for run_id in near)),
            name="near",
        )
        if near
        else None,
        element("p", element("a", "To the overview", href=links.OVERVIEW)),
        asked=asked,
    )
