"""Recorded runs of benchmarks: counts, verdicts and pairings as published (``expected.json``)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.judge.run import Run
from otel_turnavoid.store import Ledger

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


BATCHING: Final = tuple(name for name in RUNS if name != "medagentbench-models")
"""Data sets whose responses can ask for several tools; of the other, tool calls are not stated."""
STATES: Final = ("tau-bench-airline-gpt-4o", "tau-bench-retail-preconditions")
"""Data sets with files of the states that runs left."""


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
LOGS: Final = "retail-solo-logs-sample"
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


LINES: Final = (
    *(pairing for pairing in PAIRINGS if pairing.dataset == AGENTS),
    Pairing(LOGS, "sonnet_to_haiku", "run", "sonnet-22", "haiku-22", ("haiku-22", "sonnet-22")),
    Pairing(LOGS, "haiku_to_sonnet", "run", "haiku-22", "sonnet-22", ("haiku-22", "sonnet-22")),
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

    def assembled(self) -> list[Run]:
        """Return every run as the ledger has it: more than the command line shows of it."""
        ledger = Ledger.open(self._ledger, create=False)
        try:
            return [line.run for line in ledger.runs()]
        finally:
            ledger.close()

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
def test_every_run_shows_what_took_place(folder: Path, bench: Bench, dataset: str) -> None:
    """A response is a turn; a log line is none, and neither is the fixed greeting."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {
        row["run_id"]: {
            "turns": row["model_turns"],
            "tool_calls": row.get("tool_calls"),
            "output_tokens": row["tokens"].get("output"),
        }
        for row in bench.rows("runs")
    }
    runs = expected_of(folder, dataset)["runs"]
    assert shown.keys() == runs.keys()
    for name, run in runs.items():
        assert shown[name] == shown[name] | {key: run[key] for key in shown[name] if key in run}


@pytest.mark.parametrize("dataset", RUNS)
def test_totals_are_those_of_the_runs(folder: Path, bench: Bench, dataset: str) -> None:
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    found: dict[str, Counter[str]] = {}
    for row in bench.rows("runs"):
        total = found.setdefault(row["run_id"].split("/")[0], Counter())
        total.update(runs=1, turns=row["model_turns"], tool_calls=row.get("tool_calls") or 0)
    totals = expected_of(folder, dataset)["totals"]
    assert found.keys() == totals.keys()
    for name, total in totals.items():
        counted = ("runs", "turns", *(("tool_calls",) if "tool_calls" in total else ()))
        assert {key: found[name][key] for key in counted} == {key: total[key] for key in counted}


@pytest.mark.parametrize("dataset", BATCHING)
def test_responses_with_several_tool_calls_are_batches(
    folder: Path, bench: Bench, dataset: str
) -> None:
    """As in ``turnavoid.tool_batch.size``."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {run.run_id: sum(batch.size > 1 for batch in run.batches) for run in bench.assembled()}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name: run["batched"] for name, run in runs.items()}


@pytest.mark.parametrize("dataset", RUNS)
def test_models_are_those_that_answered(folder: Path, bench: Bench, dataset: str) -> None:
    """A model that the publisher does not name is none."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {run.run_id: list(run.models) for run in bench.assembled()}
    assert shown == {name: models_of(raw) for name, raw in raw_runs(folder, dataset).items()}


def test_costs_are_those_of_the_responses(folder: Path, bench: Bench) -> None:
    bench.run("ingest", *recorded(folder, AGENTS, RUNS[AGENTS]))

    shown = {run.run_id: run.work.model_usd for run in bench.assembled()}
    runs = expected_of(folder, AGENTS)["runs"]
    assert shown == {name: pytest.approx(run["cost"]) for name, run in runs.items()}


def test_an_explanation_shows_each_tool_call_by_name_and_which_of_them_failed(
    folder: Path, bench: Bench
) -> None:
    bench.run("ingest", *recorded(folder, LOGS, RUNS[LOGS]))

    shown = {}
    for run in bench.assembled():
        [found] = json.loads(bench.run("explain", run.run_id, "--json"))["runs"]
        tools = [entry for entry in found["entries"] if entry["entry"] == "tool_turn"]
        shown[run.run_id] = {
            "tool_calls": len(tools),
            "tool_errors": sum(entry["became"] == "failed" for entry in tools),
            "tool_search_calls": sum(entry["name"] == "ToolSearch" for entry in tools),
            "subagent_calls": sum(entry["name"] in ("Agent", "Task") for entry in tools),
        }
    runs = expected_of(folder, LOGS)["runs"]
    assert shown == {name: {key: run[key] for key in shown[name]} for name, run in runs.items()}


@pytest.mark.parametrize("dataset", RUNS)
def test_a_run_that_did_not_end_on_its_own_terms_is_not_a_short_one(
    folder: Path, bench: Bench, dataset: str
) -> None:
    arms = dict.fromkeys(RUNS[dataset], "control")
    bench.ingest(recorded(folder, dataset, RUNS[dataset]), FILE, arms)

    shown = {row["run_id"] for row in bench.rows("runs") if "run-not-completed" in row["causes"]}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name for name, run in runs.items() if not run["completed"]}


@pytest.mark.parametrize("dataset", RUNS)
def test_success_is_what_somebody_else_says(folder: Path, bench: Bench, dataset: str) -> None:
    """A run that reached its goal has one required effect; any other has none."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]))

    shown = {
        run.run_id: labels_of(run, ("recorded reward", "recorded verdict"))
        for run in bench.assembled()
    }
    runs = expected_of(folder, dataset)["runs"]
    assert {name: bool(labels) for name, labels in shown.items()} == {
        name: run["success"] for name, run in runs.items()
    }


@pytest.mark.parametrize("dataset", STATES)
def test_effects_are_what_the_state_that_was_left_says(
    folder: Path, bench: Bench, dataset: str
) -> None:
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]), *states(folder, dataset))

    shown = {run.run_id: labels_of(run, ("recorded state",)) for run in bench.assembled()}
    runs = expected_of(folder, dataset)["runs"]
    assert shown == {name: goal(run) for name, run in runs.items()}


def goal(run: dict[str, Any]) -> tuple[str, ...]:
    """Return the label of a goal that was reached; of one that changes nothing, that it stayed."""
    became = "unchanged" if run["no_write_required"] else "done"
    return (f"task:{run['task']}={became}",) if run["effects_met"] else ()


def labels_of(run: Run, observers: tuple[str, ...]) -> tuple[str, ...]:
    [labels] = [seen.labels for seen in run.observations if seen.observer in observers]
    return labels


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda each: f"{each.dataset}-{each.name}")
def test_pairs_earn_what_the_labels_bear_out(folder: Path, bench: Bench, pairing: Pairing) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)
    pairs = bench.rows("pairs")
    assert figures(pairs) == told(expected["pairings"][pairing.name])
    assert sorted(map(shown_row, pairs)) == sorted(
        row[1:] for row in expected["pairs"][pairing.name]
    )


@pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda each: f"{each.dataset}-{each.name}")
def test_the_report_says_the_same(folder: Path, bench: Bench, pairing: Pairing) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    report = json.loads(bench.run("report", "--json"))
    [arm] = [arm for arm in report["arms"] if arm["arm"] == REALIZED["arm"]]
    assert {
        "pairs": report["immutable_inputs"],
        "realized_turns": arm["realized_turns_avoided"],
        "withheld_turns": arm["withheld_turns"],
        "signed_turns": arm["control_committed_model_turns"]
        - arm["candidate_committed_model_turns"],
    } == {
        key: expected[key] for key in ("pairs", "realized_turns", "withheld_turns", "signed_turns")
    }


@pytest.mark.parametrize("pairing", PAIRINGS[:4], ids=lambda each: f"{each.dataset}-{each.name}")
def test_the_state_that_was_left_agrees_and_shows_apart_where_nothing_was_asked(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    """Effects files are a second observer of the same runs, who knows the state before."""
    bench.ingest(
        [*recorded(folder, pairing.dataset, pairing.files), *states(folder, pairing.dataset)],
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    pairs = bench.rows("pairs")
    assert figures(pairs) == told(expected)
    apart = sum(pair["avoided"] for pair in pairs if "nothing_asked" in pair)
    assert apart == expected["realized_turns_no_write_required"]
    [line] = [
        line.split()
        for line in bench.run("report").partition("Where nothing was asked")[2].splitlines()
        if line.split()[:1] == [REALIZED["arm"]]
    ][:1]
    assert int(line[2]) == apart


def test_where_actions_are_only_named_nothing_asked_is_known_of_tasks_without_any(
    folder: Path, bench: Bench
) -> None:
    """Whether ``get_user_details`` changes anything its name does not prove; the data set knows."""
    bench.ingest(
        recorded(folder, AGENTS, ("base", "retry")), "run", {"base": "control", "retry": REALIZED}
    )

    pairs = bench.rows("pairs")
    raw = raw_runs(folder, AGENTS)
    assert {pair["control"] for pair in pairs if "nothing_asked" in pair} == {
        pair["control"]
        for pair in pairs
        if raw[pair["control"]]["goal_actions"] == [] and raw[pair["control"]]["reward"] == 1
    }
    expected = expected_of(folder, AGENTS)
    realized = sum(
        pair["avoided"] for pair in pairs if expected["runs"][pair["control"]]["no_write_required"]
    )
    assert realized == expected["pairings"]["base_to_retry"]["realized_turns_no_write_required"]


@pytest.mark.parametrize(
    "pairing", [*PAIRINGS[:4], *LINES[-2:]], ids=lambda each: f"{each.dataset}-{each.name}"
)
def test_two_runs_that_end_in_one_and_the_same_wrong_state_have_no_required_effect(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    bench.ingest(
        [*recorded(folder, pairing.dataset, pairing.files), *states(folder, pairing.dataset)],
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    left = states_left(folder, pairing.dataset)
    same = [
        pair
        for pair in bench.rows("pairs")
        if "no-required-effects" in pair["causes"] and "effects-added" not in pair["causes"]
        if left[pair["control"]] == left[pair["candidate"]]
    ]
    expected = expected_of(folder, pairing.dataset)["pairings"][pairing.name]
    assert sum(pair["avoided"] for pair in same) == 0
    assert sum(pair["withheld"] for pair in same) == (
        expected.get("withheld_turns_both_failed_same_state", 0)
    )


@pytest.mark.parametrize("dataset", STATES)
def test_a_run_that_crashed_has_no_required_effect(
    folder: Path, bench: Bench, dataset: str
) -> None:
    """Even where the state is the wanted one, as after a run that a limit cut off."""
    bench.run("ingest", *recorded(folder, dataset, RUNS[dataset]), *states(folder, dataset))

    runs = expected_of(folder, dataset)["runs"]
    cut = {run.run_id: run for run in bench.assembled() if not runs[run.run_id]["completed"]}
    assert cut
    assert {name: [seen.labels for seen in run.observations] for name, run in cut.items()} == (
        {name: [(), ()] for name in cut}
    )


@pytest.mark.parametrize("pairing", PAIRINGS[2:4], ids=lambda each: each.name)
def test_calls_that_the_record_lacks_can_be_added_to_what_is_shown(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    """Advice by a second model left only its text in the arguments of a tool.

    No content is kept, and a record says nothing of calls beside it: the turns shown are those
    of the record. Who knows of the advice adds it, and finds what the data set states.
    """
    bench.ingest(
        recorded(folder, RETAIL, pairing.files),
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, RETAIL)
    hidden = {name: advice_in(raw) for name, raw in raw_runs(folder, RETAIL).items()}
    shown = {row["run_id"]: row["model_turns"] for row in bench.rows("runs")}
    assert {name: turns + hidden[name] for name, turns in shown.items()} == {
        name: run["turns_with_hidden"] for name, run in expected["runs"].items()
    }
    assert (
        sum(
            max(
                pair["control_turns"]
                + hidden[pair["control"]]
                - pair["candidate_turns"]
                - hidden[pair["candidate"]],
                0,
            )
            for pair in bench.rows("pairs")
            if not pair["causes"]
        )
        == expected["pairings"][pairing.name]["realized_turns_counting_hidden_calls"]
    )


@pytest.mark.parametrize("pairing", LINES, ids=lambda each: f"{each.dataset}-{each.name}")
def test_lines_of_a_log_would_say_something_else(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    """The program shows no lines: counted from the records, for its pairs."""
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)
    lines = {name: lines_in(raw) for name, raw in raw_runs(folder, pairing.dataset).items()}
    assert lines == {name: run["lines"] for name, run in expected["runs"].items()}
    assert (
        sum(
            max(lines[pair["control"]] - lines[pair["candidate"]], 0)
            for pair in bench.rows("pairs")
        )
        == expected["pairings"][pairing.name]["naive_line_turns"]
    )


@pytest.mark.parametrize("pairing", PAIRINGS[:4], ids=lambda each: f"{each.dataset}-{each.name}")
def test_the_task_identifies_the_input_not_what_the_simulated_user_said_first(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {str(pairing.control): "control", str(pairing.candidate): REALIZED},
    )

    expected = expected_of(folder, pairing.dataset)
    visible = {name: run["visible_input_sha256"] for name, run in expected["runs"].items()}
    pairs = bench.rows("pairs")
    stated = expected["pairings"][pairing.name]
    assert len(pairs) == stated["same_input_digest"]
    assert (
        sum(visible[pair["control"]] == visible[pair["candidate"]] for pair in pairs)
        == stated["same_visible_input"]
    )


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


@pytest.mark.parametrize("pairing", LINES[-2:], ids=lambda each: each.name)
def test_what_a_tool_without_that_check_would_report_comes_out_too(
    folder: Path, bench: Bench, pairing: Pairing
) -> None:
    bench.ingest(
        recorded(folder, pairing.dataset, pairing.files),
        pairing.key,
        {pairing.control: "control", pairing.candidate: REALIZED},
        models="any",
    )

    expected = expected_of(folder, pairing.dataset)
    pairs = bench.rows("pairs")
    assert figures(pairs) == told(expected["pairings"][pairing.name])
    assert sorted(map(shown_row, pairs)) == sorted(
        row[1:] for row in expected["pairs"][pairing.name]
    )


MODELS: Final = ("haiku", "sonnet5", "opus5", "fable5", "g35f", "g35fl", "g3fp")


@pytest.mark.parametrize("control", MODELS)
def test_it_comes_out_for_every_two_of_seven_models(
    folder: Path, bench: Bench, control: str
) -> None:
    """Each model once the control of the six others; here records say what was to be written."""
    arms: dict[str, Any] = {
        other: {**REALIZED, "variant": other} for other in MODELS if other != control
    }
    dataset = "medagentbench-models"
    bench.ingest(
        recorded(folder, dataset, ("runs",)), "run", {control: "control", **arms}, models="any"
    )

    pairs = bench.rows("pairs")
    expected = expected_of(folder, dataset)["pairings"]
    for other in arms:
        mine = [pair for pair in pairs if pair["variant"] == other]
        stated = expected[f"{control}_to_{other}"]
        assert figures(mine) == told(stated)
        apart = sum(pair["avoided"] for pair in mine if "nothing_asked" in pair)
        assert apart == stated.get("realized_turns_no_write_required", 0)


FIGURES: Final = (
    "pairs",
    "candidate_fewer",
    "candidate_equal",
    "candidate_more",
    "both_success",
    "both_success_and_completed",
    "same_input_digest",
    "realized_pairs",
    "realized_turns",
    "withheld_pairs",
    "withheld_turns",
    "withheld_turns_both_failed",
    "withheld_turns_control_failed",
    "withheld_turns_candidate_failed",
    "withheld_turns_not_completed",
    "signed_turns",
    "signed_turns_both_success",
    "naive_turns",
)
"""What ``turnavoid pairs`` tells; the other figures need more than that, and a test each."""
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
        found["both_success"] += succeeded(pair)
        found["both_success_and_completed"] += not lacking(pair)
        found["same_input_digest"] += 1
        found["signed_turns_both_success"] += signed * succeeded(pair)
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


def lacking(pair: dict[str, Any]) -> list[str]:
    """Return what speaks against the runs of a pair."""
    return [cause for cause in pair["causes"] if cause in CAUSES]


def succeeded(pair: dict[str, Any]) -> bool:
    return set(lacking(pair)) <= {"run-not-completed"}


def shown_row(pair: dict[str, Any]) -> list[Any]:
    """Return a pair as ``columns`` names its parts, without the task."""
    causes = lacking(pair)
    control = not {"effects-added", "no-required-effects"} & set(causes)
    candidate = not {"effects-suppressed"} & set(causes) and (control or "effects-added" in causes)
    return [
        *(pair[key] for key in ("control", "candidate", "control_turns", "candidate_turns")),
        int(control),
        int(candidate),
        pair["avoided"],
        pair["withheld"],
    ]


def raw_runs(folder: Path, dataset: str) -> dict[str, dict[str, Any]]:
    """Return the records themselves, by the names that their runs have."""
    found = {}
    for name in RUNS[dataset]:
        file = folder / dataset / f"{name}.jsonl.gz"
        for record in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
            trial = [record["trial"]] if "trial" in record else []
            place = (record.get("run", name), record["task_id"], *trial)
            found["/".join(map(str, place))] = record
    return found


def states(folder: Path, dataset: str) -> list[Path]:
    """Return the files of what a run left behind, as somebody else saw it."""
    return sorted((folder / dataset).glob("effects-*.jsonl"))


def states_left(folder: Path, dataset: str) -> dict[str, str]:
    """Return the digest of the state that each run left, from its record or such a file."""
    runs = raw_runs(folder, dataset).items()
    left = {name: raw["observed_hash"] for name, raw in runs if "observed_hash" in raw}
    for file in states(folder, dataset):
        for seen in map(json.loads, file.read_bytes().splitlines()):
            name = file.stem.removeprefix("effects-")
            left[f"{name}/{seen['task_id']}/{seen['trial']}"] = seen["observed_hash"]
    return left


def models_of(raw: dict[str, Any]) -> list[str]:
    named = {event.get("model") for event in raw.get("events", ()) if event.get("k") == "assistant"}
    named = {raw.get("model"), *named} - {None, "none", "unpublished", "<synthetic>"}
    return sorted(named)


def advice_in(raw: dict[str, Any]) -> int:
    """Return the responses that were rewritten to hold another model's advice."""
    return sum(
        call["function"]["name"] == "think"
        and "Here is an external advice" in call["function"]["arguments"]
        for message in raw["messages"]
        for call in message.get("tool_calls") or ()
    )


def lines_in(raw: dict[str, Any]) -> int:
    """Return the lines that the agent wrote into its log."""
    return sum(event["k"] == "assistant" for event in raw["events"])
