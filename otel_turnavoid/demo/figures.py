"""What the ledger says after the play, and whether that is what the scenario implies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.demo.scenario import (
    EXPECTED,
    EXPECTED_FIGURES,
    EXPECTED_NULL,
    EXPECTED_OVERHEAD,
    Verdict,
)
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided
from otel_turnavoid.publish.prometheus import label_name, sample_names
from otel_turnavoid.publish.totals import Snapshot, Totals
from otel_turnavoid.vocabulary import Arm, Attr, Instrument, Metric, OverheadKind

Ids = tuple[str, str]
Turns = dict[tuple[str, Arm], float]

TURN_COUNTERS: Final = (
    Metric.TURNS_COMMITTED,
    Metric.TURNS_AVOIDED,
    Metric.TURNS_WITHHELD,
    Metric.TURNS_ADDED,
)


class Figures(NamedTuple):
    """The decisions of the demo's ledger and the accounts folded from them."""

    pairs: dict[Ids, PairDecided]
    nulls: dict[Ids, NullDecided]
    accounts: Snapshot

    @classmethod
    def read(cls, decisions: Iterable[Decision]) -> Figures:
        """Fold decisions as the processor's metrics do."""
        totals = Totals()
        pairs: dict[Ids, PairDecided] = {}
        nulls: dict[Ids, NullDecided] = {}
        for decision in decisions:
            totals.add(decision)
            if isinstance(decision, PairDecided):
                pairs[decision.control.run_id, decision.candidate.run_id] = decision
            elif isinstance(decision, NullDecided):
                nulls[decision.first.run_id, decision.second.run_id] = decision
        return cls(pairs, nulls, totals.snapshot())

    @property
    def complete(self) -> bool:
        """Everything that the scenario expects was decided."""
        return self.pairs.keys() >= EXPECTED.keys() and self.nulls.keys() >= EXPECTED_NULL.keys()

    def amount(self, instrument: Instrument, **labels: str) -> float:
        """Return the sum of the series of an instrument that carry these labels.

        Labels are named without ``turnavoid.`` and with ``_`` for dots.
        """
        wanted = {(f"turnavoid.{key.replace('_', '.')}", value) for key, value in labels.items()}
        return sum(
            value
            for found, value in self.accounts.series(instrument)
            if isinstance(value, (int, float)) and wanted <= set(found)
        )

    @property
    def turns(self) -> Turns:
        """The account of turns by instrument and arm."""
        return {
            (instrument.name, arm): self.amount(instrument, arm=arm)
            for instrument, arm in product(TURN_COUNTERS, Arm)
        }


def published(exposition: str) -> Turns:
    """Return the account of turns as Prometheus would read it."""
    names = {sample_names(instrument)[0]: instrument.name for instrument in TURN_COUNTERS}
    turns: Turns = dict.fromkeys(product(names.values(), Arm), 0.0)
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name in names:
                turns[names[sample.name], Arm(sample.labels[label_name(Attr.ARM)])] += sample.value
    return turns


def verdict(pair: PairDecided) -> Verdict:
    """Return what was decided, in the scenario's terms."""
    return Verdict(
        pair.control.model_turns or 0,
        pair.candidate.model_turns or 0,
        pair.avoided,
        pair.withheld,
        pair.added,
        pair.causes[0] if pair.causes else None,
        because="",
    )


def faults(figures: Figures) -> list[str]:
    """Return a line for everything that is not what the scenario implies."""
    return [*_wrong_verdicts(figures), *_wrong_amounts(figures), *_wrong_overhead(figures)]


def _wrong_verdicts(figures: Figures) -> Iterator[str]:
    for ids, expected in EXPECTED.items():
        if ids not in figures.pairs:
            yield f"{' with '.join(ids)}: no verdict"
        elif (found := verdict(figures.pairs[ids])) != expected._replace(because=""):
            yield f"{' with '.join(ids)}: decided {_words(found)}; must be {_words(expected)}"
    for ids in sorted(figures.pairs.keys() - EXPECTED.keys()):
        yield f"{' with '.join(ids)}: are no pair"
    nulls = {ids: (null.avoided, null.added) for ids, null in figures.nulls.items()}
    if nulls != EXPECTED_NULL:
        yield f"control pairs: {nulls}; must be {EXPECTED_NULL}"


def _wrong_amounts(figures: Figures) -> Iterator[str]:
    for instrument, arm, value in EXPECTED_FIGURES:
        amount = figures.amount(instrument, arm=arm)
        if amount != value:
            yield f"{instrument.name} of {arm}: {amount:g}; must be {value}"


def _wrong_overhead(figures: Figures) -> Iterator[str]:
    for arm, kind in product(Arm, OverheadKind):
        spent = figures.amount(Metric.OVERHEAD_DURATION, arm=arm, overhead_kind=kind)
        if (spent > 0) != ((arm, kind) in EXPECTED_OVERHEAD):
            yield f"{kind} overhead of {arm}: {spent:g} s; must be {'none' if spent else 'some'}"


def _words(verdict: Verdict) -> str:
    return (
        f"{verdict.control_turns} -> {verdict.candidate_turns} turns, {verdict.avoided} avoided,"
        f" {verdict.withheld} withheld ({verdict.cause or 'no cause'}), {verdict.added} added"
    )
