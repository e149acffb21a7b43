"""``turnavoid pairs``: every decided pair with its verdict."""

from __future__ import annotations

from typing import Any, Final

import click

from otel_turnavoid.cli.source import ledger_option, open_ledger
from otel_turnavoid.cli.table import number, print_json_lines, print_table
from otel_turnavoid.judge.observing import asked_nothing
from otel_turnavoid.judge.verdict import NullDecided, PairDecided

COLUMNS: Final = (
    *("control", "candidate", "arm", "variant", "lifecycle"),
    *("turns", "with", "avoided", "withheld", "added"),
    "causes",
)
NULL_COLUMNS: Final = ("first control", "second control", "avoided", "added", "")
NUMBERS: Final = 5
NULL_NUMBERS: Final = 2


@click.command
@ledger_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
@click.option("--null", "with_null", is_flag=True, help="Also list the control pairs of the noise.")
def command(ledger_url: str | None, *, as_json: bool, with_null: bool) -> None:
    """List every decided pair with its verdict.

    "turns" is the control's committed model turns, "with" the candidate's. A pair may have
    causes where nothing was withheld. Verdicts are final; later evidence that speaks against
    one is named and changes nothing. "nothing asked": all that was required is that things stay as
    they were, so that doing nothing passes.
    """
    with open_ledger(ledger_url) as ledger:
        decisions = [decision for _, decision in ledger.decisions()]
        contradicted = ledger.contradicted().values()
    pairs = sorted((made for made in decisions if isinstance(made, PairDecided)), key=_pair_key)
    nulls = sorted((made for made in decisions if isinstance(made, NullDecided)), key=_null_key)
    if as_json:
        print_json_lines(map(pair_row, pairs))
        if with_null:
            print_json_lines(map(null_row, nulls))
        return
    print_table(COLUMNS, map(_cells, pairs), numbers=NUMBERS, otherwise="no pairs decided yet")
    for pair in sorted(contradicted, key=_pair_key):
        click.echo(
            f"contradicted: {pair.control.run_id} with {pair.candidate.run_id}: evidence that came"
            " after the verdict speaks against it; the verdict stays"
        )
    if with_null:
        click.echo()
        print_table(
            NULL_COLUMNS,
            map(_null_cells, nulls),
            numbers=NULL_NUMBERS,
            otherwise="no pairs of control runs",
        )


def pair_row(pair: PairDecided) -> dict[str, Any]:
    """Return a verdict as the design's JSON object."""
    candidate = pair.candidate
    crossing = {} if pair.comparison is None else {"comparison": pair.comparison}
    nothing = {"nothing_asked": True} if asked_nothing(pair.control) else {}
    return {
        "control": pair.control.run_id,
        "candidate": candidate.run_id,
        "arm": candidate.arm,
        "variant": candidate.variant,
        "mechanism": candidate.mechanism,
        "lifecycle": candidate.lifecycle,
        "reason": candidate.reason,
        "evidence": pair.evidence,
        "control_turns": pair.control.model_turns,
        "candidate_turns": candidate.model_turns,
        "potential": pair.potential,
        "avoided": pair.avoided,
        "withheld": pair.withheld,
        "added": pair.added,
        "causes": list(pair.causes),
        **crossing,
        **nothing,
    }


def null_row(null: NullDecided) -> dict[str, Any]:
    """Return two compared control runs as a JSON object; never a saving."""
    return {
        "first": null.first.run_id,
        "second": null.second.run_id,
        "avoided": null.avoided,
        "added": null.added,
    }


def _pair_key(pair: PairDecided) -> tuple[str, str]:
    return pair.control.run_id, pair.candidate.run_id


def _null_key(null: NullDecided) -> tuple[str, str]:
    return null.first.run_id, null.second.run_id


def _cells(pair: PairDecided) -> list[str]:
    row = pair_row(pair)
    words = [row[key] or "-" for key in ("control", "candidate", "arm", "variant", "lifecycle")]
    counts = ("control_turns", "candidate_turns", "avoided", "withheld", "added")
    nothing = ["nothing asked"] if "nothing_asked" in row else []
    remarks = ", ".join([*row["causes"], *nothing])
    return [*map(str, words), *(number(row[key]) for key in counts), remarks]


def _null_cells(null: NullDecided) -> list[str]:
    row = null_row(null)
    return [row["first"], row["second"], str(row["avoided"]), str(row["added"]), ""]
