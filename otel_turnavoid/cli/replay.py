"""``turnavoid replay``: fold a trace/v1 file into the report."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from otel_turnavoid.cli.output import write_file
from otel_turnavoid.errors import InputError, TraceError
from otel_turnavoid.ledger import Report, replay, report_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from otel_turnavoid.ledger import Row

    Through = Callable[[Iterator[Row]], Iterator[Row]]


@click.command
@click.option(
    "--in",
    "source",
    metavar="FILE",
    required=True,
    help="JSON Lines of fak.turnavoid.trace/v1; - is standard input.",
)
@click.option("--json", "as_json", is_flag=True, help="Print fak.turnavoid.report/v1.")
@click.option("--strict", is_flag=True, help="Give no credit where no effect was required.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the report as one HTML page instead of text.",
)
def command(source: str, *, as_json: bool, strict: bool, page: Path | None) -> None:
    """Fold a trace/v1 file into the report, without a ledger.

    A file that breaks a rule anywhere is refused whole: exit code 2, one line that says where,
    nothing on standard output.
    """
    if page is not None:
        from otel_turnavoid.publish.largest import Watch
        from otel_turnavoid.publish.report_html import report_html

        watch = Watch(strict=strict)
        report = _replay(source, strict=strict, through=watch.through)
        write_file(page, report_html(report, strict=strict, rows=watch.largest()).encode())
    else:
        report = _replay(source, strict=strict)
    if as_json:
        click.echo(report_json(report), nl=False)
    elif page is None:
        from otel_turnavoid.publish.report_text import report_text

        click.echo(report_text(report, strict=strict), nl=False)


def _replay(source: str, *, strict: bool, through: Through | None = None) -> Report:
    try:
        with _open(source) as stream:
            return replay(stream, strict=strict, through=through)
    except TraceError as error:
        raise InputError(source, str(error)) from error
    except OSError as error:
        raise InputError(source, f"cannot be read: {error.strerror}") from error


def _open(source: str) -> AbstractContextManager[BinaryIO]:
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    return Path(source).open("rb", buffering=1 << 18)
