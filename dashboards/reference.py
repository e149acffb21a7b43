"""The tables of ``docs/grafana.md``: every panel, with what it means and what it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

BEGIN = "<!-- panels: written by `make dashboards` -->\n"
END = "<!-- /panels -->"


def put_into(page: str, dashboards: Mapping[str, Any]) -> str:
    """Return the page with its tables written anew.

    Args:
        page: Markdown with the two marks.
        dashboards: Of each file its content as plain values.
    """
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(line for each in dashboards.values() for line in _lines(each))
    return f"{before}{BEGIN}{tables}{END}{after}"


def _lines(dashboard: Any) -> Iterator[str]:
    yield f"### {dashboard['title']}\n"
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield f"**{panel['title']}**\n"
            yield "| Panel | What it means | It does not… |"
            yield "|---|---|---|"
            yield from map(_row, panel["panels"] or _following(dashboard["panels"], panel))
            yield ""


def _following(panels: list[Any], row: Any) -> Iterator[Any]:
    """Yield the panels of a row that is open: they stand after it."""
    for panel in panels[panels.index(row) + 1 :]:
        if panel["type"] == "row":
            return
        yield panel


def _row(panel: Any) -> str:
    means, _, not_ = panel["description"].partition("\n\nIt does not ")
    return f"| {panel['title']} | {means} | {not_} |"
