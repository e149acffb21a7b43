"""The journal's way into totals and the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256

import pytest

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.journal import Journal, verdict_line
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.tenure import Held
from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.judge.run import Key, Run, Work
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, PairDecided
from otel_turnavoid.store.ledger import Contradiction
from otel_turnavoid.store.shares import Author
from otel_turnavoid.store.shares import Totals as SavedTotals
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
    """A journal in a list, all of it in the first share."""

    def __init__(self) -> None:
        self.journal: list[Decision] = []
        self.spoken_against: list[int] = []
        self.saved: dict[int, SavedTotals] = {}

    def decisions(self, after: int = 0, *, share: int) -> Iterator[tuple[int, Decision]]:
        return iter(list(enumerate(self.journal, 1))[after:] if share == 1 else [])

    def last_decision(self) -> int:
        return len(self.journal)

    def saved_totals(self, share: int, form: str) -> SavedTotals | None:
        saved = self.saved.get(share)
        return saved if saved is not None and saved.form == form else None

    def save_totals(self, author: Author, totals: SavedTotals) -> None:
        self.saved[author.share] = totals

    def contradictions(self, after: int = 0, *, share: int) -> Iterator[Contradiction]:
        return (
            Contradiction(order, number, self.journal[number - 1])
            for order, number in enumerate(self.spoken_against, 1)
            if order > after and share == 1
        )


class FakeTenure:
    """Holds what it is told to."""

    def __init__(self) -> None:
        self.holds = [Held(1, working=True)]
        self.lapsed = False

    def held(self) -> list[Held]:
        return self.holds

    def author_of(self, share: int) -> Author:
        return Author(share, "me")

    def published(self) -> list[Held]:
        return [] if self.lapsed else self.holds


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
def tenure() -> FakeTenure:
    return FakeTenure()


@pytest.fixture
def own() -> Telemetry:
    return Telemetry()


@pytest.fixture
def journal(ledger, tenure, own) -> Journal:
    return Journal(ledger, tenure, Settings(), own)


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


def total(journal: Journal, instrument) -> float:
    return sum(
        series.value
        for part in journal.parts()
        for series in part.totals.snapshot().series(instrument)
    )


def test_what_was_decided_before_is_folded_and_not_said_again(journal, ledger, caplog):
    caplog.set_level("INFO")
    ledger.journal = [pair()]

    journal.read_on()

    assert total(journal, Metric.TURNS_WITHHELD) == 2
    assert caplog.records == []


def test_what_is_new_is_folded_once(journal, ledger, own):
    ledger.journal = [pair()]
    journal.read_on()
    ledger.journal.append(pair("k2"))

    assert journal.read_on() is True
    assert journal.read_on() is False
    assert total(journal, Metric.TURNS_WITHHELD) == 4
    assert own.value(telemetry.DECISIONS, "pair") == 1


def test_a_contradiction_counts_once(journal, ledger):
    ledger.journal = [pair()]
    journal.read_on()
    ledger.spoken_against = [1]

    journal.read_on()
    journal.read_on()

    assert total(journal, Metric.VERDICTS_CONTRADICTED) == 1
    assert total(journal, Metric.TURNS_WITHHELD) == 2


def test_what_others_decided_is_heard_of_and_not_folded(journal, ledger, tenure, own):
    tenure.holds = [Held(2, working=True)]
    journal.read_on()
    ledger.journal = [pair()]

    assert journal.read_on() is True
    assert total(journal, Metric.TURNS_WITHHELD) == 0
    assert own.value(telemetry.DECISIONS, "pair") == 0


def test_a_share_that_is_only_kept_is_folded_without_a_word(journal, ledger, tenure, caplog):
    caplog.set_level("INFO")
    tenure.holds = [Held(2, working=True)]
    journal.read_on()
    ledger.journal = [pair()]
    tenure.holds = [Held(2, working=True), Held(1, working=False)]

    journal.read_on()

    assert [part.share for part in journal.parts()] == [2, 1]
    assert total(journal, Metric.TURNS_WITHHELD) == 2
    assert caplog.records == []


def test_a_share_that_was_lost_is_not_shown_any_more(journal, ledger, tenure):
    ledger.journal = [pair()]
    journal.read_on()

    tenure.holds = []

    journal.read_on()
    assert journal.parts() == []


def test_nothing_is_shown_after_the_lease_and_all_of_it_when_it_goes_on(journal, ledger, tenure):
    ledger.journal = [pair()]
    journal.read_on()

    tenure.lapsed = True
    assert journal.parts() == []

    tenure.lapsed = False
    assert total(journal, Metric.TURNS_WITHHELD) == 2


def test_a_start_goes_on_from_what_was_kept(journal, ledger, tenure, own, monkeypatch):
    monkeypatch.setattr("otel_turnavoid.collector.journal.SAVED_TOGETHER", 3)
    ledger.journal = [pair(f"k{number}") for number in range(4)]
    ledger.spoken_against = [2]
    journal.read_on()
    ledger.journal += [pair("k5"), pair("k6")]
    ledger.spoken_against += [1]
    read = []
    ledger.decisions = lambda after=0, *, share: (
        read.append(each) or each for each in FakeLedger.decisions(ledger, after, share=share)
    )

    again = Journal(ledger, tenure, Settings(), own)
    again.read_on()

    assert [number for number, _ in read] == [5, 6]
    assert total(again, Metric.TURNS_WITHHELD) == 12
    assert total(again, Metric.VERDICTS_CONTRADICTED) == 2


def test_what_was_kept_by_other_rules_is_folded_anew(journal, ledger, tenure, own, monkeypatch):
    monkeypatch.setattr("otel_turnavoid.collector.journal.SAVED_TOGETHER", 1)
    ledger.journal = [pair()]
    journal.read_on()
    ledger.saved[1] = ledger.saved[1]._replace(form="1.0 other", body=b"nonsense")

    again = Journal(ledger, tenure, Settings(), own)
    again.read_on()

    assert total(again, Metric.TURNS_WITHHELD) == 2


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
