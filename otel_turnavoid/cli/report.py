"""``turnavoid report``: the ledger's accounts, or its pairs as trace/v1 rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from otel_turnavoid.cli.output import write_file
from otel_turnavoid.cli.source import ledger_option, open_ledger
from otel_turnavoid.ledger import Report, Row, empty_report, fold, report_json
from otel_turnavoid.publish.sections import Live, live
from otel_turnavoid.publish.trace import beyond_v1, trace_rows

if TYPE_CHECKING:
    from otel_turnavoid.publish.report_pairs import Shown
    from otel_turnavoid.store import Ledger

STANDARD_OUTPUT = Path("-")


@click.command
@ledger_option
@click.option("--json", "as_json", is_flag=True, help="Print fak.turnavoid.report/v1.")
@click.option(
    "--series",
    "as_series",
    is_flag=True,
    help="Print each series of pairs with its interval, and the noise, as JSON Lines.",
)
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the report as one HTML page.",
)
@click.option(
    "--trace",
    "trace",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the decided pairs as fak.turnavoid.trace/v1 rows; - is standard output.",
)
def command(
    ledger_url: str | None,
    *,
    as_json: bool,
    as_series: bool,
    page: Path | None,
    trace: Path | None,
) -> None:
    """Show the accounts of all decided pairs in a ledger.

    The report is the fold of the rows that --trace writes: replay of that file gives the same
    figures. Only the text, the page and --series also show what such rows cannot hold: variants,
    withheld turns by cause, the noise between control runs, and how sure the mean is. A ledger
    without a decided pair has a report of zeros and a trace without rows, which replay refuses.
    """
    if sum((as_json, as_series, page is not None, trace is not None)) > 1:
        raise click.UsageError("--json, --series, --html and --trace exclude each other.")
    with open_ledger(ledger_url) as ledger:
        found = _read(ledger)
        shown = _shown(ledger, found) if page is not None else []
    if as_series:
        pairs, nulls = found.series
        for one in (*pairs, *nulls):
            click.echo(msgspec.json.encode(one))
        return
    rows = trace_rows(found.pairs)
    _say_what_v1_lacks(found)
    if trace is not None:
        _write(trace, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        return
    report = _fold(rows)
    if as_json:
        click.echo(report_json(report), nl=False)
    elif page is not None:
        from otel_turnavoid.publish.report_html import report_html

        _write(page, report_html(report, more=found, pairs=shown).encode())
    else:
        from otel_turnavoid.publish.report_text import report_text

        click.echo(report_text(report, more=found), nl=False)


def _read(ledger: Ledger) -> Live:
    decisions = (decision for _, decision in ledger.decisions())
    return live(decisions, contradicted=len(ledger.contradicted()))


def _shown(ledger: Ledger, found: Live) -> list[Shown]:
    """Return the largest pairs, with their runs as the ledger has them."""
    from otel_turnavoid.judge.settings import Settings
    from otel_turnavoid.publish.inquiry import explain
    from otel_turnavoid.publish.largest import largest
    from otel_turnavoid.publish.report_pairs import Shown

    settings = Settings()
    return [
        Shown(
            each.kind,
            tuple(
                explain(ledger, (pair.control.run_id, pair.candidate.run_id), settings)
                for pair in each.pairs
            ),
        )
        for each in largest(found.pairs)
    ]


def _fold(rows: list[Row]) -> Report:
    return fold(rows) if rows else empty_report()


def _say_what_v1_lacks(found: Live) -> None:
    for mechanism, pairs in sorted(beyond_v1(found.pairs).items()):
        click.echo(
            f"turnavoid report: trace/v1 has no mechanism {mechanism} in a candidate arm; "
            f"its pairs ({pairs}) are shown as unknown",
            err=True,
        )


def _write(path: Path, body: bytes) -> None:
    if path == STANDARD_OUTPUT:
        click.echo(body, nl=False)
    else:
        write_file(path, body)
