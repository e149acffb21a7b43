"""Where things are: paths of pages, and of traces in Jaeger."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.markup import Html, element

OVERVIEW: Final = "/"
PAIRS: Final = "/pairs"
FIND: Final = "/find"
ICON: Final = "/icon.svg"


def pair_path(number: int) -> str:
    """Return the path of a decision about a pair."""
    return f"{PAIRS}/{number}"


def run_path(run_id: str) -> str:
    """Return the path of a run."""
    return f"/runs/{quote(run_id, safe='')}"


def trace_path(trace_id: str) -> str:
    """Return the path of a trace."""
    return f"/traces/{quote(trace_id, safe='')}"


def run_link(run_id: str) -> Html:
    """Return a link to a run, with its id as text."""
    return element("a", element("code", clean(run_id)), href=run_path(run_id))


def trace_links(trace_id: str, jaeger_url: str | None) -> list[Html]:
    """Return the links of a trace: its page here, and its spans in Jaeger where that is known."""
    here = element("a", element("code", clean(trace_id)), href=trace_path(trace_id))
    if jaeger_url is None:
        return [here]
    there = element(
        "a",
        "in Jaeger",
        href=f"{jaeger_url}/trace/{quote(trace_id, safe='')}",
        aria_label=f"Trace {clean(trace_id)} in Jaeger",
        rel="noreferrer",
    )
    return [here, element("span", " ", there)]
