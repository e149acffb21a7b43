"""``turnavoid pairs``: every verdict, in one order, with the noise beside it when asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import START_NS, observation, run_spans

SECOND = 1_000_000_000


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.chdir(tmp_path)

    def fill(*bodies: bytes) -> None:
        names = []
        for index, body in enumerate(bodies):
            names.append(f"{index}.pb")
            Path(names[-1]).write_bytes(body)
        assert CliRunner().invoke(main, ["ingest", *names]).exit_code == 0

    return fill


def pairs(*options: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(main, ["pairs", "--json", *options])
    assert (done.exit_code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_pair_that_the_configuration_lets_differ_says_in_what(tmp_path: Path) -> None:
    bodies = (
        run_spans(run_id="c", arm="control"),
        run_spans(run_id="k", arm="exact-reuse", turns=1, model="another"),
        observation("c"),
        observation("k"),
    )
    files = [tmp_path / f"{number}.pb" for number in range(len(bodies))]
    for file, body in zip(files, bodies, strict=True):
        file.write_bytes(body)
    config = tmp_path / "turnavoid.yaml"
    config.write_text("processors: {turnavoid: {models: any}}\n")
    ledger = ["--ledger", f"sqlite:///{tmp_path / 'ledger.db'}"]
    ingest = ["ingest", *map(str, files), "--config", str(config), *ledger]
    assert CliRunner().invoke(main, ingest).exit_code == 0

    (row,) = pairs(*ledger)

    assert (row["avoided"], row["comparison"]) == (2, "cross-model")


def test_a_pair_as_json_has_exactly_the_agreed_keys(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=3),
        run_spans(run_id="k", arm="exact-reuse", variant="v2", turns=1, reason="exact-match"),
        observation("c"),
        observation("k", ["order:42=cancelled"]),
    )

    assert pairs() == [
        {
            "control": "c",
            "candidate": "k",
            "arm": "exact-reuse",
            "variant": "v2",
            "mechanism": "exact-reuse",
            "lifecycle": "realized",
            "reason": "exact-match",
            "evidence": "declared",
            "control_turns": 3,
            "candidate_turns": 1,
            "potential": 2,
            "avoided": 0,
            "withheld": 2,
            "added": 0,
            "causes": ["effects-suppressed"],
        }
    ]


def test_pairs_stand_in_the_order_of_their_run_ids(ledger: Callable[..., None]) -> None:
    ledger(
        *(run_spans(run_id=f"c{n}", arm="control", task=f"task {n}") for n in (2, 1)),
        *(run_spans(run_id=f"k{n}", arm="fused-batch", task=f"task {n}") for n in (1, 2)),
        run_spans(run_id="e1", arm="exact-reuse", task="task 1"),
    )

    assert [(pair["control"], pair["candidate"]) for pair in pairs()] == [
        ("c1", "e1"),
        ("c1", "k1"),
        ("c2", "k2"),
    ]


def test_pairs_of_controls_are_listed_only_when_asked_for(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=4),
        run_spans(run_id="c2", arm="control", turns=3, start_ns=START_NS + SECOND),
    )

    assert pairs() == []
    assert pairs("--null") == [{"first": "c", "second": "c2", "avoided": 1, "added": 0}]


def test_the_table_shows_the_same(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=2),
        run_spans(run_id="k", arm="fused-batch", turns=3),
        observation("c"),
        observation("k"),
    )

    heading, _, row = CliRunner().invoke(main, ["pairs"]).stdout.splitlines()

    assert heading.split() == [
        *("control", "candidate", "arm", "variant", "lifecycle"),
        *("turns", "with", "avoided", "withheld", "added", "causes"),
    ]
    assert row.split() == ["c", "k", "fused-batch", "-", "realized", "2", "3", "0", "0", "1"]


def test_a_ledger_without_pairs_says_so(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="c", arm="control"))

    assert CliRunner().invoke(main, ["pairs", "--null"]).stdout == (
        "no pairs decided yet\n\nno pairs of control runs\n"
    )


def test_evidence_that_comes_later_is_shown_and_changes_nothing(
    ledger: Callable[..., None],
) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=3),
        run_spans(run_id="k", arm="fused-batch", turns=2),
        observation("c"),
        observation("k"),
    )
    before = pairs()

    ledger(observation("k", ["order:42=kept"], observer="somebody-else"), observation("c", []))

    assert pairs() == before
    assert CliRunner().invoke(main, ["pairs"]).stdout.splitlines()[-1] == (
        "contradicted: c with k: evidence that came after the verdict speaks against it;"
        " the verdict stays"
    )
