"""Every figure of ``docs/experiments.md`` comes from a computation or a run."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import fsum, sqrt
from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy.special import nctdtr, stdtrit

from otel_turnavoid.cli.main import main
from otel_turnavoid.judge.run import Key
from otel_turnavoid.publish.estimate import CONFIDENCE, Difference, estimate

EXPERIMENTS = 10_000
INPUTS = 100
TURNS = (3, 3, 4, 4, 5)
"""Turns of a run of an agent that varies, each as likely as the others."""


@pytest.fixture(scope="module")
def text(page: Callable[[str], str]) -> str:
    return page("experiments.md")


def marked(text: str, name: str) -> str:
    (found,) = re.findall(rf"<!-- {name} -->\n?(.*?)<!-- /{name} -->", text, re.DOTALL)
    return str(found)


def quantile(groups: int) -> float:
    return float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2))


def needed(ratio: float, chance: float) -> int:
    """Return the fewest inputs that show an effect of ``ratio`` spreads with this chance."""
    inputs = 2
    while 1 - nctdtr(inputs - 1, ratio * sqrt(inputs), quantile(inputs)) < chance:
        inputs += 1
    return inputs


def test_the_inputs_needed_are_those_of_the_reports_interval(text: str) -> None:
    rows = re.findall(r"^\| ([\d.]+) \| (\d+) \| (\d+) \|$", marked(text, "inputs"), re.MULTILINE)

    assert len(rows) == 7
    assert [(ratio, int(eighty), int(ninety)) for ratio, eighty, ninety in rows] == [
        (ratio, needed(float(ratio), 0.8), needed(float(ratio), 0.9)) for ratio, *_ in rows
    ]


def test_the_table_keeps_its_promise_for_turns_as_agents_take_them() -> None:
    """An effect of one turn among differences of up to four, in 34 inputs or what it takes."""
    chance = random.Random(7)
    spread = sqrt(2 * _variance(TURNS))
    inputs = needed(1 / spread, 0.8)
    seen = 0
    for _ in range(500):
        differences = [
            Difference(Key("", str(number), "", 0), 1 + draw(chance)) for number in range(inputs)
        ]
        low = estimate(differences).low
        seen += low is not None and low > 0

    assert seen / 500 == pytest.approx(0.8, abs=0.07)


def _variance(values: tuple[int, ...]) -> float:
    mean = fsum(values) / len(values)
    return fsum((each - mean) ** 2 for each in values) / len(values)


def draw(chance: random.Random) -> int:
    """Return by how many turns two equal runs differ."""
    return chance.choice(TURNS) - chance.choice(TURNS)


def shows_an_effect(turns: list[int]) -> Iterator[bool]:
    """Yield, after each input, whether the interval lies on one side of 0."""
    total = squares = 0
    for inputs, each in enumerate(turns, 1):
        total += each
        squares += each * each
        spread = inputs * squares - total * total
        # The interval of the report, for inputs that are paired once: mean over its error.
        yield inputs > 1 and total * total * (inputs - 1) > QUANTILES[inputs] ** 2 * spread > 0


QUANTILES = [0.0, 0.0, *(quantile(inputs) for inputs in range(2, INPUTS + 1))]


def test_the_quick_interval_is_the_reports() -> None:
    chance = random.Random(3)
    for _ in range(50):
        turns = [draw(chance) for _ in range(30)]
        known = [Difference(Key("", str(at), "", 0), each) for at, each in enumerate(turns)]
        slow = [estimate(known[:inputs]).includes_zero is False for inputs in range(1, 31)]

        assert list(shows_an_effect(turns)) == slow


def test_looking_often_finds_what_is_not_there(text: str) -> None:
    chance = random.Random(1)
    once = tenth = each = 0
    for _ in range(EXPERIMENTS):
        shown = list(shows_an_effect([draw(chance) for _ in range(INPUTS)]))
        once += shown[-1]
        tenth += any(shown[9::10])
        each += any(shown[9:])

    assert re.findall(r"\| (\d+)% \|", marked(text, "looks")) == [
        f"{100 * found / EXPERIMENTS:.0f}" for found in (once, tenth, each)
    ]


@pytest.mark.corpus
def test_the_spread_of_the_example_is_that_of_the_recorded_runs(
    text: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = shared / "corpus" / "trajectories" / "tau-bench-airline-gpt-4o" / "runs.jsonl.gz"
    monkeypatch.chdir(tmp_path)
    Path("arms.yaml").write_text(
        'processors: {turnavoid: {accept: [inferred], arms: {trial: {"0": control, "2": control}}}}'
    )
    CliRunner().invoke(main, ["ingest", str(runs), "--config", "arms.yaml"])
    shown = CliRunner().invoke(main, ["report", "--series"]).stdout.splitlines()
    noise = json.loads(shown[-1])["per_pair"]
    half = (noise["high"] - noise["low"]) / 2
    spread = half / quantile(noise["groups"]) * sqrt(noise["groups"])

    assert f"a spread of {spread:.1f} turns" in text
    assert marked(text, "airline") == str(needed(1 / round(spread, 1), 0.8))


def test_the_experiment_ends_as_shown(
    text: str, blocks: Callable[[str], list[tuple[str, str]]], tmp_path: Path
) -> None:
    files = dict(blocks(text))
    (tmp_path / "experiment.py").write_text(files["python experiment.py"])
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TURNAVOID_"))
    }
    python = f'python() {{ "{sys.executable}" "$@"; }}'
    turnavoid = 'turnavoid() { python -m otel_turnavoid "$@"; }'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([python, turnavoid, files["sh"]])],
        cwd=tmp_path,
        env=kept,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr == ""
    assert done.stdout == files["text"]


def test_contents_list_every_section(text: str) -> None:
    listed = re.findall(r"^- \[([^\]]+)\]\(#", text, re.MULTILINE)

    assert listed == re.findall(r"^## (.+)$", text, re.MULTILINE)
