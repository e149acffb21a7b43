"""Effects files: the state that a run left, seen by somebody else."""

from __future__ import annotations

import pytest

from otel_turnavoid.conversations import read_record
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.judge.settings import Settings

LINE = {
    "task_id": 7,
    "trial": 1,
    "goal_hash": "g",
    "observed_hash": "g",
    "db_match": True,
    "outputs_ok": True,
    "finished": True,
}


def seen(line):
    found = read_record(line, "effects-runs", 1, Rules(Settings()))
    assert found.facts == []
    [observation] = found.observations
    return observation


def test_an_effects_file_speaks_of_the_runs_in_the_file_of_its_name() -> None:
    assert (seen(LINE).run_id, seen(LINE).labels) == ("runs/7/1", ("task:7=done",))


@pytest.mark.parametrize("lacking", ["db_match", "outputs_ok", "finished"])
def test_a_task_is_not_half_done(lacking: str) -> None:
    assert seen(LINE | {lacking: False}).labels == ()


@pytest.mark.parametrize(
    ("initial", "became"),
    [({}, "done"), ({"initial_hash": "i"}, "done"), ({"initial_hash": "g"}, "unchanged")],
)
def test_a_goal_that_is_the_state_before_is_that_nothing_changes(initial, became: str) -> None:
    assert seen(LINE | initial).labels == (f"task:7={became}",)
