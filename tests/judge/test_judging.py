"""The verdict: credit only where absence is proven and the effects were seen."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from otel_turnavoid.judge.judging import comparable_null, judge, judge_null
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import (
    NullDecided,
    PairDecided,
    RunDecided,
    decode,
    encode,
    reference,
)
from otel_turnavoid.vocabulary import Arm, Evidence, InvokeState, Lifecycle, Outcome, WithheldCause

Cause = WithheldCause
EFFECTS = ("order:42=cancelled", "refund:42=19.90")


class Pair:
    """A control and a candidate that would earn credit, to be spoiled."""

    def __init__(self, make_run, observation, turns=(4, 3)) -> None:
        self.observation = observation
        self.control = make_run("c", Arm.CONTROL, turns[0], *EFFECTS)
        self.candidate = make_run("k", Arm.EXACT_REUSE, turns[1], *EFFECTS)

    def saw(self, control=None, candidate=None, **changes) -> Pair:
        """Let an observer say these labels instead; None leaves what it said."""
        if control is not None:
            seen = self.observation("c", *control, **changes)
            self.control = replace(self.control, observations=(seen,))
        if candidate is not None:
            seen = self.observation("k", *candidate, **changes)
            self.candidate = replace(self.candidate, observations=(seen,))
        return self

    def set(self, **candidate) -> Pair:
        self.candidate = replace(self.candidate, **candidate)
        return self

    def judge(self, **settings) -> PairDecided:
        return judge(self.control, self.candidate, Settings(**settings))


@pytest.fixture
def pair(make_run, observation):
    return lambda *turns: Pair(make_run, observation, turns or (4, 3))


def in_candidate(cause):
    def spoil(pair: Pair) -> None:
        pair.set(causes=(*pair.candidate.causes, cause))

    return spoil


def independent_not(pair: Pair) -> None:
    pair.set(identities=(("observer", "observer-1"),))


SPOIL = {
    Cause.LIFECYCLE_NOT_REALIZED: lambda pair: pair.set(lifecycle=Lifecycle.ATTEMPTED),
    Cause.RUN_NOT_COMPLETED: in_candidate(Cause.RUN_NOT_COMPLETED),
    Cause.INCOMPLETE_RUN: in_candidate(Cause.INCOMPLETE_RUN),
    Cause.COMPLETENESS_UNPROVEN: in_candidate(Cause.COMPLETENESS_UNPROVEN),
    Cause.CONFLICTING_EVIDENCE: in_candidate(Cause.CONFLICTING_EVIDENCE),
    Cause.SAMPLED: in_candidate(Cause.SAMPLED),
    Cause.EFFECTS_UNOBSERVED: lambda pair: pair.set(observations=()),
    Cause.NO_REQUIRED_EFFECTS: lambda pair: pair.saw((), ()),
    Cause.OBSERVER_NOT_INDEPENDENT: independent_not,
    Cause.OBSERVER_MISMATCH: lambda pair: pair.saw(candidate=EFFECTS, observer="another"),
    Cause.EFFECTS_SUPPRESSED: lambda pair: pair.saw(candidate=EFFECTS[:1]),
    Cause.EFFECTS_ADDED: lambda pair: pair.saw(candidate=(*EFFECTS, "mail:42=sent")),
    Cause.MODEL_MISMATCH: lambda pair: pair.set(models=("gpt-5.1-mini",)),
    Cause.INSTRUMENTATION_MISMATCH: lambda pair: pair.set(scopes=("other",)),
}
"""How to give rise to each cause and to no other."""

OF_THE_OBSERVATIONS = {
    Cause.EFFECTS_UNOBSERVED,
    Cause.NO_REQUIRED_EFFECTS,
    Cause.OBSERVER_MISMATCH,
    Cause.EFFECTS_SUPPRESSED,
    Cause.EFFECTS_ADDED,
}
"""Causes of which each spoils what the others need; at most one at a time here."""


def test_a_turn_that_is_gone_with_all_effects_seen_is_avoided(pair) -> None:
    given_pair = pair()

    assert given_pair.judge() == PairDecided(
        control=given_pair.control,
        candidate=given_pair.candidate,
        potential=1,
        avoided=1,
        withheld=0,
        added=0,
        causes=(),
        observer="orders-db",
        control_effects=EFFECTS,
        candidate_effects=EFFECTS,
        preserved=2,
        suppressed=0,
    )


def test_there_is_a_way_to_each_cause() -> None:
    assert list(SPOIL) == list(WithheldCause)


@pytest.mark.parametrize("cause", WithheldCause)
def test_each_cause_alone_withholds_everything(pair, cause: WithheldCause) -> None:
    spoiled = pair(7, 3)
    SPOIL[cause](spoiled)

    decided = spoiled.judge()

    assert decided.causes == (cause,)
    assert (decided.potential, decided.avoided, decided.withheld) == (4, 0, 4)


COMBINED = [
    pair_of
    for pair_of in combinations(WithheldCause, 2)
    if len(OF_THE_OBSERVATIONS & set(pair_of)) < 2
    and set(pair_of) != {Cause.EFFECTS_UNOBSERVED, Cause.OBSERVER_NOT_INDEPENDENT}
]


@pytest.mark.parametrize("causes", COMBINED)
def test_two_causes_are_both_kept_in_the_order_of_the_vocabulary(pair, causes) -> None:
    spoiled = pair()
    for cause in causes[::-1]:
        SPOIL[cause](spoiled)

    assert spoiled.judge().causes == causes


def test_all_causes_that_can_meet_are_kept(pair) -> None:
    spoiled = pair()
    for cause in WithheldCause:
        if cause not in OF_THE_OBSERVATIONS:
            SPOIL[cause](spoiled)
    spoiled.saw(control=("a",), candidate=("b",))

    missing = {Cause.EFFECTS_UNOBSERVED, Cause.NO_REQUIRED_EFFECTS, Cause.OBSERVER_MISMATCH}
    assert spoiled.judge().causes == tuple(c for c in WithheldCause if c not in missing)


@pytest.mark.parametrize(
    "cause",
    [
        Cause.RUN_NOT_COMPLETED,
        Cause.INCOMPLETE_RUN,
        Cause.COMPLETENESS_UNPROVEN,
        Cause.CONFLICTING_EVIDENCE,
        Cause.SAMPLED,
    ],
)
def test_what_is_wrong_with_the_control_withholds_too(pair, cause) -> None:
    """A control that lost nothing but its proof may have too many turns as well as too few."""
    spoiled = pair()
    spoiled.control = replace(spoiled.control, causes=(cause,))

    assert (spoiled.judge().avoided, spoiled.judge().causes) == (0, (cause,))


@pytest.mark.parametrize("lifecycle", set(Lifecycle) - {Lifecycle.REALIZED})
def test_only_realized_earns(pair, lifecycle) -> None:
    decided = pair().set(lifecycle=lifecycle).judge()

    assert decided.causes == (Cause.LIFECYCLE_NOT_REALIZED,)


def test_the_lifecycle_of_the_control_means_nothing(pair) -> None:
    given_pair = pair()
    given_pair.control = replace(given_pair.control, lifecycle=Lifecycle.UNKNOWN)

    assert given_pair.judge().avoided == 1


@pytest.mark.parametrize(
    ("control", "candidate", "potential", "added"),
    [(5, 3, 2, 0), (3, 6, 0, 3), (4, 4, 0, 0), (1, 0, 1, 0), (0, 0, 0, 0), (0, 2, 0, 2)],
)
def test_what_is_avoided_and_what_is_added(pair, control, candidate, potential, added) -> None:
    """A70: shown side by side, never clipped away."""
    decided = pair(control, candidate).judge()

    assert (decided.potential, decided.avoided, decided.added) == (potential, potential, added)


def test_causes_are_listed_also_where_there_is_nothing_to_withhold(pair) -> None:
    decided = pair(3, 5).saw(candidate=EFFECTS[:1]).judge()

    assert (decided.withheld, decided.added) == (0, 2)
    assert decided.causes == (Cause.EFFECTS_SUPPRESSED,)


@pytest.mark.parametrize("turns", [(None, 3), (4, None), (None, None)])
def test_unknown_turns_earn_nothing(pair, turns) -> None:
    decided = pair(*turns).judge()

    assert (decided.potential, decided.avoided, decided.added) == (0, 0, 0)
    assert decided.causes == (Cause.COMPLETENESS_UNPROVEN,)


counts = st.one_of(st.none(), st.integers(0, 50))


@given(turns=st.tuples(counts, counts), causes=st.sets(st.sampled_from(WithheldCause)))
def test_potential_is_avoided_and_withheld(make_run, observation, turns, causes) -> None:
    spoiled = Pair(make_run, observation, turns)
    for cause in sorted(causes):
        SPOIL[cause](spoiled)

    decided = spoiled.judge()

    assert decided.potential == decided.avoided + decided.withheld
    assert 0 in (decided.avoided, decided.withheld)
    assert 0 in (decided.potential, decided.added)
    if None not in turns:
        assert decided.potential - decided.added == turns[0] - turns[1]
    assert decided.avoided == 0 or not decided.causes
    assert list(decided.causes) == [cause for cause in WithheldCause if cause in decided.causes]


# Effects


def test_zero_required_effects_earn_nothing(pair) -> None:
    """A69: two empty lists prove nothing."""
    decided = pair().saw((), ()).judge()

    assert decided.causes == (Cause.NO_REQUIRED_EFFECTS,)
    assert (decided.preserved, decided.suppressed) == (0, 0)


def test_effects_of_the_candidate_alone_are_added_and_none_was_required(pair) -> None:
    assert pair().saw((), ("a",)).judge().causes == (
        Cause.NO_REQUIRED_EFFECTS,
        Cause.EFFECTS_ADDED,
    )


@pytest.mark.parametrize(
    ("before", "after", "causes", "figures"),
    [
        (("a", "b"), ("b", "a"), (), (2, 0)),
        (("a", "a"), ("a",), (Cause.EFFECTS_SUPPRESSED,), (1, 1)),
        (("a",), ("a", "a"), (Cause.EFFECTS_ADDED,), (1, 0)),
        (("a",), ("b",), (Cause.EFFECTS_SUPPRESSED, Cause.EFFECTS_ADDED), (0, 1)),
        (("a", "b", "c"), (), (Cause.EFFECTS_SUPPRESSED,), (0, 3)),
        (("a",), ("A",), (Cause.EFFECTS_SUPPRESSED, Cause.EFFECTS_ADDED), (0, 1)),
        (("a", "a"), ("a", "a#2"), (), (2, 0)),
    ],
)
def test_effects_compare_as_multisets(pair, before, after, causes, figures) -> None:
    decided = pair().saw(before, after).judge()

    assert decided.causes == causes
    assert (decided.preserved, decided.suppressed) == figures


labels = st.lists(st.sampled_from(["a", "a#2", "a#3", "b"]), min_size=1, max_size=5)


@given(before=labels, after=labels)
def test_the_verdict_is_that_of_the_effects_it_shows(make_run, observation, before, after) -> None:
    """Who folds the shown effects again (trace/v1) withholds exactly the same."""
    decided = Pair(make_run, observation).saw(before, after).judge()

    assert (decided.avoided == 1) is (decided.control_effects == decided.candidate_effects)
    assert decided.preserved + decided.suppressed == len(decided.control_effects)


@pytest.mark.parametrize("side", ["control", "candidate"])
def test_a_run_that_nobody_saw_earns_nothing(pair, side) -> None:
    spoiled = pair()
    setattr(spoiled, side, replace(getattr(spoiled, side), observations=()))

    decided = spoiled.judge()

    assert decided.causes == (Cause.EFFECTS_UNOBSERVED,)
    assert (decided.preserved, decided.suppressed) == (0, 0)


# Observers


def two_observers(pair, mail=(("m",), ("m",)), **changes):
    given_pair = pair()
    for side, run_id, seen in (("control", "c", mail[0]), ("candidate", "k", mail[1])):
        run = getattr(given_pair, side)
        other = given_pair.observation(run_id, *seen, observer="mail", **changes)
        setattr(given_pair, side, replace(run, observations=(other, *run.observations)))
    return given_pair


def test_observers_that_agree_earn_together(pair) -> None:
    assert two_observers(pair).judge().avoided == 1


@pytest.mark.parametrize(
    ("mail", "cause"),
    [
        ((("m",), ()), Cause.EFFECTS_SUPPRESSED),
        ((("m",), ("m", "m")), Cause.EFFECTS_ADDED),
        (((), ()), Cause.NO_REQUIRED_EFFECTS),
    ],
)
def test_every_common_observer_must_agree(pair, mail, cause) -> None:
    assert two_observers(pair, mail).judge().causes == (cause,)


def test_one_observer_that_is_not_independent_spoils_the_others(pair) -> None:
    decided = two_observers(pair, service="agent", instance="agent-k").judge()

    assert decided.causes == (Cause.OBSERVER_NOT_INDEPENDENT,)


def test_the_observer_shown_is_the_one_that_disagrees(pair) -> None:
    spoiled = two_observers(pair)
    [mail, orders] = spoiled.candidate.observations
    spoiled.set(observations=(mail, replace(orders, labels=EFFECTS[:1])))
    decided = spoiled.judge()

    assert (decided.observer, decided.preserved, decided.suppressed) == ("orders-db", 1, 1)


def test_an_observer_of_one_run_only_says_nothing_about_the_pair(pair) -> None:
    given_pair = pair()
    other = given_pair.observation("c", "m", observer="mail")
    seen = (other, *given_pair.control.observations)
    given_pair.control = replace(given_pair.control, observations=seen)

    assert given_pair.judge().avoided == 1


def test_an_observer_must_be_independent_of_both_runs(pair) -> None:
    for side in ("control", "candidate"):
        spoiled = pair()
        run = replace(getattr(spoiled, side), identities=(("observer", "observer-1"),))
        setattr(spoiled, side, run)

        assert spoiled.judge().causes == (Cause.OBSERVER_NOT_INDEPENDENT,)


@pytest.mark.parametrize("side", ["control", "candidate"])
def test_both_observations_must_come_from_an_observer(pair, side) -> None:
    spoiled = pair()
    spoiled.saw(**{side: EFFECTS}, role="agent")

    assert spoiled.judge().causes == (Cause.OBSERVER_NOT_INDEPENDENT,)


def test_different_observers_that_are_not_independent_either(pair) -> None:
    spoiled = pair().saw(candidate=EFFECTS, observer="self", service="agent", instance="agent-k")

    assert spoiled.judge().causes == (Cause.OBSERVER_NOT_INDEPENDENT, Cause.OBSERVER_MISMATCH)


# Models and instrumentation


@pytest.mark.parametrize("side", ["control", "candidate"])
def test_a_run_that_needed_no_model_has_no_other_model(pair, side) -> None:
    given_pair = pair()
    setattr(given_pair, side, replace(getattr(given_pair, side), models=()))

    assert given_pair.judge().causes == ()


def test_one_model_more_is_another_set(pair) -> None:
    decided = pair().set(models=("gpt-5.1", "gpt-5.1-mini")).judge()

    assert decided.causes == (Cause.MODEL_MISMATCH,)


@pytest.mark.parametrize(
    ("setting", "cause"),
    [
        ("any_model", Cause.MODEL_MISMATCH),
        ("any_instrumentation", Cause.INSTRUMENTATION_MISMATCH),
    ],
)
def test_the_configuration_may_judge_across_differences(pair, setting, cause) -> None:
    for spoiled_by in (Cause.MODEL_MISMATCH, Cause.INSTRUMENTATION_MISMATCH):
        spoiled = pair()
        SPOIL[spoiled_by](spoiled)
        left = () if spoiled_by is cause else (spoiled_by,)

        assert spoiled.judge(**{setting: True}).causes == left


# Noise


@pytest.mark.parametrize(
    ("first", "second", "avoided", "added"), [(4, 3, 1, 0), (3, 5, 0, 2), (4, 4, 0, 0)]
)
def test_two_controls_are_apart_by_chance(make_run, first, second, avoided, added) -> None:
    one, other = make_run("c0", Arm.CONTROL, first), make_run("c1", Arm.CONTROL, second)

    assert judge_null(one, other, Settings()) == NullDecided(
        first=one, second=other, avoided=avoided, added=added
    )
    assert comparable_null(one, other, Settings())


@pytest.mark.parametrize(
    "spoiled",
    [
        {"ended": False},
        {"state": InvokeState.FAILED},
        {"state": None},
        {"model_turns": None},
        *({"causes": (cause,)} for cause in WithheldCause),
    ],
)
def test_a_control_that_proves_nothing_says_nothing_about_noise(make_run, spoiled) -> None:
    good, bad = make_run("c0", Arm.CONTROL, 4), make_run("c1", Arm.CONTROL, 3)
    bad = replace(bad, **spoiled)

    assert not comparable_null(good, bad, Settings())
    assert not comparable_null(bad, good, Settings())


@pytest.mark.parametrize(
    ("differs", "lets"),
    [
        ({"models": ("other",)}, {"any_model": True}),
        ({"scopes": ("other",)}, {"any_instrumentation": True}),
    ],
)
def test_noise_does_not_mix_what_pairs_may_not(make_run, differs, lets) -> None:
    one, other = make_run("c0", Arm.CONTROL, 4), make_run("c1", Arm.CONTROL, 3, **differs)

    assert not comparable_null(one, other, Settings())
    assert comparable_null(one, other, Settings(**lets))
    assert judge_null(one, other, Settings(**lets)).comparison is not None


@pytest.mark.parametrize("models", [(), ("other",)])
def test_models_that_are_not_stated_differ_from_nothing(pair, models) -> None:
    unknown = pair()
    unknown.control = replace(unknown.control, models=())
    unknown.candidate = replace(unknown.candidate, models=models)

    assert unknown.judge().causes == ()


@pytest.mark.parametrize("side", ["control", "candidate"])
def test_a_pair_is_as_proven_as_the_weaker_of_its_runs(pair, side) -> None:
    mixed = pair()
    assert mixed.judge().evidence is Evidence.DECLARED
    setattr(mixed, side, replace(getattr(mixed, side), evidence=Evidence.INFERRED))

    assert mixed.judge().evidence is Evidence.INFERRED


# Decisions as written down


def test_a_decision_is_read_back_as_it_was_written(pair, make_run) -> None:
    one, other = make_run("c0", Arm.CONTROL, 4), make_run("c1", Arm.CONTROL, 3)
    decisions = [
        pair().judge(),
        judge_null(one, other, Settings()),
        RunDecided(run=one, outcome=Outcome.PAIRED),
    ]

    assert [decode(encode(decision)) for decision in decisions] == decisions


def test_a_decision_is_known_by_its_runs(pair, make_run) -> None:
    one, other = make_run("c0", Arm.CONTROL, 4), make_run("c1", Arm.CONTROL, 3)

    assert reference(pair().judge()) == "pair c\nk"
    assert reference(judge_null(one, other, Settings())) == "null c0\nc1"
    assert reference(RunDecided(run=one, outcome=Outcome.PAIRED)) == ("run c0")
