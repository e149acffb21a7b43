"""Which runs are compared: one control with one candidate, one to one, in any order the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.judge.pairing import Pairs, pair
from otel_turnavoid.vocabulary import Arm, Rejection

CONTROL, REUSE, FUSED = Arm.CONTROL, Arm.EXACT_REUSE, Arm.FUSED_BATCH


@pytest.fixture(scope="module")
def runs(make_run):
    """Runs from short notes: ``c0`` a control, ``k1`` a reuse, ``f2`` a fusion; digit: start."""
    arms = {"c": CONTROL, "k": REUSE, "f": FUSED}

    def make(*notes: str, **changes):
        return [
            make_run(note, arms[note[0]], 3, start_ns=int(note[1]), **changes) for note in notes
        ]

    return make


def ids(pairs):
    return [(one.run_id, other.run_id) for one, other in pairs]


def test_one_control_and_one_candidate_are_a_pair(runs) -> None:
    found = pair(runs("c0", "k1"))

    assert ids(found.candidates) == [("c0", "k1")]
    assert found.null == []


def test_pairs_are_made_by_start(runs) -> None:
    """A65: two controls, three candidates; one is left over."""
    found = pair(runs("k4", "c1", "k2", "c0", "k3"))

    assert ids(found.candidates) == [("c0", "k2"), ("c1", "k3")]


def test_at_the_same_start_run_ids_decide(make_run) -> None:
    found = pair(
        [
            make_run(name, arm, 1)
            for name, arm in [("b", CONTROL), ("a", CONTROL), ("z", REUSE), ("y", REUSE)]
        ]
    )

    assert ids(found.candidates) == [("a", "y"), ("b", "z")]


def test_a_candidate_may_have_started_before_its_control(runs) -> None:
    assert ids(pair(runs("k0", "c9")).candidates) == [("c9", "k0")]


def test_every_arm_and_variant_may_use_the_same_control(runs) -> None:
    plain, fused = runs("c0", "k1", "f2"), runs("f3", variant="v")

    found = pair([*plain, *fused])

    assert sorted(ids(found.candidates)) == [("c0", "f2"), ("c0", "f3"), ("c0", "k1")]


def test_a_control_without_a_candidate_is_in_no_pair(runs) -> None:
    assert pair(runs("c0")) == Pairs([], [])


def test_candidates_are_not_paired_with_each_other(runs) -> None:
    assert pair(runs("k0", "k1", "f2")) == Pairs([], [])


@pytest.mark.parametrize(
    "spoiled",
    [{"rejections": (Rejection.LEAKAGE,)}, {"arm": None}, {"key": None}],
)
def test_refused_runs_and_runs_without_arm_or_key_are_in_no_pair(make_run, runs, spoiled) -> None:
    bad = [
        make_run("bad-c", **{"arm": CONTROL, "turns": 3, **spoiled}),
        make_run("bad-k", **{"arm": REUSE, "turns": 3, **spoiled}),
    ]

    found = pair([*bad, *runs("c1", "k1")])

    assert ids(found.candidates) == [("c1", "k1")]
    assert found.null == []


def test_decided_pairs_stay_together(runs) -> None:
    """An earlier control arrives after the verdict: nothing is paired anew."""
    found = pair(runs("c0", "c1", "k2", "k3"), decided=[("c1", "k2")])

    assert ids(found.candidates) == [("c0", "k3")]


def test_a_control_decided_in_one_arm_is_free_in_the_other(runs) -> None:
    found = pair(runs("c0", "k1", "f2"), decided=[("c0", "k1")])

    assert ids(found.candidates) == [("c0", "f2")]


def test_a_candidate_refused_after_its_verdict_keeps_its_control(make_run, runs) -> None:
    """Else one control would be compared with two candidates of one arm."""
    refused = make_run("k1", None, 3, rejections=(Rejection.RUN_ID_REUSED,))

    found = pair([*runs("c0", "k2"), refused], decided=[("c0", "k1")])

    assert found.candidates == []


def test_a_candidate_that_is_gone_keeps_its_control(runs) -> None:
    found = pair(runs("c0", "c1", "k2", "f3"), decided=[("c0", "gone")])

    assert sorted(ids(found.candidates)) == [("c1", "f3"), ("c1", "k2")]


def test_controls_are_paired_with_each_other_by_start(runs) -> None:
    found = pair(runs("c4", "c0", "c3", "c1", "c2"))

    assert ids(found.null) == [("c0", "c1"), ("c2", "c3")]
    assert found.candidates == []


def test_controls_in_pairs_with_candidates_are_in_the_noise_too(runs) -> None:
    found = pair(runs("c0", "c1", "k2"))

    assert ids(found.candidates) == [("c0", "k2")]
    assert ids(found.null) == [("c0", "c1")]


def test_decided_pairs_of_controls_stay_together(runs) -> None:
    found = pair(runs("c0", "c1", "c2", "c3"), null_decided=[("c1", "c2")])

    assert ids(found.null) == [("c0", "c3")]


keys = st.tuples(
    st.sampled_from([CONTROL, REUSE, FUSED]), st.integers(0, 3), st.sampled_from([None, "v"])
)


@given(drawn=st.lists(keys, max_size=12), data=st.data())
def test_any_order_gives_the_same_pairs_one_to_one(make_run, drawn, data) -> None:
    some = [
        make_run(f"run-{number}", arm, 3, start_ns=start, variant=variant)
        for number, (arm, start, variant) in enumerate(drawn)
    ]

    found = pair(some)

    assert pair(data.draw(st.permutations(some))) == found
    controls = sum(run.arm is CONTROL for run in some)
    assert len(found.null) == controls // 2
    candidates = [candidate.run_id for _, candidate in found.candidates]
    assert len(candidates) == len(set(candidates))
    groups: dict[object, list[str]] = {}
    for control, candidate in found.candidates:
        assert control.arm is CONTROL
        groups.setdefault((candidate.arm, candidate.variant), []).append(control.run_id)
    for (arm, variant), used in groups.items():
        members = sum((run.arm, run.variant) == (arm, variant) for run in some)
        assert len(used) == len(set(used)) == min(members, controls)


@given(drawn=st.lists(keys, max_size=10), data=st.data())
def test_deciding_bit_by_bit_never_uses_a_run_twice(make_run, drawn, data) -> None:
    """Runs arrive in any order, and every pair is final as soon as it is there."""
    some = data.draw(st.permutations(range(len(drawn))))
    decided: list[tuple[str, str]] = []
    null: list[tuple[str, str]] = []
    arrived = []
    for number in some:
        arm, start, variant = drawn[number]
        arrived.append(make_run(f"run-{number}", arm, 3, start_ns=start, variant=variant))
        found = pair(arrived, decided, null)
        decided += ids(found.candidates)
        null += ids(found.null)

    by_id = {run.run_id: run for run in arrived}
    used = [(by_id[k].arm, by_id[k].variant, c) for c, k in decided]
    assert len(used) == len(set(used))
    assert len({k for _, k in decided}) == len(decided)
    flat = [run_id for ids_of_pair in null for run_id in ids_of_pair]
    assert len(flat) == len(set(flat))
