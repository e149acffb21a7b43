"""What the demo expects follows from its scripts; nothing is taken from what it printed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_turnavoid.demo.observer import effects
from otel_turnavoid.demo.scenario import (
    CANDIDATES,
    CONTROLS,
    EXPECTED,
    EXPECTED_FIGURES,
    PLAYS,
    TASKS,
    Play,
    Step,
    Use,
)
from otel_turnavoid.demo.shop import Shop, build
from otel_turnavoid.vocabulary import Arm, Lifecycle, Metric, WithheldCause


def committed(steps: tuple[Step, ...]) -> int:
    return sum((not step.discarded) + committed(step.subagent) for step in steps)


def uses(steps: tuple[Step, ...]) -> Iterator[Use]:
    for step in steps:
        yield from uses(step.subagent)
        yield from step.uses


def outcome(play: Play, folder: Path) -> list[str]:
    before, after = folder / "before.db", folder / f"{play.run_id}.db"
    build(before) if not before.exists() else None
    shutil.copy(before, after)
    with Shop.open(after) as shop:
        for use in uses(play.steps):
            if not use.reused:
                shop.tools[use.tool](**use.arguments)
    return effects(before, after)


def test_every_input_has_a_control_and_every_candidate_a_verdict() -> None:
    assert {play.task for play in CONTROLS} == set(TASKS)
    assert {candidate for _, candidate in EXPECTED} == {play.run_id for play in CANDIDATES}


@pytest.mark.parametrize("ids", EXPECTED, ids=lambda ids: ids[1])
def test_the_expected_turns_are_those_of_the_scripts(ids: tuple[str, str]) -> None:
    control, candidate = (PLAYS[run_id] for run_id in ids)
    expected = EXPECTED[ids]

    assert control.task == candidate.task
    assert expected.control_turns == committed(control.steps)
    assert expected.candidate_turns == committed(candidate.steps)
    difference = expected.control_turns - expected.candidate_turns
    assert expected.avoided + expected.withheld == max(difference, 0)
    assert expected.added == max(-difference, 0)


@pytest.mark.parametrize("ids", EXPECTED, ids=lambda ids: ids[1])
def test_the_expected_cause_is_what_the_shops_show(ids: tuple[str, str], tmp_path: Path) -> None:
    control, candidate = (PLAYS[run_id] for run_id in ids)

    lacking = Counter(outcome(control, tmp_path)) - Counter(outcome(candidate, tmp_path))

    if candidate.lifecycle is not Lifecycle.REALIZED:
        assert EXPECTED[ids].cause is WithheldCause.LIFECYCLE_NOT_REALIZED
    elif lacking:
        assert EXPECTED[ids].cause is WithheldCause.EFFECTS_SUPPRESSED
    else:
        assert EXPECTED[ids].cause is None


@pytest.mark.parametrize("arm", Arm)
def test_the_expected_tool_executions_are_those_of_the_scripts(arm: Arm) -> None:
    paired = {run_id for ids in EXPECTED for run_id in ids}
    executed = sum(
        not use.reused
        for play in PLAYS.values()
        if play.arm is arm and play.run_id in paired
        for use in uses(play.steps)
    )

    assert executed == next(
        figure.value
        for figure in EXPECTED_FIGURES
        if figure.instrument is Metric.TOOLS_EXECUTED and figure.arm is arm
    )


def test_something_is_avoided_withheld_and_added() -> None:
    assert all(
        sum(getattr(verdict, part) for verdict in EXPECTED.values())
        for part in ("avoided", "withheld", "added")
    )
