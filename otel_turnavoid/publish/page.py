"""A whole page in one file: its style inside, no script, nothing loaded from anywhere.

The Content-Security-Policy on the page says so to the browser too: only the style whose hash
it names applies, and nothing else can be fetched, sent or run.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from otel_turnavoid.publish.markup import Html, element


@cache
def style() -> str:
    """Return the style sheet that every page of ours has."""
    return (files("otel_turnavoid.publish") / "page.css").read_text(encoding="utf-8")


def policy() -> str:
    """Return the Content-Security-Policy under which the page works."""
    digest = b64encode(sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(title: str, *content: Html | None) -> str:
    """Return a whole page.

    Args:
        title: Of the window; the content has its own heading.
        content: What stands on the page, in order.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Html(style())),
    )
    body = element("body", element("main", *content))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}"
