"""What a reader takes away from runs between which nothing was changed: no effect."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner
from scipy.stats import ttest_1samp

from otel_turnavoid.cli.main import main

pytestmark = pytest.mark.corpus

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "reading-reports.md"
DATASET: Final = "tau-bench-airline-gpt-4o"
CANDIDATE: Final = {
    "arm": "exact-reuse",
    "mechanism": "exact-reuse",
    "lifecycle": "realized",
    "reason": "exact-match",
}
TASKS: Final = range(50)


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "corpus" / "trajectories" / DATASET


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "expected.json").read_bytes())


@pytest.fixture
def report(folder: Path, tmp_path: Path) -> Any:
    """Report on the trials, the given ones as controls and as candidates."""

    def made(controls: tuple[int, ...], candidates: tuple[int, ...], *options: str) -> str:
        name = "-".join(map(str, (*controls, *candidates)))
        ledger = ("--ledger", f"sqlite:///{tmp_path / name}.db")
        if not (tmp_path / f"{name}.db").exists():
            arms = dict.fromkeys(map(str, controls), "control")
            arms |= dict.fromkeys(map(str, candidates), CANDIDATE)
            judging = {"accept": ["declared", "inferred"], "arms": {"trial": arms}}
            config = tmp_path / f"{name}.yaml"
            config.write_text(yaml.safe_dump({"processors": {"turnavoid": judging}}))
            runs = folder / "runs.jsonl.gz"
            run("ingest", str(runs), "--config", str(config), *ledger)
        return run("report", *options, *ledger)

    return made


def run(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def said(text: str) -> str:
    """Return a text without its line breaks."""
    return re.sub(r"\s+", " ", text)


def differences(expected: dict[str, Any], control: int, candidate: int) -> list[int]:
    """Return the signed turns of the pairs in which both runs completed and succeeded."""
    runs = expected["runs"]
    pairs = ((runs[f"runs/{task}/{control}"], runs[f"runs/{task}/{candidate}"]) for task in TASKS)
    return [
        one["turns"] - other["turns"]
        for one, other in pairs
        if all(each["success"] and each["completed"] for each in (one, other))
    ]


@pytest.mark.parametrize(("control", "candidate"), list(combinations(range(4), 2)))
def test_no_effect_is_seen_between_any_two_trials(
    report: Any, expected: dict[str, Any], control: int, candidate: int
) -> None:
    (line,) = report((control,), (candidate,), "--series").splitlines()
    found = json.loads(line)

    turns = differences(expected, control, candidate)
    told = ttest_1samp(turns, 0).confidence_interval(0.95)
    assert found["finding"] == "no-effect-seen"
    assert found["pairs"] == 50
    assert found["avoided"] == sum(max(each, 0) for each in turns)
    assert found["per_pair"] == {
        "pairs": len(turns),
        "groups": len(turns),
        "mean": pytest.approx(sum(turns) / len(turns), abs=1e-6),
        "low": pytest.approx(told.low, abs=1e-6),
        "high": pytest.approx(told.high, abs=1e-6),
        "confidence": 0.95,
        "no_interval": None,
    }


def test_the_text_says_no_effect_beside_the_counts(report: Any, expected: dict[str, Any]) -> None:
    text = said(report((0,), (1,)))

    told = expected["pairings"]["trial0_trial1"]
    added = told["naive_turns"] - told["signed_turns"]
    assert (
        f"50 pairs: {told['realized_turns']} avoided, {added} added,"
        f" net {told['realized_turns'] - added}; {told['withheld_turns']} withheld."
    ) in text
    assert "No effect seen: +0.17 turns saved per pair, and the 95% interval, " in text
    assert "includes 0." in text
    assert "38 of 50 pairs (76%) with a cause to withhold are not in the mean" in text


def test_trials_paired_twice_are_50_tasks_and_not_100(
    report: Any, expected: dict[str, Any]
) -> None:
    pairs, null = map(json.loads, report((0, 2), (1, 3), "--series").splitlines())

    by_trials = [expected["pairings"][name] for name in ("trial0_trial1", "trial2_trial3")]
    assert pairs["pairs"] == 100
    assert pairs["avoided"] == sum(each["realized_turns"] for each in by_trials)
    assert pairs["per_pair"]["pairs"] == sum(
        each["both_success_and_completed"] for each in by_trials
    )
    assert pairs["per_pair"]["groups"] < pairs["per_pair"]["pairs"]
    assert pairs["finding"] == "no-effect-seen"
    assert null["pairs"] == sum(
        all(expected["runs"][f"runs/{task}/{trial}"]["completed"] for trial in (0, 2))
        for task in TASKS
    )


def test_the_text_holds_the_credit_against_the_noise(report: Any) -> None:
    text = said(report((0, 2), (1, 3)))

    assert "No effect seen" in text
    assert 'By chance, equal controls (48 pairs) "avoid" 2.33 turns per pair' in text
    assert "not above that." in text


def test_the_example_in_the_documentation_is_what_the_report_says(report: Any) -> None:
    (shown,) = re.findall(r"```text\n(.*?)\n```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)

    assert shown in report((0, 2), (1, 3))


def test_the_page_says_so_too(report: Any, tmp_path: Path) -> None:
    report((0,), (1,), "--html", str(tmp_path / "report.html"))

    assert "No effect seen" in (tmp_path / "report.html").read_text(encoding="utf-8")
