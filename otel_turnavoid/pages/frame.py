"""What every page has around its content: head, banner with navigation and search, footer."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from otel_turnavoid.pages import links
from otel_turnavoid.publish.markup import Html, element
from otel_turnavoid.publish.page import style as report_style

NAME: Final = "turnavoid"

_PLACES: Final = (("Overview", links.OVERVIEW), ("Pairs", links.PAIRS))


@cache
def style() -> str:
    """Return the style sheet: that of the reports, and what only pages here need."""
    own = (files("otel_turnavoid.pages") / "pages.css").read_text(encoding="utf-8")
    return report_style() + own


@cache
def policy() -> str:
    """Return the Content-Security-Policy: one style, one icon, forms to here, nothing else."""
    digest = b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src 'self'; form-action 'self';"
        " base-uri 'none'; frame-ancestors 'none'"
    )


def frame(
    title: str, *content: Html | None, asked: str = "", here: str = "", said: str = ""
) -> str:
    """Return a whole page.

    Args:
        title: Of the window; the content has its own heading.
        content: What stands on the page, in order.
        asked: What stands in the search box.
        here: Path of the page, if it is one of the navigation.
        said: What the footer says.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · {NAME}"),
        element("link", rel="icon", href=links.ICON),
        element("style", Html(style())),
    )
    body = element(
        "body",
        element("a", "Skip to content", href="#content", class_="skip"),
        _banner(asked, here),
        element("main", *content, id="content", tabindex="-1"),
        element(
            "footer",
            element("p", said, " ", element("a", "Reload", href="")) if said else None,
            class_="site",
        ),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}"


def _banner(asked: str, here: str) -> Html:
    places = (
        element("li", element("a", name, href=path, aria_current="page" if path == here else None))
        for name, path in _PLACES
    )
    return element(
        "header",
        element("p", element("a", NAME, href=links.OVERVIEW), class_="name"),
        element("nav", element("ul", *places), aria_label="Pages"),
        element(
            "form",
            element("label", "Run, trace or pair", for_="find"),
            element(
                "input",
                type="search",
                id="find",
                name="id",
                value=asked,
                required="",
                maxlength="1100",
                autocomplete="off",
                autocapitalize="off",
                spellcheck="false",
            ),
            element("button", "Find"),
            action=links.FIND,
            method="get",
            role="search",
        ),
        class_="site",
    )


def icon() -> str:
    """Return the icon of the site: two lines of turns, the lower one shorter."""
    bars = (
        element("rect", x=x, y=y, width="5", height="9", rx="1.5", fill=fill)
        for y, fill, places in ((5, "#2456c9", (2, 9, 16, 23)), (18, "#1b7f4b", (2, 9)))
        for x in places
    )
    return element("svg", *bars, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 30 32")
