"""Rows on standard output: a table for people, JSON Lines for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

WIDE: Final = 4096
"""Columns where nobody looks: wide enough to wrap nothing."""

_json = msgspec.json.Encoder()


def print_json_lines(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one JSON object a line, keys in the order of the mapping."""
    for row in rows:
        click.echo(_json.encode(row))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int, otherwise: str
) -> None:
    """Print rows under a heading; nothing is cut where the output is not a terminal.

    Args:
        columns: Headings: text, then ``numbers`` columns of numbers, then one of text.
        rows: Cells, one for each column.
        numbers: How many columns are right-aligned.
        otherwise: What to say where there are no rows.
    """
    listed = list(rows)
    if not listed:
        click.echo(otherwise)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    last = len(columns) - 1
    for index, column in enumerate(columns):
        if last - numbers <= index < last:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*map(Text, row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def number(value: int | None) -> str:
    """Return a count for people; a dash is unknown, which is not 0."""
    return "-" if value is None else str(value)
