"""Recorded runs of benchmarks: counts, verdicts and pairings as published (``expected.json``)."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main

pytestmark = pytest.mark.corpus

REALIZED: Final = {
    "arm": "exact-reuse",
    "mechanism": "exact-reuse",
    "lifecycle": "realized",
    "reason": "exact-match",
}
RUNS: Final = {
    "tau-bench-airline-gpt-4o": ("runs",),
    "tau-bench-retail-preconditions": ("control", "candidate"),
    "tau2-airline-agents": ("base", "retry", "context", "enhanced"),
    "retail-solo-logs-sample": ("haiku-22", "sonnet-22"),
    "medagentbench-models": ("runs",),
}
"""Data set -> files of runs."""


class Pairing(NamedTuple):
    """Which files are paired by which value, and how the data set calls that."""

    dataset: str
    name: str
    key: str
    control: str
    candidate: str
    files: tuple[str, ...]


FILE: Final = "conversation.file"
AGENTS: Final = "tau2-airline-agents"
RETAIL: Final = "tau-bench-retail-preconditions"
PAIRINGS: Final = (
    *(
        Pairing("tau-bench-airline-gpt-4o", f"trial{i}_trial{i + 1}", "trial", i, i + 1, ("runs",))
        for i in (0, 2)
    ),
    Pairing(RETAIL, "control_candidate", FILE, "control", "candidate", ("control", "candidate")),
    Pairing(RETAIL, "reversed", FILE, "candidate", "control", ("control", "candidate")),
    *(
        Pairing(AGENTS, f"{one}_to_{two}", "run", one, two, (one, two))
        for other in ("retry", "context", "enhanced")
        for one, two in (("base", other), (other, "base"))
    ),
)


class Bench:
    """A fresh ledger and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ledger = f"sqlite:///{folder / 'ledger.db'}"

    def run(self, command: str, *arguments: str | Path) -> str:
        given = [command, *map(str, arguments), "--ledger", self._ledger]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def rows(self, command: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(command, "--json").splitlines()]

    def ingest(self, files: list[Path], key: str, arms: dict[Any, Any], **judging: Any) -> None:
        config = self.folder / "turnavoid.yaml"
        settings = {"accept": ["declared", "inferred"], "arms": {key: arms}, **judging}
        config.write_text(yaml.safe_dump({"processors": {"turnavoid": settings}}))
        self.run("ingest", *files, "--config", config)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def folder(shared: Path) -> Path:
    return shared / "corpus" / "trajectories"


def expected_of(folder: Path, dataset: str) -> dict[str, Any]:
    return json.loads((folder / dataset / "expected.json").read_bytes())


def recorded(folder: Path, dataset: str, names: tuple[str, ...]) -> list[Path]:
    return [folder / dataset / f"{name}.jsonl.gz" for name in names]


@pytest.mark.parametrize("dataset", RUNS)
def test_a_response_is_a_turn_in_every_run(folder: Path, bench: Bench, dataset: str) -> None:
    """A log line is none, and neither is the fixed greeting."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {row["run_id"]: row["model_turns"] for row in bench.rows("runs")}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name: run["turns"] for name, run in runs.items()}


@pytest.mark.parametrize("dataset", [name for name in RUNS if name != "medagentbench-models"])
def test_every_tool_call_is_counted(folder: Path, bench: Bench, dataset: str) -> None:
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {row["run_id"]: row["tool_calls"] for row in bench.rows("runs")}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name: run["tool_calls"] for name, run in runs.items()}


@pytest.mark.parametrize("dataset", ["retail-solo-logs-sample", "tau2-airline-agents"])
def test_output_tokens_are_those_of_the_responses(folder: Path, bench: Bench, dataset: str) -> None:
    """Of a response spread over lines the last figure is right, of the greeting there is none."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {row["run_id"]: row["tokens"]["output"] for row in bench.rows("runs")}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name: run["output_tokens"] for name, run in runs.items()}


@pytest.mark.parametrize("dataset", RUNS)
def test_a_run_that_did_not_end_on_its_own_terms_is_not_a_short_one(
    folder: Path, bench: Bench, dataset: str
) -> None:
    arms = dict.fromkeys(RUNS[dataset], "control")
    bench.ingest(recorded(folder, dataset, RUNS[dataset]), FILE, arms)

    shown = {row["run_id"] for row in bench.rows("runs") if "run-not-completed" in row["causes"]}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name for name, run in runs.items() if not run["completed"]}


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda each: f"{each.dataset}-{each.name}")
def test_pairs_earn_what_the_labels_bear_out(folder: Path, bench: Bench, pairing: Pairing) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    assert figures(bench.rows("pairs")) == told(expected)


@pytest.mark.parametrize("pairing", PAIRINGS[:4], ids=lambda each: f"{each.dataset}-{each.name}")
def test_the_state_that_was_left_agrees_with_the_labels(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    """Effects files are a second observer of the same runs."""
    effects = [folder / pairing.dataset / f"effects-{name}.jsonl" for name in pairing.files]
    bench.ingest(
        [*recorded(folder, pairing.dataset, pairing.files), *effects],
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    assert figures(bench.rows("pairs")) == told(expected)


def test_equal_runs_paired_both_ways_earn_the_noise_floor(folder: Path, tmp_path: Path) -> None:
    """Nothing was changed between these trials: what is credited is chance."""
    found: Counter[str] = Counter()
    for one, two in permutations(map(str, range(4)), 2):
        place = tmp_path / f"{one}-{two}"
        place.mkdir()
        bench = Bench(place)
        files = recorded(folder, "tau-bench-airline-gpt-4o", ("runs",))
        bench.ingest(files, "trial", {one: "control", two: REALIZED})
        found.update(figures(bench.rows("pairs")))

    expected = expected_of(folder, "tau-bench-airline-gpt-4o")["pairings"]["all_ordered_pairs"]
    assert {key: found[key] for key in FIGURES} == told(expected)


CROSS_MODEL: Final = (
    Pairing("retail-solo-logs-sample", "sonnet_to_haiku", "run", "sonnet-22", "haiku-22",
            ("haiku-22", "sonnet-22")),
    Pairing("medagentbench-models", "haiku_to_g35fl", "run", "haiku", "g35fl", ("runs",)),
)  # fmt: skip


@pytest.mark.parametrize("pairing", CROSS_MODEL, ids=lambda each: each.dataset)
def test_runs_of_two_models_earn_nothing(folder: Path, bench: Bench, pairing: Pairing) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {pairing.control: "control", pairing.candidate: REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    pairs = bench.rows("pairs")
    assert len(pairs) == expected["pairs"]
    assert all("model-mismatch" in pair["causes"] for pair in pairs)
    assert sum(pair["avoided"] for pair in pairs) == 0
    assert sum(pair["withheld"] for pair in pairs) == expected["naive_turns"]


@pytest.mark.parametrize("pairing", CROSS_MODEL, ids=lambda each: each.dataset)
def test_what_a_tool_without_that_check_would_report_comes_out_too(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {pairing.control: "control", pairing.candidate: REALIZED},
        models="any",
    )

    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    assert figures(bench.rows("pairs")) == told(expected)


FIGURES: Final = (
    "pairs",
    "candidate_fewer",
    "candidate_equal",
    "candidate_more",
    "both_success_and_completed",
    "realized_pairs",
    "realized_turns",
    "withheld_pairs",
    "withheld_turns",
    "withheld_turns_both_failed",
    "withheld_turns_control_failed",
    "withheld_turns_candidate_failed",
    "withheld_turns_not_completed",
    "signed_turns",
    "naive_turns",
)
CAUSES: Final = {
    "effects-added": "control_failed",
    "effects-suppressed": "candidate_failed",
    "no-required-effects": "both_failed",
    "run-not-completed": "not_completed",
}
"""Cause of ours -> what the data sets call it; of several, the first counts."""


def told(expected: dict[str, Any]) -> dict[str, int]:
    return {key: expected.get(key, 0) for key in FIGURES}


def figures(pairs: list[dict[str, Any]]) -> dict[str, int]:
    """Return the figures of ``expected.json`` from the pairs as shown."""
    found: Counter[str] = Counter()
    for pair in pairs:
        signed = pair["control_turns"] - pair["candidate_turns"]
        found["pairs"] += 1
        found["candidate_fewer"] += signed > 0
        found["candidate_equal"] += signed == 0
        found["candidate_more"] += signed < 0
        found["both_success_and_completed"] += not pair["causes"]
        found["realized_pairs"] += pair["avoided"] > 0
        found["realized_turns"] += pair["avoided"]
        found["withheld_pairs"] += pair["withheld"] > 0
        found["withheld_turns"] += pair["withheld"]
        found["signed_turns"] += signed
        found["naive_turns"] += max(signed, 0)
        reason = next((name for cause, name in CAUSES.items() if cause in pair["causes"]), None)
        if reason is not None:
            found[f"withheld_turns_{reason}"] += pair["withheld"]
    return {key: found[key] for key in FIGURES}
