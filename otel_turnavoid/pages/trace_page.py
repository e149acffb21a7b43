"""One trace: the runs that have spans in it, and the way to Jaeger."""

from __future__ import annotations

from collections.abc import Sequence

from otel_turnavoid.pages import links
from otel_turnavoid.pages.frame import frame
from otel_turnavoid.pages.section import section
from otel_turnavoid.pages.table import table
from otel_turnavoid.publish.figures import counted
from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.markup import Child, element
from otel_turnavoid.store.reading import RunLine

MOST_RUNS = 100
"""Runs of one trace that are shown."""


def trace_page(
    trace_id: str,
    runs: Sequence[tuple[str, RunLine | None]],
    *,
    jaeger_url: str | None,
    said: str,
) -> str:
    """Return the page of a trace.

    Args:
        trace_id: Of the trace.
        runs: Its runs by id; None for one that the processor has not looked at yet.
        jaeger_url: Where Jaeger shows traces, if it is known.
        said: What the footer says.
    """
    rest = len(runs) - MOST_RUNS
    return frame(
        f"Trace {clean(trace_id)}",
        element("p", "Trace", class_="over"),
        element("h1", clean(trace_id)),
        element("p", *links.trace_links(trace_id, jaeger_url)[1:]) if jaeger_url else None,
        section(
            "Runs",
            table(
                "Runs with spans in this trace",
                ("run", "arm", "outcome", "turns"),
                [_row(run_id, line) for run_id, line in runs[:MOST_RUNS]],
                words=3,
            ),
            element("p", f"… and {counted(rest)} more") if rest > 0 else None,
            name="runs",
        ),
        asked=trace_id,
        said=said,
    )


def _row(run_id: str, line: RunLine | None) -> list[Child]:
    link = links.run_link(run_id)
    if line is None:
        return [link, "-", "just arrived", "-"]
    turns = line.run.model_turns
    return [
        link,
        line.run.arm or "-",
        line.outcome,
        "unknown" if turns is None else counted(turns),
    ]
