"""Rows to report: credit, the accounts apart, and no dependence on order."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger import (
    NO_OVERHEAD,
    ArmReport,
    EffectObservation,
    Gross,
    Overhead,
    Report,
    RetainedTurnReduction,
    Row,
    empty_report,
    fold,
    replay,
    report_json,
)
from otel_turnavoid.ledger import work as work_of_rows

FileOf = Callable[[Any], bytes]
Rows = list[dict[str, Any]]


@pytest.fixture
def reuse(rows: Rows, file_of: FileOf) -> Callable[..., ArmReport]:
    """The report on the exact-reuse arm, its row changed."""

    def fold_changed(*, strict: bool = False, **changes: Any) -> ArmReport:
        effects = changes.pop("effects", None)
        control_effects = changes.pop("control_effects", None)
        rows[1] |= changes
        if control_effects is not None:
            for row in rows:
                row["required_effect_observation"]["control_required"] = control_effects
                row["required_effect_observation"]["candidate_required"] = control_effects
        if effects is not None:
            rows[1]["required_effect_observation"]["candidate_required"] = effects
        return replay(io.BytesIO(file_of(rows)), strict=strict).arms[1]

    return fold_changed


def turns(arm: ArmReport) -> tuple[int, int, int]:
    return arm.realized_turns_avoided, arm.withheld_turns, arm.turns_added


def test_realized_with_equal_effects_is_avoided(reuse: Callable[..., ArmReport]) -> None:
    arm = reuse()

    assert turns(arm) == (2, 0, 0)
    assert (arm.required_effects_preserved, arm.needed_effects_suppressed) == (2, 0)
    assert arm.honesty_verdict == "HONEST"


@pytest.mark.parametrize(
    "lifecycle", ["opportunity", "attempted", "invalidated", "counterfactual_only", "unknown"]
)
def test_what_is_not_realized_is_withheld(reuse: Callable[..., ArmReport], lifecycle: str) -> None:
    arm = reuse(lifecycle=lifecycle)

    assert turns(arm) == (0, 2, 0)
    assert arm.honesty_verdict == "HONEST_WITHHELD_CREDIT"


def test_a_missing_effect_withholds_and_is_suppressed(reuse: Callable[..., ArmReport]) -> None:
    arm = reuse(effects=["mail:sent"])

    assert turns(arm) == (0, 2, 0)
    assert (arm.required_effects_preserved, arm.needed_effects_suppressed) == (1, 1)


def test_an_effect_beyond_the_control_withholds(reuse: Callable[..., ArmReport]) -> None:
    arm = reuse(effects=["a:bonus", "mail:sent", "order:42=cancelled"])

    assert turns(arm) == (0, 2, 0)
    assert (arm.required_effects_preserved, arm.needed_effects_suppressed) == (2, 0)


def test_a_suppressed_effect_alone_makes_the_verdict(reuse: Callable[..., ArmReport]) -> None:
    arm = reuse(candidate_committed_model_turns=3, effects=["mail:sent"])

    assert turns(arm) == (0, 0, 0)
    assert arm.honesty_verdict == "HONEST_WITHHELD_CREDIT"


def test_added_turns_follow_from_the_other_figures(reuse: Callable[..., ArmReport]) -> None:
    assert turns(reuse(candidate_committed_model_turns=7)) == (0, 0, 4)


def test_without_required_effects_only_strict_withholds(reuse: Callable[..., ArmReport]) -> None:
    loose = reuse(control_effects=[])
    strict = reuse(control_effects=[], strict=True)

    assert (turns(loose), loose.honesty_verdict) == ((2, 0, 0), "HONEST")
    assert (turns(strict), strict.honesty_verdict) == ((0, 2, 0), "HONEST_WITHHELD_CREDIT")
    assert strict.accounting == loose.accounting
    assert strict.required_effects_preserved == loose.required_effects_preserved == 0


def test_a_reduction_is_attribution_and_changes_no_other_figure(
    reuse: Callable[..., ArmReport],
) -> None:
    plain = reuse()
    cheaper = reuse(retained_turn_reduction={"tokens": 128, "latency_ms": 12.5})

    assert cheaper == msgspec.structs.replace(
        plain,
        retained_turns_made_cheaper=1,
        retained_turn_tokens_reduced=128,
        retained_turn_latency_reduced_ms=12.5,
    )


def test_net_is_gross_less_overhead(reuse: Callable[..., ArmReport]) -> None:
    work = reuse().accounting

    assert (work.gross_latency_saved_ms, work.overhead_latency_ms) == (500.0, 20.0)
    assert (work.net_candidate_latency_ms, work.net_latency_saved_ms) == (360.0, 480.0)


def test_the_control_arm_is_its_own_candidate(rows: Rows, file_of: FileOf) -> None:
    control = replay(io.BytesIO(file_of(rows))).arms[0]

    assert turns(control) == (0, 0, 0)
    assert control.accounting.gross_candidate_latency_ms == 840.0
    assert control.accounting.net_latency_saved_ms == 0.0


def test_attribution_is_sorted_and_adds_up(make_input: Callable[..., Rows]) -> None:
    first, second, third = (make_input(unit) for unit in "abc")
    first[1]["mechanism"] = "provider-cache"
    second[1]["reason"] = "unknown"
    report = fold(msgspec.convert(first + second + third, list[Row]))

    parts = report.arms[1].attribution
    assert [(part.mechanism, part.reason) for part in parts] == [
        ("exact-reuse", "exact-match"),
        ("exact-reuse", "unknown"),
        ("provider-cache", "exact-match"),
    ]
    assert sum(part.realized_turns_avoided for part in parts) == 6


def test_rows_made_by_hand_are_held_to_the_rules_of_a_file(rows: Rows) -> None:
    made = msgspec.convert(rows, list[Row])
    made[1] = msgspec.structs.replace(made[1], turn_index=-1)

    with pytest.raises(TraceError, match=r"^row 2: turn_index is -1; 0 or more is wanted$"):
        fold(made)


def test_a_sum_beyond_the_largest_double_is_refused(make_input: Callable[..., Rows]) -> None:
    both = make_input("a") + make_input("b")
    for row in both:
        row["control_gross"]["model_latency_ms"] = 1.7e308
        if row["arm"] == "control":
            row["candidate_gross"] = row["control_gross"]

    with pytest.raises(TraceError, match=r"^the sum of the work is beyond the largest double$"):
        fold(msgspec.convert(both, list[Row]))


def test_the_report_of_nothing_has_every_arm_at_zero() -> None:
    report = empty_report()

    assert (report.rows, report.immutable_inputs, report.honesty_verdict) == (0, 0, "HONEST")
    assert [(arm.arm, arm.decisions, arm.attribution) for arm in report.arms] == [
        ("control", 0, ()),
        ("exact-reuse", 0, ()),
        ("fused-batch", 0, ()),
    ]


def test_the_json_is_the_report_with_a_last_newline(rows: Rows, file_of: FileOf) -> None:
    report = replay(io.BytesIO(file_of(rows)))

    body = report_json(report)

    assert body.startswith(b'{\n  "schema_version": "fak.turnavoid.report/v1",\n')
    assert body.endswith(b"}\n")
    assert msgspec.json.decode(body, type=Report) == report


amounts = st.floats(0, 1e9) | st.sampled_from([0.1, 1e-9, 1e15])
grosses = st.builds(
    Gross,
    model_latency_ms=amounts,
    tool_latency_ms=amounts,
    model_cost_usd=amounts,
    tool_cost_usd=amounts,
)
overheads = st.builds(
    Overhead, **dict.fromkeys(Overhead.__struct_fields__, st.sampled_from([0.0, 0.1, 3e8, 1e-7]))
)
labels = st.sets(st.sampled_from("abc")).map(sorted).map(tuple)


@st.composite
def inputs(draw: st.DrawFn, unit_id: str) -> list[Row]:
    """A valid input with arbitrary candidates."""
    required = draw(labels)
    gross = draw(grosses)
    control = Row(
        schema_version="fak.turnavoid.trace/v1",
        trace_id="trace",
        unit_id=unit_id,
        turn_index=0,
        decision_basis_through_turn=-1,
        input_digest="sha256:" + "0" * 64,
        arm="control",
        mechanism="control",
        lifecycle="realized",
        reason="baseline",
        control_committed_model_turns=(control_turns := draw(st.integers(0, 5))),
        candidate_committed_model_turns=control_turns,
        required_effect_observation=EffectObservation(
            independent_observer="database",
            control_required=required,
            candidate_required=required,
        ),
        control_gross=gross,
        candidate_gross=gross,
        overhead=NO_OVERHEAD,
    )
    candidates = [
        msgspec.structs.replace(
            control,
            arm=arm,
            mechanism=draw(st.sampled_from(["exact-reuse", "provider-cache", "unknown"])),
            lifecycle=draw(st.sampled_from(["realized", "attempted"])),
            reason=draw(st.sampled_from(["exact-match", "unknown"])),
            candidate_committed_model_turns=(kept := draw(st.integers(0, 6))),
            required_effect_observation=msgspec.structs.replace(
                control.required_effect_observation, candidate_required=draw(labels)
            ),
            candidate_gross=draw(grosses),
            overhead=draw(overheads),
            retained_turn_reduction=draw(
                st.none()
                | st.builds(RetainedTurnReduction, tokens=st.integers(1, 9), latency_ms=amounts)
            )
            if kept
            else None,
        )
        for arm in ("exact-reuse", "fused-batch")
    ]
    return [control, *candidates]


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    units = draw(st.integers(1, 5))
    return [row for unit in range(units) for row in draw(inputs(f"unit-{unit}"))]


@given(st.data())
def test_the_report_does_not_depend_on_the_order_of_rows(data: st.DataObject) -> None:
    rows = data.draw(traces())
    shuffled = data.draw(st.permutations(rows))

    assert report_json(fold(shuffled)) == report_json(fold(rows))


@given(traces(), st.integers(1, 3))
def test_the_report_does_not_depend_on_when_numbers_are_reduced(
    rows: list[Row], waiting: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_of_rows, "_WAITING", waiting)
        often = fold(rows)

    assert report_json(often) == report_json(fold(rows))


@given(traces())
def test_work_is_the_exact_sum_rounded_once(rows: list[Row]) -> None:
    for arm in fold(rows).arms:
        mine = [row for row in rows if row.arm == arm.arm]
        control = exact(row.control_gross for row in mine)
        candidate = exact(row.candidate_gross for row in mine)
        overhead = exact(row.overhead for row in mine)
        work = arm.accounting
        assert work.gross_control_latency_ms == float(control)
        assert work.gross_candidate_latency_ms == float(candidate)
        assert work.gross_latency_saved_ms == float(control - candidate)
        assert work.overhead_latency_ms == float(overhead)
        assert work.net_candidate_latency_ms == float(candidate + overhead)
        assert work.net_latency_saved_ms == float(control - candidate - overhead)


def exact(parts: Any) -> Fraction:
    """Return the exact sum of all latencies."""
    return sum(
        (
            Fraction(getattr(part, field))
            for part in parts
            for field in part.__struct_fields__
            if field.endswith("latency_ms")
        ),
        Fraction(),
    )


@given(traces())
def test_turns_are_conserved(rows: list[Row]) -> None:
    for arm in fold(rows).arms:
        potential = sum(
            max(row.control_committed_model_turns - row.candidate_committed_model_turns, 0)
            for row in rows
            if row.arm == arm.arm
        )
        assert arm.realized_turns_avoided + arm.withheld_turns == potential
        assert arm.turns_added == (
            arm.candidate_committed_model_turns - arm.control_committed_model_turns + potential
        )
