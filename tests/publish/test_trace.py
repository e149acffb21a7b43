"""Pairs as trace/v1 rows: names, what v1 cannot express, and the same figures after a fold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.judge.facts import Observation, Retained, Usage
from otel_turnavoid.judge.judging import judge
from otel_turnavoid.judge.run import Key, Run, Work
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.ledger import NO_OVERHEAD, Gross, RetainedTurnReduction, Row, fold
from otel_turnavoid.publish.trace import beyond_v1, trace_rows
from otel_turnavoid.vocabulary import (
    CANDIDATE_ARMS,
    Arm,
    Evidence,
    InvokeState,
    Lifecycle,
    Mechanism,
    Reason,
    WithheldCause,
)

DIGESTS = tuple("sha256:" + digit * 64 for digit in "1a")
EFFECT = "order:42=cancelled"


def run(run_id: str = "control-1", **changes: object) -> Run:
    """A completed control run of three turns whose one effect was seen."""
    whole = Run(
        run_id=run_id,
        evidence=Evidence.DECLARED,
        arm=Arm.CONTROL,
        variant=None,
        key=Key("experiment", DIGESTS[0], "unit", 0),
        ended=True,
        state=InvokeState.COMPLETED,
        start_ns=1,
        end_ns=2,
        mechanism=Mechanism.CONTROL,
        lifecycle=Lifecycle.REALIZED,
        reason=Reason.BASELINE,
        decision_basis=-1,
        model_turns=3,
        llm_calls=3,
        tool_calls=1,
        usage=Usage(),
        rejections=(),
        causes=(),
        problems=(),
        models=("model-1",),
        scopes=("scope-1",),
        identities=(("agent", "1"),),
        observations=(seen(run_id),),
        work=Work(model_ms=900.0, tool_ms=90.0, model_usd=0.03),
        retained=None,
        batches=(),
        speculation=(),
        agent=None,
        trace_ids=(),
    )
    return msgspec.structs.replace(whole, **changes)


def candidate(run_id: str = "candidate-1", **changes: object) -> Run:
    """A realized exact reuse of one turn, with the control's effect."""
    reuse = {
        "arm": Arm.EXACT_REUSE,
        "mechanism": Mechanism.EXACT_REUSE,
        "reason": Reason.EXACT_MATCH,
        "model_turns": 1,
        "work": Work(model_ms=300.0, validation_ms=20.0, model_usd=0.01),
    }
    return run(run_id, **(reuse | changes))


def seen(run_id: str, *labels: str, observer: str = "database") -> Observation:
    return Observation(
        run_id=run_id,
        observer=observer,
        labels=labels or (EFFECT,),
        observed_ns=2,
        service="observer",
        instance="1",
    )


def decided(control: Run, other: Run) -> PairDecided:
    return judge(control, other, Settings())


def units(rows: list[Row]) -> list[str]:
    """The unit ids, once for each input."""
    assert [row.arm for row in rows] == ["control", "exact-reuse", "fused-batch"] * (len(rows) // 3)
    return [row.unit_id for row in rows[::3]]


def test_a_pair_becomes_one_input_with_the_other_arm_as_an_unused_opportunity() -> None:
    control, reuse, fused = trace_rows([decided(run(), candidate())])

    assert control == Row(
        schema_version="fak.turnavoid.trace/v1",
        trace_id="experiment",
        unit_id="unit",
        turn_index=0,
        decision_basis_through_turn=-1,
        input_digest=DIGESTS[0],
        arm="control",
        mechanism="control",
        lifecycle="realized",
        reason="baseline",
        control_committed_model_turns=3,
        candidate_committed_model_turns=3,
        required_effect_observation=control.required_effect_observation,
        control_gross=control.control_gross,
        candidate_gross=control.control_gross,
        overhead=NO_OVERHEAD,
    )
    assert msgspec.to_builtins(control.required_effect_observation) == {
        "independent_observer": "database",
        "control_required": (EFFECT,),
        "candidate_required": (EFFECT,),
    }
    assert control.control_gross == Gross(
        model_latency_ms=900.0, tool_latency_ms=90.0, model_cost_usd=0.03, tool_cost_usd=0.0
    )
    assert reuse == msgspec.structs.replace(
        control,
        arm="exact-reuse",
        mechanism="exact-reuse",
        reason="exact-match",
        candidate_committed_model_turns=1,
        candidate_gross=Gross(
            model_latency_ms=300.0, tool_latency_ms=0.0, model_cost_usd=0.01, tool_cost_usd=0.0
        ),
        overhead=msgspec.structs.replace(NO_OVERHEAD, validation_latency_ms=20.0),
    )
    assert fused == msgspec.structs.replace(
        control,
        arm="fused-batch",
        mechanism="fused-batch",
        lifecycle="opportunity",
        reason="not-applicable",
    )


def test_both_arms_of_one_control_share_an_input() -> None:
    control = run()
    rows = trace_rows(
        [
            decided(control, candidate("reuse")),
            decided(control, candidate("fused", arm=Arm.FUSED_BATCH, model_turns=2)),
        ]
    )

    assert [row.candidate_committed_model_turns for row in rows] == [3, 1, 2]


def test_without_experiment_and_unit_the_names_are_default_and_the_digest() -> None:
    bare = {"key": Key("", DIGESTS[0], "", 4)}
    rows = trace_rows([decided(run(**bare), candidate(**bare))])

    assert {(row.trace_id, row.unit_id, row.turn_index) for row in rows} == {
        ("default", DIGESTS[0], 4)
    }


def test_the_second_control_by_start_is_numbered() -> None:
    rows = trace_rows(
        [
            decided(run("a", start_ns=30), candidate("x")),
            decided(run("b", start_ns=10), candidate("y")),
            decided(run("c", start_ns=20), candidate("z")),
        ]
    )

    assert units(rows) == ["unit", "unit/2", "unit/3"]


def test_variants_are_appended_only_where_one_control_met_several() -> None:
    first, second = run("first", start_ns=1), run("second", start_ns=2)
    rows = trace_rows(
        [
            decided(first, candidate("x", variant="small")),
            decided(first, candidate("y", variant="large")),
            decided(second, candidate("z", variant="small")),
        ]
    )

    assert units(rows) == ["unit/2", "unit/large", "unit/small"]


def test_a_unit_that_looks_numbered_keeps_its_own_name() -> None:
    other = {"key": Key("experiment", DIGESTS[0], "unit/2", 0)}
    rows = trace_rows(
        [
            decided(run("a", start_ns=1), candidate("x")),
            decided(run("b", start_ns=2, model_turns=9), candidate("y")),
            decided(run("c", **other), candidate("z", **other)),
        ]
    )

    assert {row.unit_id: row.control_committed_model_turns for row in rows} == {
        "unit": 3,
        "unit/2": 3,
        "unit/2/2": 9,
    }


def test_pairs_of_one_control_with_different_observers_are_inputs_of_their_own() -> None:
    control = run(observations=(seen("c", observer="a"), seen("c", observer="b")))
    rows = trace_rows(
        [
            decided(control, candidate("x", observations=(seen("x", observer="a"),))),
            decided(
                control,
                candidate("y", arm=Arm.FUSED_BATCH, observations=(seen("y", observer="b"),)),
            ),
        ]
    )

    assert units(rows) == ["unit", "unit/2"]
    assert [row.required_effect_observation.independent_observer for row in rows[::3]] == ["a", "b"]


def test_an_unobserved_pair_has_no_effects_and_earns_nothing() -> None:
    rows = trace_rows([decided(run(observations=()), candidate(observations=()))])

    assert {row.required_effect_observation.independent_observer for row in rows} == {"unobserved"}
    assert {row.required_effect_observation.control_required for row in rows} == {()}
    assert rows[1].lifecycle == "unknown"
    assert fold(rows).arms[1].withheld_turns == 2


def test_a_cause_that_v1_cannot_express_makes_a_realized_lifecycle_unknown() -> None:
    rows = trace_rows([decided(run(), candidate(models=("model-2",)))])

    assert rows[1].lifecycle == "unknown"
    assert rows[1].candidate_committed_model_turns == 1


def test_causes_that_v1_shows_by_itself_leave_the_lifecycle() -> None:
    suppressed = decided(run(), candidate(observations=(seen("x", "another"),)))
    attempted = decided(run(), candidate(lifecycle=Lifecycle.ATTEMPTED))

    assert suppressed.causes == (WithheldCause.EFFECTS_SUPPRESSED, WithheldCause.EFFECTS_ADDED)
    assert trace_rows([suppressed])[1].lifecycle == "realized"
    assert trace_rows([attempted])[1].lifecycle == "attempted"


def test_a_repeated_effect_is_another_label() -> None:
    rows = trace_rows([decided(run(), candidate(observations=(seen("x", EFFECT, EFFECT),)))])

    assert rows[1].required_effect_observation.candidate_required == (EFFECT, f"{EFFECT}#2")


def test_unknown_turns_avoid_and_withhold_nothing() -> None:
    rows = trace_rows([decided(run(), candidate(model_turns=None))])

    assert rows[1].lifecycle == "unknown"
    assert fold(rows).arms[1].withheld_turns == 0


def test_a_mechanism_that_v1_does_not_know_becomes_unknown_and_is_told() -> None:
    pair = decided(run(), candidate(mechanism=Mechanism.SEMANTIC_REUSE))

    assert trace_rows([pair])[1].mechanism == "unknown"
    assert beyond_v1([pair]) == {Mechanism.SEMANTIC_REUSE: 1}


def test_a_candidate_that_claims_the_control_mechanism_becomes_unknown() -> None:
    assert trace_rows([decided(run(), candidate(mechanism=Mechanism.CONTROL))])[1].mechanism == (
        "unknown"
    )


@pytest.mark.parametrize(
    ("retained", "turns", "row"),
    [
        (Retained(128, 5.0), 3, RetainedTurnReduction(tokens=128, latency_ms=5.0)),
        (Retained(2**64, 5.0), 3, RetainedTurnReduction(tokens=2**63 - 1, latency_ms=5.0)),
        (Retained(128, 5.0), 0, None),
        (Retained(0, 0.0), 3, None),
        (None, 3, None),
    ],
)
def test_retained_attribution_needs_a_kept_turn_and_a_reduction(
    retained: Retained | None, turns: int, row: RetainedTurnReduction | None
) -> None:
    rows = trace_rows([decided(run(), candidate(retained=retained, model_turns=turns))])

    assert rows[1].retained_turn_reduction == row


def test_the_basis_is_the_latest_turn_that_any_run_knew() -> None:
    later = {"key": Key("experiment", DIGESTS[0], "unit", 5)}
    rows = trace_rows(
        [decided(run(decision_basis=1, **later), candidate(decision_basis=3, **later))]
    )

    assert {row.decision_basis_through_turn for row in rows} == {3}


def test_no_pairs_are_no_rows() -> None:
    assert trace_rows([]) == []


names = st.sampled_from(["", "unit", "unit/2", " unit", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
keys = st.builds(
    Key,
    st.sampled_from(["", "experiment"]),
    st.sampled_from(DIGESTS),
    names,
    st.integers(0, 2),
)
observations = st.lists(
    st.builds(
        seen,
        st.just("any"),
        st.sampled_from([EFFECT, "mail:sent"]),
        st.sampled_from([EFFECT, "mail:sent"]),
        observer=st.sampled_from(["database", "mailbox"]),
    ),
    max_size=2,
    unique_by=lambda one: one.observer,
).map(tuple)
amounts = st.floats(0, 1e6)
works = st.builds(
    Work, model_ms=amounts, tool_ms=amounts, model_usd=amounts, retry_ms=amounts, retry_usd=amounts
)
turns = st.none() | st.integers(0, 9)


@st.composite
def pairs(draw: st.DrawFn) -> PairDecided:
    key = draw(keys)
    common = {"key": st.just(key), "model_turns": turns, "work": works}
    changes = {name: draw(strategy) for name, strategy in common.items()}
    control = run(
        draw(st.sampled_from(["a", "b", "c"])),
        start_ns=draw(st.integers(1, 3)),
        observations=draw(observations),
        **changes,
    )
    other = candidate(
        draw(st.uuids().map(str)),
        start_ns=draw(st.integers(1, 3)),
        arm=draw(st.sampled_from(CANDIDATE_ARMS)),
        variant=draw(st.sampled_from([None, "2", "large", " "])),
        mechanism=draw(st.sampled_from(Mechanism)),
        lifecycle=draw(st.sampled_from(Lifecycle)),
        reason=draw(st.sampled_from(Reason)),
        decision_basis=draw(st.integers(-1, max(key.turn_index - 1, -1))),
        observations=draw(observations),
        retained=draw(st.none() | st.builds(Retained, st.integers(0, 9), amounts)),
        key=key,
        model_turns=draw(turns),
        work=draw(works),
    )
    return decided(control, other)


@given(st.lists(pairs(), min_size=1, max_size=8))
def test_rows_always_fold_and_give_the_verdicts_of_the_pairs(decisions: list[PairDecided]) -> None:
    arms = {arm.arm: arm for arm in fold(trace_rows(decisions)).arms}

    for name in CANDIDATE_ARMS:
        of_arm = [pair for pair in decisions if pair.candidate.arm is name]
        assert arms[name.value].realized_turns_avoided == sum(pair.avoided for pair in of_arm)
        assert arms[name.value].withheld_turns == sum(pair.withheld for pair in of_arm)
        assert arms[name.value].turns_added == sum(pair.added for pair in of_arm)


@given(st.data())
def test_rows_do_not_depend_on_the_order_of_the_decisions(data: st.DataObject) -> None:
    decisions = data.draw(st.lists(pairs(), max_size=8))
    shuffled = data.draw(st.permutations(decisions))

    assert trace_rows(shuffled) == trace_rows(decisions)


def test_a_pair_of_a_series_of_its_own_is_no_credit_of_the_arm() -> None:
    """v1 has one series for each arm; what is compared across models is not that one."""
    settings = Settings(any_model=True)
    pair = judge(run(), candidate(models=("model-2",)), settings)
    report = fold(trace_rows([pair]))

    assert pair.avoided == 2
    (arm,) = [each for each in report.arms if each.arm == "exact-reuse"]
    assert (arm.realized_turns_avoided, arm.withheld_turns) == (0, 2)
