"""Parts of a page: a heading with what belongs to it, and named facts."""

from __future__ import annotations

from collections.abc import Iterable

from otel_turnavoid.publish.markup import Child, Html, element


def section(
    title: str, *content: Html | None, name: str, note: str = "", kind: str | None = None
) -> Html:
    """Return a part of a page.

    Args:
        title: Its heading.
        content: What stands in it.
        name: By which links reach it.
        note: What to know before reading.
        kind: As the style sheet marks it.
    """
    heading = f"{name}-title"
    return element(
        "section",
        element("h2", title, id=heading),
        element("p", note, class_="note") if note else None,
        *content,
        id=name,
        class_=kind,
        aria_labelledby=heading,
    )


def facts(named: Iterable[tuple[str, Child]]) -> Html:
    """Return named values; those that are nothing are left out."""
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", value))
            for name, value in named
            if value is not None and value != ""
        ),
        class_="named",
    )
