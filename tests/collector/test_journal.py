"""The journal's way into totals and the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256

import pytest

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.journal import Journal, verdict_line
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.judge.run import Key, Run, Work
from otel_turnavoid.judge.verdict import Decision, PairDecided
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.store.ledger import Contradiction
from otel_turnavoid.vocabulary import (
    Arm,
    Evidence,
    InvokeState,
    Lifecycle,
    Mechanism,
    Metric,
    Reason,
    WithheldCause,
)


class FakeLedger:
    """A journal in a list."""

    def __init__(self) -> None:
        self.journal: list[Decision] = []
        self.spoken_against: list[int] = []

    def decisions(self, after: int = 0) -> Iterator[tuple[int, Decision]]:
        return iter(list(enumerate(self.journal, 1))[after:])

    def contradictions(self, after: int = 0) -> Iterator[Contradiction]:
        return (
            Contradiction(order, number, self.journal[number - 1])
            for order, number in enumerate(self.spoken_against, 1)
            if order > after
        )


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
def totals() -> Totals:
    return Totals()


@pytest.fixture
def own() -> Telemetry:
    return Telemetry()


@pytest.fixture
def journal(ledger, totals, own) -> Journal:
    return Journal(ledger, totals, own)


def run(run_id: str, arm: Arm, turns: int) -> Run:
    return Run(
        run_id=run_id,
        evidence=Evidence.DECLARED,
        arm=arm,
        variant=None,
        key=Key("", f"sha256:{sha256(b'q').hexdigest()}", "", 0),
        ended=True,
        state=InvokeState.COMPLETED,
        start_ns=0,
        end_ns=1,
        mechanism=Mechanism(arm.value),
        lifecycle=Lifecycle.REALIZED,
        reason=Reason.UNKNOWN,
        decision_basis=-1,
        model_turns=turns,
        llm_calls=turns,
        tool_calls=0,
        usage=Usage(),
        rejections=(),
        causes=(),
        problems=(),
        models=(),
        scopes=(),
        identities=(),
        observations=(),
        work=Work(),
        retained=None,
        batches=(),
        speculation=(),
        agent=None,
        trace_ids=("aa", "bb"),
    )


def pair(candidate: str = "k") -> PairDecided:
    return PairDecided(
        control=run("c", Arm.CONTROL, 3),
        candidate=run(candidate, Arm.EXACT_REUSE, 1),
        potential=2,
        avoided=0,
        withheld=2,
        added=0,
        causes=(WithheldCause.EFFECTS_SUPPRESSED,),
        observer="o",
        control_effects=("done",),
        candidate_effects=(),
        preserved=0,
        suppressed=1,
    )


def total(totals: Totals, instrument) -> float:
    return sum(series.value for series in totals.snapshot().series(instrument))


def test_what_was_decided_before_is_folded_and_not_said_again(journal, ledger, totals, caplog):
    caplog.set_level("INFO")
    ledger.journal = [pair()]

    journal.catch_up()

    assert total(totals, Metric.TURNS_WITHHELD) == 2
    assert caplog.records == []


def test_what_is_new_is_folded_once(journal, ledger, totals, own):
    ledger.journal = [pair()]
    journal.catch_up()
    ledger.journal.append(pair("k2"))

    assert journal.read_on() is True
    assert journal.read_on() is False
    assert total(totals, Metric.TURNS_WITHHELD) == 4
    assert own.value(telemetry.DECISIONS, "pair") == 1


def test_a_contradiction_counts_once(journal, ledger, totals):
    ledger.journal = [pair()]
    journal.catch_up()
    ledger.spoken_against = [1]

    journal.read_on()
    journal.read_on()

    assert total(totals, Metric.VERDICTS_CONTRADICTED) == 1
    assert total(totals, Metric.TURNS_WITHHELD) == 2


def test_a_verdict_is_one_line_of_ids_and_counts():
    assert verdict_line(pair()) == (
        'pair decided: arm="exact-reuse" avoided=0 withheld=2 added=0 '
        'causes=["effects-suppressed"] control="c" candidate="k" '
        'control_traces=["aa","bb"] candidate_traces=["aa","bb"]'
    )


def test_a_run_id_cannot_break_the_line():
    hostile = 'k" avoided=99\npair decided: control="c'
    line = verdict_line(pair(hostile))

    assert "\n" not in line
    assert f"candidate={json.dumps(hostile)}" in line
