"""``turnavoid explain``: one run, trace, pair or verdict: what was seen, decided, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from otel_turnavoid.cli.source import config_option, ledger_option, open_ledger

MOST_IDS: Final = 2


@click.command
@click.argument("ids", metavar="ID [CANDIDATE]", nargs=-1, required=True)
@ledger_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    ids: tuple[str, ...], ledger_url: str | None, config_path: Path | None, *, as_json: bool
) -> None:
    """Say what was seen of a run or pair, what was decided, and why.

    ID is a run id, a trace id, a pair (two run ids, or control/candidate), or the id of a
    verdict. Shown are the verdict with every cause and what would have to be true for credit,
    both effect lists and their difference, and for each run its entries, how turns were
    counted, what was declared and what was missing.

    The verdict is the stored, final one. With --config, what would be decided today goes by
    the same configuration as the processor's.
    """
    if len(ids) > MOST_IDS:
        raise click.UsageError(f"one id, or the two run ids of a pair, got {len(ids)}.")
    from otel_turnavoid.collector import config
    from otel_turnavoid.publish.explanation import explanation_json
    from otel_turnavoid.publish.explanation_text import explanation_text
    from otel_turnavoid.publish.inquiry import explain

    loaded = config.load(config_path)
    with open_ledger(ledger_url or loaded.ledger_url) as ledger:
        explanation = explain(ledger, ids, loaded.settings)
    if as_json:
        click.echo(explanation_json(explanation))
    else:
        click.echo(explanation_text(explanation), nl=False)
