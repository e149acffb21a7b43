"""``turnavoid ingest``: recorded OTLP files into a ledger, decided at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from otel_turnavoid.cli.progress import Progress
from otel_turnavoid.cli.source import config_option, ledger_option, open_ledger
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.facts import resolved
from otel_turnavoid.publish.layout import count

if TYPE_CHECKING:
    from otel_turnavoid.judge.facts import Observation, SpanFact
    from otel_turnavoid.judge.verdict import Decision
    from otel_turnavoid.otlp import Batch
    from otel_turnavoid.store import Ledger
    from otel_turnavoid.vocabulary import Outcome

FACTS_A_COMMIT: Final = 5_000
PROBLEMS_SHOWN: Final = 10
NOTHING_DECIDED: Final = "what was read before stays, nothing was decided"


class Tally(msgspec.Struct):
    """What the input came to."""

    spans: int = 0
    records: int = 0
    conversations: int = 0
    ignored: int = 0
    rejected: int = 0
    broken: int = 0
    """Files, lines and items that cannot be used."""
    facts: int = 0
    observations: int = 0
    duplicates: int = 0
    problems: list[str] = []
    run_ids: set[str] = msgspec.field(default_factory=set)
    """Runs that the input names."""
    trace_ids: set[str] = msgspec.field(default_factory=set)
    """Traces in which it has spans that name no run."""

    def read(self, file: Path, batch: Batch) -> None:
        """Count what was read of a file."""
        self.spans += batch.spans
        self.records += batch.records
        self.conversations += batch.conversations
        self.ignored += batch.ignored
        self.rejected += batch.rejected
        if batch.problem:
            self.problems.append(f"{file}: {batch.problem}")
        self.run_ids.update(observation.run_id for observation in batch.observations)
        for fact in map(resolved, batch.facts):
            if fact.run_id is not None:
                self.run_ids.add(fact.run_id)
            else:
                self.trace_ids.add(fact.trace_id)

    @property
    def useless(self) -> bool:
        """Whether something is wrong with the input and nothing in it can be used."""
        read = self.spans + self.records + self.conversations
        return read == self.rejected and bool(self.rejected or self.broken)


@click.command
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--strict", is_flag=True, help="Stop at the first broken file or record.")
@ledger_option
@config_option
def command(
    files: tuple[Path, ...], ledger_url: str | None, config_path: Path | None, *, strict: bool
) -> None:
    """Read recorded OTLP files and conversations into a ledger and decide.

    Takes protobuf request bodies, OTLP/JSON and the lines of the collector's file exporter,
    traces and logs; message lists, trajectories and session logs of agents; - is standard
    input. The end of the input ends every wait: pairs with
    missing evidence are decided without it. Reading a file again changes nothing.

    A broken file, line or item of an array is named with its reason, a line each on standard
    error, and left out; a protobuf body and a session log are read whole or not at all. All
    else is read and decided, and the exit code is 2. Verdicts are final: what is mended later
    comes too late for pairs that were decided without it.

    With --strict the first broken file or record ends the command with exit code 2: what was
    read before stays in the ledger, but nothing is decided, so that the mended file can be read
    again. Nor is anything decided where nothing in the input can be used.

    Single spans that cannot be used are counted, named and left out.
    """
    from otel_turnavoid.collector import config
    from otel_turnavoid.dialects import Reader
    from otel_turnavoid.otlp import read_files

    loaded = config.load(config_path)
    reader = Reader(loaded.settings)
    tally = Tally()
    with (
        open_ledger(ledger_url or loaded.ledger_url, create=True) as ledger,
        Progress(files, sys.stderr) as progress,
    ):

        def leave_out(error: InputError) -> None:
            if strict:
                raise error
            tally.broken += 1
            progress.say(str(error))

        batches = (
            (file, batch)
            for file in progress.files()
            for batch in read_files([file], reader, broken=leave_out, watch=progress.read)
        )
        add(ledger, batches, tally)
        if tally.useless:
            first = f": {tally.problems[0]}" if tally.problems else ""
            raise InputError("", f"nothing in the input can be used{first}; nothing was decided")
        progress.deciding()
        decisions = ledger.decide(loaded.settings, now_ns=time.time_ns(), final=True)
        outcomes = ledger.outcomes(tally.run_ids, tally.trace_ids)
    click.echo(summary(tally, decisions, outcomes))
    for problem in tally.problems[:PROBLEMS_SHOWN]:
        click.echo(problem, err=True)
    if len(tally.problems) > PROBLEMS_SHOWN:
        click.echo(f"and {len(tally.problems) - PROBLEMS_SHOWN} more of these", err=True)
    if tally.broken:
        raise InputError(
            "", f"left out as broken: {tally.broken}, named above; the rest was read and decided"
        )


def add(ledger: Ledger, batches: Iterable[tuple[Path, Batch]], tally: Tally) -> None:
    """Put everything into the ledger, some thousand facts a transaction, and count it.

    Raises:
        InputError: A file cannot be read; what came before it is in the ledger.
        LedgerError: The ledger cannot be written.
    """
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
        raise InputError(error.place, f"{error.problem}; {NOTHING_DECIDED}") from error
    commit()


def summary(tally: Tally, decisions: Sequence[Decision], outcomes: Mapping[Outcome, int]) -> str:
    """Return what happened, a line each for the input, the ledger, decisions, runs and turns.

    ``outcomes``: where the runs of this input stand, decided just now or before.
    """
    from otel_turnavoid.judge.verdict import NullDecided, PairDecided

    pairs = [decision for decision in decisions if isinstance(decision, PairDecided)]
    nulls = sum(isinstance(decision, NullDecided) for decision in decisions)
    told = tally.conversations
    recorded = f", {count(told, 'conversation')}" if told else ""
    broken = f", {tally.broken} broken" if tally.broken else ""
    read = (
        f"{count(tally.spans, 'span')}, {count(tally.records, 'log record')}{recorded};"
        f" {tally.ignored} not about agents, {tally.rejected} refused{broken}"
    )
    stored = (
        f"{count(tally.facts, 'fact')}, {count(tally.observations, 'observation')};"
        f" {tally.duplicates} known already"
    )
    decided = f"{count(len(pairs), 'pair')}, {count(nulls, 'control pair')}"
    runs = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items()) or "none"
    turns = (
        f"{sum(pair.avoided for pair in pairs)} avoided,"
        f" {sum(pair.withheld for pair in pairs)} withheld,"
        f" {sum(pair.added for pair in pairs)} added"
    )
    lines = {"read": read, "stored": stored, "decided": decided, "turns": turns, "runs": runs}
    return "\n".join(f"{what:<9}{said}" for what, said in lines.items())
