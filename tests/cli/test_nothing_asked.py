"""Inputs on which nothing was to be changed: credited, and shown apart in every view."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import observation, run_spans

STAYED = ("order:42=unchanged",)
CHANGED = ("order:42=cancelled",)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Ingest a pair, of 3 turns and 1, for each of these effects, seen after both runs."""
    monkeypatch.chdir(tmp_path)

    def fill(*effects: Sequence[str]) -> None:
        names = []
        for number, labels in enumerate(effects):
            for name, arm, turns in (("c", "control", 3), ("k", "exact-reuse", 1)):
                run_id = f"{name}{number}"
                spans = run_spans(run_id=run_id, arm=arm, turns=turns, task=f"task {number}")
                for body in (spans, observation(run_id, labels)):
                    names.append(f"{len(names)}.pb")
                    Path(names[-1]).write_bytes(body)
        shown("ingest", *names)

    return fill


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_pair_says_so(ledger: Callable[..., None]) -> None:
    ledger(STAYED, CHANGED, (*STAYED, *CHANGED))

    rows = map(json.loads, shown("pairs", "--json").splitlines())
    assert {row["control"]: row.get("nothing_asked") for row in rows} == {
        "c0": True,
        "c1": None,
        "c2": None,
    }


def test_a_list_of_pairs_says_so(ledger: Callable[..., None]) -> None:
    ledger(STAYED, CHANGED)

    lines = shown("pairs").splitlines()
    assert [line.split()[:1] for line in lines if "nothing asked" in line] == [["c0"]]


def test_the_report_shows_their_turns_apart(ledger: Callable[..., None]) -> None:
    ledger(STAYED, CHANGED)

    part = shown("report").partition("Where nothing was asked")[2].partition("\n\n\n")[0]
    assert "An agent that does nothing passes there." in part
    [row] = [line.split() for line in part.splitlines() if "exact-reuse" in line][:1]
    assert row == ["exact-reuse", "1", "2", "0", "+2", "0"]


def test_a_report_without_any_has_no_such_part(ledger: Callable[..., None]) -> None:
    ledger(CHANGED)

    assert "nothing was asked" not in shown("report")


@pytest.mark.parametrize(("labels", "said"), [(STAYED, True), (CHANGED, False)])
def test_an_explanation_says_that_doing_nothing_passes(
    ledger: Callable[..., None], labels: Sequence[str], *, said: bool
) -> None:
    ledger(labels)

    line = "Nothing else was asked for: an agent that does nothing passes here."
    assert (line in shown("explain", "c0")) is said
