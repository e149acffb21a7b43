"""Rows and inputs: every rule, broken once, with the words of its refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from otel_turnavoid.ledger import fold, row
from otel_turnavoid.vocabulary import TRACE_V1_MECHANISMS, Arm, Lifecycle, Reason

Refusal = Callable[[Any], tuple[dict[str, Any], str]]
Rows = list[dict[str, Any]]

CONTROL, REUSE, BATCH = range(3)
DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_the_words_of_a_row_are_those_of_the_vocabulary() -> None:
    assert set(row.ArmName.__args__) == {word.value for word in Arm}
    assert set(row.MechanismName.__args__) == {word.value for word in TRACE_V1_MECHANISMS}
    assert set(row.LifecycleName.__args__) == {word.value for word in Lifecycle}
    assert set(row.ReasonName.__args__) == {word.value for word in Reason}


BROKEN_FIELDS = [
    (["schema_version"], "v2", "schema_version is 'v2'; fak.turnavoid.trace/v1 is wanted"),
    (["trace_id"], "", "trace_id is empty; a text is wanted"),
    (["trace_id"], " trace", "trace_id is ' trace'; a text without surrounding space is wanted"),
    (["unit_id"], "", "unit_id is empty; a text is wanted"),
    (["unit_id"], "unit\t", r"unit_id is 'unit\t'; a text without surrounding space is wanted"),
    (["turn_index"], -1, "turn_index is -1; 0 or more is wanted"),
    (
        ["decision_basis_through_turn"],
        -2,
        "decision_basis_through_turn is -2; -1 or more is wanted",
    ),
    (
        ["decision_basis_through_turn"],
        0,
        (
            "decision_basis_through_turn is 0; less than turn_index 0 is wanted, for a decision"
            " must not know its own turn"
        ),
    ),
    *(
        (
            ["input_digest"],
            digest,
            f'input_digest is {digest!r}; "sha256:" and 64 lowercase hex digits are wanted',
        )
        for digest in ("", DIGEST[:-1], DIGEST[:-1] + "g", DIGEST.upper(), DIGEST + "\n")
    ),
    (["arm"], "other", "arm is 'other'; control or exact-reuse or fused-batch is wanted"),
    (
        ["mechanism"],
        "speculation",
        (
            "mechanism is 'speculation'; control or exact-reuse or fused-batch or provider-cache or"
            " unknown is wanted"
        ),
    ),
    (
        ["lifecycle"],
        "Realized",
        (
            "lifecycle is 'Realized'; opportunity or attempted or realized or invalidated or"
            " counterfactual_only or unknown is wanted"
        ),
    ),
    (["reason"], "because", "reason is 'because'; baseline or exact-match or "),
    (
        ["control_committed_model_turns"],
        -1,
        "control_committed_model_turns is -1; 0 or more is wanted",
    ),
    (
        ["candidate_committed_model_turns"],
        -3,
        "candidate_committed_model_turns is -3; 0 or more is wanted",
    ),
    (
        ["required_effect_observation", "independent_observer"],
        "",
        "required_effect_observation.independent_observer is empty; a text is wanted",
    ),
    (
        ["required_effect_observation", "independent_observer"],
        "database ",
        "independent_observer is 'database '; a text without surrounding space is wanted",
    ),
    (
        ["required_effect_observation", "control_required"],
        ["", "b"],
        (
            "required_effect_observation.control_required[0] is empty; labels that are not empty"
            " are wanted"
        ),
    ),
    (
        ["required_effect_observation", "control_required"],
        ["b", "a"],
        "control_required holds 'a' after 'b'; sorted and unique labels are wanted",
    ),
    (
        ["required_effect_observation", "candidate_required"],
        ["a", "a"],
        "candidate_required holds 'a' twice; sorted and unique labels are wanted",
    ),
    (
        ["required_effect_observation", "candidate_required"],
        ["a "],
        "candidate_required holds 'a '; labels without surrounding space are wanted",
    ),
    (
        ["control_gross", "model_latency_ms"],
        -0.5,
        "control_gross.model_latency_ms is -0.5; 0 or more is wanted",
    ),
    (
        ["candidate_gross", "tool_cost_usd"],
        -1,
        "candidate_gross.tool_cost_usd is -1; 0 or more is wanted",
    ),
    (["overhead", "retry_cost_usd"], -1, "overhead.retry_cost_usd is -1; 0 or more is wanted"),
    (
        ["retained_turn_reduction"],
        {"tokens": -1, "latency_ms": 0},
        "retained_turn_reduction.tokens is -1; 0 or more is wanted",
    ),
    (
        ["retained_turn_reduction"],
        {"tokens": 0, "latency_ms": 0},
        "retained_turn_reduction is zero in both fields; a reduction is wanted",
    ),
    (["mechanism"], "control", "mechanism is control in arm exact-reuse; only the control arm"),
]


@pytest.mark.parametrize(("path", "value", "problem"), BROKEN_FIELDS)
def test_a_row_that_breaks_a_rule_is_refused_by_its_number(
    rows: Rows, refusal: Refusal, path: list[str], value: Any, problem: str
) -> None:
    holder = rows[REUSE]
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value

    at, message = refusal(rows)

    assert at == {"row": 2}
    assert message.startswith(f"row 2: {problem}")


def test_a_reduction_needs_a_kept_turn(rows: Rows, refusal: Refusal) -> None:
    rows[REUSE]["candidate_committed_model_turns"] = 0
    rows[REUSE]["retained_turn_reduction"] = {"tokens": 128, "latency_ms": 0}

    assert refusal(rows) == (
        {"row": 2},
        "row 2: retained_turn_reduction stands beside no candidate turn; one is wanted at least",
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"mechanism": "unknown"},
            "the control arm is unknown, realized, baseline; control, realized, baseline is wanted",
        ),
        (
            {"lifecycle": "unknown"},
            "the control arm is control, unknown, baseline; control, realized, baseline is wanted",
        ),
        (
            {"reason": "unknown"},
            "the control arm is control, realized, unknown; control, realized, baseline is wanted",
        ),
        (
            {"candidate_committed_model_turns": 2},
            (
                "candidate_committed_model_turns differs from the control's; the control arm is its"
                " own candidate"
            ),
        ),
        (
            {"candidate_gross": dict.fromkeys(row.Gross.__struct_fields__, 1)},
            "candidate_gross differs from the control's; the control arm is its own candidate",
        ),
        (
            {
                "required_effect_observation": {
                    "independent_observer": "database",
                    "control_required": ["a"],
                    "candidate_required": [],
                }
            },
            "candidate_required differs from the control's; the control arm is its own candidate",
        ),
        (
            {"overhead": dict.fromkeys(row.Overhead.__struct_fields__, 1)},
            "the control arm has overhead; none is wanted",
        ),
        (
            {"retained_turn_reduction": {"tokens": 1, "latency_ms": 0}},
            "the control arm has retained_turn_reduction; none is wanted",
        ),
    ],
)
def test_a_control_row_is_its_own_candidate(
    rows: Rows, refusal: Refusal, changes: dict[str, Any], problem: str
) -> None:
    rows[CONTROL] |= changes

    assert refusal(rows) == ({"row": 1}, f"row 1: {problem}")


def test_turn_indexes_increase_within_trace_unit_and_arm(
    make_input: Callable[..., Rows], refusal: Refusal
) -> None:
    assert refusal(make_input(turn_index=3) + make_input(turn_index=2)) == (
        {"row": 4},
        (
            "row 4: turn_index 2 comes after 3 in trace trace, unit unit, arm control; increasing"
            " turns are wanted"
        ),
    )


def test_units_and_arms_have_their_own_order(make_input: Callable[..., Rows]) -> None:
    first, second = make_input("unit", 1), make_input("unit", 2)
    other = make_input("other", 0)
    order = [first[0], second[0], other[0], first[1], other[1], second[1], *other[2:], first[2]]

    rows = [as_row(one) for one in [*order, second[2]]]

    assert fold(rows).immutable_inputs == 3


def as_row(value: dict[str, Any]) -> row.Row:
    return msgspec.convert(value, row.Row)


def test_an_arm_twice_is_refused(rows: Rows, refusal: Refusal) -> None:
    at, message = refusal([*rows[:2], rows[1], rows[2]])

    assert at == {"row": 3}
    assert "turn_index 0 comes after 0" in message


def test_an_arm_again_after_its_input_was_whole_is_refused(rows: Rows, refusal: Refusal) -> None:
    assert refusal([*rows, rows[2]])[0] == {"row": 4}


@pytest.mark.parametrize("missing", [CONTROL, REUSE, BATCH])
def test_an_input_without_one_of_its_arms_is_refused_by_its_key(
    rows: Rows, refusal: Refusal, missing: int
) -> None:
    arm = rows.pop(missing)["arm"]

    assert refusal(rows) == (
        {"trace_id": "trace", "unit_id": "unit", "turn_index": 0},
        (
            f"trace_id trace, unit_id unit, turn_index 0: has no row for {arm}; each input needs"
            " its three arms"
        ),
    )


@pytest.mark.parametrize("arm", [REUSE, BATCH])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["input_digest"], "sha256:" + "f" * 64),
        (["decision_basis_through_turn"], 1),
        (["control_committed_model_turns"], 4),
        (["control_gross", "model_cost_usd"], 0.25),
        (["required_effect_observation", "independent_observer"], "mailbox"),
        (["required_effect_observation", "control_required"], ["mail:sent"]),
    ],
)
def test_arms_that_disagree_are_refused_by_the_key_of_their_input(
    make_input: Callable[..., Rows], refusal: Refusal, arm: int, path: list[str], value: Any
) -> None:
    rows = make_input(turn_index=5)
    holder = rows[arm]
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    field = "control_gross" if "control_gross" in path else path[-1]

    assert refusal(rows) == (
        {"trace_id": "trace", "unit_id": "unit", "turn_index": 5},
        (
            f"trace_id trace, unit_id unit, turn_index 5: {field} differs between the arms control"
            f" and {rows[arm]['arm']}; the same is wanted"
        ),
    )


def test_a_disagreement_does_not_hide_what_is_wrong_with_the_row(
    rows: Rows, refusal: Refusal
) -> None:
    rows[REUSE]["input_digest"] = "sha256:short"

    assert refusal(rows)[0] == {"row": 2}


def test_of_several_bad_inputs_the_first_by_key_is_named(
    make_input: Callable[..., Rows], refusal: Refusal
) -> None:
    late, early = make_input("b"), make_input("a", 7)
    late[1]["input_digest"] = "sha256:" + "f" * 64

    assert refusal([*late, *early[:2]])[0] == {
        "trace_id": "trace",
        "unit_id": "a",
        "turn_index": 7,
    }


def test_a_message_does_not_repeat_an_endless_value(rows: Rows, refusal: Refusal) -> None:
    rows[REUSE]["input_digest"] = "x" * 10_000

    assert refusal(rows)[1] == (
        f"row 2: input_digest is '{'x' * 80}'…; \"sha256:\" and 64 lowercase hex digits are wanted"
    )
