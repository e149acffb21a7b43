"""Looking things up by the names that people have of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided, RunDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.store.reading import Material
from otel_turnavoid.testing import observation, run_spans
from otel_turnavoid.vocabulary import Outcome

SETTINGS = Settings()
READER = Reader(SETTINGS)
DECIDED_NS = 5


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A pair, and a control of the same input under another turn index."""
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        for body in (
            run_spans(run_id="c", arm="control"),
            run_spans(run_id="k", arm="fused-batch"),
            run_spans(run_id="other", arm="control", turn_index=3),
        ):
            opened.add(list(read_traces(body, READER).facts), arrived_ns=1)
        for name in ("c", "k"):
            seen = read_logs(observation(name), READER).observations
            opened.add([], list(seen), arrived_ns=1)
        opened.decide(SETTINGS, now_ns=DECIDED_NS, final=True)
        yield opened


def test_a_run_is_found_by_its_id(ledger: Ledger) -> None:
    line = ledger.run("k")

    assert line is not None
    assert (line.run.run_id, line.outcome) == ("k", Outcome.PAIRED)
    assert ledger.run("nobody") is None


def test_a_run_has_its_facts_and_what_names_it(ledger: Ledger) -> None:
    material = ledger.material("k")

    assert sorted(fact.seq for fact in material.facts if fact.seq is not None) == list(range(11))
    assert [one.run_id for one in material.observations] == ["k"]
    assert ledger.material("nobody") == Material([], [])


def test_a_trace_leads_to_its_runs(ledger: Ledger) -> None:
    line = ledger.run("k")
    assert line is not None

    assert ledger.run_ids_of_trace(line.run.trace_ids[0]) == ["k"]
    assert ledger.run_ids_of_trace("0" * 32) == []


def test_decisions_are_found_by_number_and_by_run(ledger: Ledger) -> None:
    about = ledger.records_about("k")

    assert [type(record.decision) for record in about] == [PairDecided, RunDecided]
    assert [record.decided_ns for record in about] == [DECIDED_NS, DECIDED_NS]
    assert ledger.record(about[0].number) == about[0]
    assert ledger.record(10**30) is None


def test_runs_of_one_input_are_found_whatever_else_their_keys_hold(ledger: Ledger) -> None:
    line = ledger.run("c")
    assert line is not None
    assert line.run.key is not None

    peers = ledger.runs_with_digest(line.run.key.digest)

    assert sorted(peer.run.run_id for peer in peers) == ["c", "k", "other"]
    assert ledger.runs_with_digest("sha256:%") == []


def test_run_ids_are_listed_to_find_one_that_was_meant(ledger: Ledger) -> None:
    assert sorted(ledger.some_run_ids()) == ["c", "k", "other"]


def test_where_runs_stand_is_counted_by_their_names_and_by_their_traces(ledger: Ledger) -> None:
    line = ledger.run("other")
    assert line is not None

    assert ledger.outcomes(["c", "k", "other", "nobody"], []) == {
        Outcome.PAIRED: 2,
        Outcome.UNPAIRED: 1,
    }
    assert ledger.outcomes(["other"], line.run.trace_ids) == {Outcome.UNPAIRED: 1}
    assert ledger.outcomes([], []) == {}


def test_the_latest_pairs_come_last_first_in_either_database(bench, run, seen) -> None:
    for number in range(3):
        pair = (f"c{number}", "control"), (f"k{number}", "fused-batch")
        batches = [run(run_id, arm, task=number) for run_id, arm in pair]
        bench.add(*batches, *(seen(run_id) for run_id, _ in pair), at=number)
        bench.decide(number + 0.5, final=True)

    every = bench.ledger.latest_pairs(most=10)
    assert [record.decision.candidate.run_id for record in every] == ["k2", "k1", "k0"]
    assert bench.ledger.latest_pairs(most=2) == every[:2]
    assert bench.ledger.latest_pairs(every[0].number, most=1) == every[1:2]
    assert bench.ledger.latest_pairs(2**70, most=10) == every
    assert bench.ledger.latest_pairs(every[-1].number, most=10) == []
