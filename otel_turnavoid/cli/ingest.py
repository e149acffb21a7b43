"""``turnavoid ingest``: recorded OTLP files into a ledger, decided at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from otel_turnavoid.cli.source import config_option, ledger_option, open_ledger
from otel_turnavoid.errors import InputError

if TYPE_CHECKING:
    from otel_turnavoid.judge.facts import Observation, SpanFact
    from otel_turnavoid.judge.verdict import Decision
    from otel_turnavoid.otlp import Batch
    from otel_turnavoid.store import Ledger

FACTS_A_COMMIT: Final = 5_000
PROBLEMS_SHOWN: Final = 10


class Tally(msgspec.Struct):
    """What the input came to."""

    spans: int = 0
    records: int = 0
    conversations: int = 0
    ignored: int = 0
    rejected: int = 0
    facts: int = 0
    observations: int = 0
    duplicates: int = 0
    problems: list[str] = []

    def read(self, file: Path, batch: Batch) -> None:
        """Count what was read of a file."""
        self.spans += batch.spans
        self.records += batch.records
        self.conversations += batch.conversations
        self.ignored += batch.ignored
        self.rejected += batch.rejected
        if batch.problem:
            self.problems.append(f"{file}: {batch.problem}")


@click.command
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@ledger_option
@config_option
def command(files: tuple[Path, ...], ledger_url: str | None, config_path: Path | None) -> None:
    """Read recorded OTLP files and conversations into a ledger and decide.

    Takes protobuf request bodies, OTLP/JSON and the lines of the collector's file exporter,
    traces and logs; message lists, trajectories and session logs of agents; - is standard
    input. The end of the input ends every wait: pairs with
    missing evidence are decided without it. Reading a file again changes nothing.

    Single spans that cannot be used are counted, named and left out. A file that cannot be
    read ends the command with exit code 2: what was read before stays in the ledger, but
    nothing is decided, so that the mended file can be read again.
    """
    from otel_turnavoid.collector import config
    from otel_turnavoid.dialects import Reader
    from otel_turnavoid.otlp import read_files

    loaded = config.load(config_path)
    reader = Reader(loaded.settings)
    batches = ((file, batch) for file in files for batch in read_files([file], reader))
    with open_ledger(ledger_url or loaded.ledger_url, create=True) as ledger:
        tally = add(ledger, batches)
        if tally.rejected and tally.rejected == tally.spans + tally.records:
            raise InputError("", f"nothing in the input can be used: {tally.problems[0]}")
        decisions = ledger.decide(loaded.settings, now_ns=time.time_ns(), final=True)
    click.echo(summary(tally, decisions))
    for problem in tally.problems[:PROBLEMS_SHOWN]:
        click.echo(problem, err=True)
    if len(tally.problems) > PROBLEMS_SHOWN:
        click.echo(f"and {len(tally.problems) - PROBLEMS_SHOWN} more of these", err=True)


def add(ledger: Ledger, batches: Iterable[tuple[Path, Batch]]) -> Tally:
    """Put everything into the ledger, some thousand facts a transaction.

    Raises:
        InputError: A file cannot be read; what came before it is in the ledger.
        LedgerError: The ledger cannot be written.
    """
    tally = Tally()
    facts: list[SpanFact] = []
    observations: list[Observation] = []

    def commit() -> None:
        if facts or observations:
            added = ledger.add(facts, observations, arrived_ns=time.time_ns())
            tally.facts += added.facts
            tally.observations += added.observations
            tally.duplicates += added.duplicates
            facts.clear()
            observations.clear()

    try:
        for file, batch in batches:
            tally.read(file, batch)
            facts += batch.facts
            observations += batch.observations
            if len(facts) + len(observations) >= FACTS_A_COMMIT:
                commit()
    except InputError as error:
        commit()
        raise InputError(
            error.place, f"{error.problem}; what was read before stays, nothing was decided"
        ) from error
    commit()
    return tally


def summary(tally: Tally, decisions: Sequence[Decision]) -> str:
    """Return what happened, a line each for the input, the ledger and the decisions."""
    from otel_turnavoid.judge.verdict import NullDecided, PairDecided, RunDecided

    pairs = [decision for decision in decisions if isinstance(decision, PairDecided)]
    nulls = sum(isinstance(decision, NullDecided) for decision in decisions)
    outcomes = Counter(
        decision.outcome.value for decision in decisions if isinstance(decision, RunDecided)
    )
    runs = (
        ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())) or "none new"
    )
    told = tally.conversations
    recorded = f", {_count(told, 'conversation')}" if told else ""
    read = (
        f"{_count(tally.spans, 'span')}, {_count(tally.records, 'log record')}{recorded};"
        f" {tally.ignored} not about agents, {tally.rejected} refused"
    )
    stored = (
        f"{_count(tally.facts, 'fact')}, {_count(tally.observations, 'observation')};"
        f" {tally.duplicates} known already"
    )
    decided = f"{_count(len(pairs), 'pair')}, {_count(nulls, 'control pair')}; runs: {runs}"
    turns = (
        f"{sum(pair.avoided for pair in pairs)} avoided,"
        f" {sum(pair.withheld for pair in pairs)} withheld,"
        f" {sum(pair.added for pair in pairs)} added"
    )
    return f"read     {read}\nstored   {stored}\ndecided  {decided}\nturns    {turns}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
