"""The report as one self-contained HTML page: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape
from string import Template
from typing import Final

from otel_turnavoid.ledger import HONEST, Report
from otel_turnavoid.publish.sections import STRICT, Live, Section, headline, sections, verdict

_PAGE: Final = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2330; --soft: #5a6475; --line: #dfe3ea;
  --good: #1b7f4b; --care: #a15c00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151b; --card: #1b2029; --ink: #e6e9ef; --soft: #9aa5b6; --line: #303846;
    --good: #5fd394; --care: #f0b25a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 0 0 .25rem; }
p { margin: 0 0 .75rem; color: var(--soft); max-width: 70ch; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.25rem; margin-top: 1rem; overflow-x: auto;
}
.verdict { border-left: 6px solid var(--care); }
.verdict.honest { border-left-color: var(--good); }
.verdict p:last-child { margin-bottom: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem; border-bottom: 1px solid var(--line); text-align: left; }
thead th { color: var(--soft); font-weight: 600; font-size: .85rem; }
tbody tr:last-child > * { border-bottom: 0; }
tbody th { font-weight: 600; }
.number { text-align: right; white-space: nowrap; }
code { font: .95em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p>$headline</p>
$verdict
$sections
</main>
</body>
</html>
""")


def report_html(report: Report, *, strict: bool = False, more: Live | None = None) -> str:
    """Return a report as a whole HTML page.

    Args:
        report: What was folded.
        strict: Whether it was folded strictly.
        more: The live verdicts that it was made from, where there are any.
    """
    tables = sections(report, more=more) if report.rows or (more and more.nulls) else []
    return _PAGE.substitute(
        title="Turns avoided",
        headline=escape(headline(report) + (f" {STRICT}" if strict else "")),
        verdict=_verdict(report),
        sections="\n".join(_section(section) for section in tables if section.rows),
    )


def _verdict(report: Report) -> str:
    found = verdict(report)
    honest = " honest" if found.name == HONEST else ""
    lines = "\n".join(f"<p>{escape(line)}</p>" for line in found.lines)
    return (
        f'<section class="verdict{honest}">\n'
        f"<h2>Verdict: <code>{escape(found.name)}</code></h2>\n{lines}\n</section>"
    )


def _section(section: Section) -> str:
    head = "".join(
        f'<th scope="col"{_class(section, index)}>{escape(column)}</th>'
        for index, column in enumerate(section.columns)
    )
    body = "\n".join(f"<tr>{_cells(section, row)}</tr>" for row in section.rows)
    return (
        f"<section>\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.note)}</p>\n"
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</section>"
    )


def _cells(section: Section, row: tuple[str, ...]) -> str:
    return "".join(
        f'<th scope="row">{escape(cell)}</th>'
        if index == 0 and section.words
        else f"<td{_class(section, index)}>{escape(cell)}</td>"
        for index, cell in enumerate(row)
    )


def _class(section: Section, index: int) -> str:
    return "" if index < section.words else ' class="number"'
