"""The report as plain text, for a pipe and for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Final

from otel_turnavoid.ledger import Report
from otel_turnavoid.publish.section import Section
from otel_turnavoid.publish.sections import (
    STRICT,
    Live,
    conclusions,
    headline,
    sections,
    verdict,
)

_WIDTH: Final = 80
_INDENT: Final = "  "
_GAP: Final = "  "


def report_text(report: Report, *, strict: bool = False, more: Live | None = None) -> str:
    """Return a report as text that ends with a newline.

    Args:
        report: What was folded.
        strict: Whether it was folded strictly.
        more: The live verdicts that it was made from, where there are any.
    """
    found = verdict(report)
    parts = ["\n".join((f"Verdict: {found.name}", *map(_paragraph, found.lines)))]
    if report.rows:
        parts.insert(0, "\n".join((fill(headline(report), _WIDTH), *((STRICT,) if strict else ()))))
    if more is not None and more.pairs:
        parts.append("\n".join(("What the pairs show", *_concluded(more))))
    if report.rows or (more and more.nulls):
        parts.extend(_set(section) for section in sections(report, more=more) if section.rows)
    return "\n\n".join(parts) + "\n"


def _concluded(more: Live) -> Iterator[str]:
    for series in conclusions(more):
        yield _INDENT + series.name
        for line in (*series.counts, series.finding, *series.cautions):
            yield fill(line, _WIDTH, initial_indent=2 * _INDENT, subsequent_indent=3 * _INDENT)


def _set(section: Section) -> str:
    lines = [section.title, _paragraph(section.note), "", *_table(section)]
    if section.legend:
        lines += ["", *(_paragraph(f"{word}: {meaning}.") for word, meaning in section.legend)]
    return "\n".join(lines)


def _table(section: Section) -> Iterator[str]:
    lines = [section.columns, *section.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.ljust(width) if index < section.words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield (_INDENT + _GAP.join(cells)).rstrip()


def _paragraph(text: str) -> str:
    return fill(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
