"""``turnavoid runs``: every run in the ledger, paired or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_turnavoid.cli.source import ledger_option, open_ledger
from otel_turnavoid.cli.table import number, print_json_lines, print_table
from otel_turnavoid.vocabulary import Outcome, TokenType

if TYPE_CHECKING:
    from otel_turnavoid.store import RunLine

COLUMNS: Final = (
    *("run", "arm", "variant", "evidence", "outcome"),
    *("turns", "calls", "tools", "tokens in", "tokens out"),
    "causes",
)
NUMBERS: Final = 5


@click.command
@ledger_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
def command(ledger_url: str | None, *, as_json: bool) -> None:
    """List every run in the ledger, paired or not.

    Turns are committed model turns, calls are model calls with all attempts. What the spans
    cannot tell is a dash here and left out in JSON, never 0. Calls without a run are listed a
    line per trace, as unattributed.
    """
    with open_ledger(ledger_url) as ledger:
        rows = map(run_row, ledger.runs())
        if as_json:
            print_json_lines(rows)
        else:
            print_table(COLUMNS, map(_cells, rows), numbers=NUMBERS, otherwise="no runs yet")


def run_row(line: RunLine) -> dict[str, Any]:
    """Return a run as the design's JSON object; unknown counts have no key."""
    run = line.run
    counts = {
        "model_turns": run.model_turns,
        "llm_calls": run.llm_calls,
        "tool_calls": run.tool_calls,
    }
    tokens = {kind.value: getattr(run.usage, kind.value) for kind in TokenType}
    return {
        "run_id": run.run_id,
        "arm": run.arm,
        "variant": run.variant,
        "evidence": run.evidence,
        "outcome": line.outcome,
        **_known(counts),
        "tokens": _known(tokens),
        "causes": list(run.rejections if line.outcome is Outcome.REJECTED else run.causes),
    }


def _known(figures: dict[str, int | None]) -> dict[str, int]:
    return {key: value for key, value in figures.items() if value is not None}


def _cells(row: dict[str, Any]) -> list[str]:
    words = [row[key] or "-" for key in ("run_id", "arm", "variant", "evidence", "outcome")]
    counts = [number(row.get(key)) for key in ("model_turns", "llm_calls", "tool_calls")]
    tokens = [number(row["tokens"].get(key)) for key in ("input", "output")]
    return [*map(str, words), *counts, *tokens, ", ".join(row["causes"])]
