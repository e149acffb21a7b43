"""The mean per pair and its interval: what is independent, and when nothing can be said."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from otel_turnavoid.judge.run import Key
from otel_turnavoid.publish.estimate import Difference, Estimate, NoInterval, estimate

DIGESTS = st.integers(0, 6).map(lambda number: f"sha256:{number:064x}")
KEYS = st.builds(Key, st.sampled_from(["", "x"]), DIGESTS, st.sampled_from(["", "a"]), st.just(0))
DIFFERENCES = st.lists(st.builds(Difference, KEYS, st.integers(-9, 9)), max_size=30)


def key(digest: str, unit: str = "", experiment: str = "", turn_index: int = 0) -> Key:
    return Key(experiment, digest, unit, turn_index)


def each_its_own(*turns: int) -> list[Difference]:
    return [Difference(key(f"input-{number}"), each) for number, each in enumerate(turns)]


def test_independent_pairs_have_the_t_interval_of_their_mean() -> None:
    turns = [3, 1, 0, -2, 4, 1]

    found = estimate(each_its_own(*turns))

    told = ttest_1samp(turns, 0).confidence_interval(0.95)
    assert found == Estimate(
        pairs=6,
        groups=6,
        mean=pytest.approx(7 / 6, abs=1e-6),
        low=pytest.approx(told.low, abs=1e-6),
        high=pytest.approx(told.high, abs=1e-6),
    )


def test_groups_of_one_size_have_the_t_interval_of_their_means() -> None:
    groups = [(3, 1), (0, -2), (4, 1), (2, 2)]

    found = estimate(
        Difference(key(f"input-{number}"), turns)
        for number, group in enumerate(groups)
        for turns in group
    )

    told = ttest_1samp([fmean(group) for group in groups], 0).confidence_interval(0.95)
    assert (found.pairs, found.groups) == (8, 4)
    assert (found.low, found.high) == pytest.approx((told.low, told.high), abs=1e-6)


def test_repeating_an_input_does_not_make_it_surer() -> None:
    once = estimate(each_its_own(3, 1, 0))
    often = estimate(each_its_own(3, 1, 0) * 100)

    assert (often.pairs, often.groups) == (300, 3)
    assert (often.mean, often.low, often.high) == (once.mean, once.low, once.high)


def test_an_input_that_is_paired_more_often_weighs_more_in_the_mean_and_widens_the_interval() -> (
    None
):
    even = [Difference(key(name), turns) for name, turns in (("a", 4), ("b", 0), ("c", 0))]
    uneven = [*even, *[Difference(key("a"), 4)] * 7]

    assert estimate(uneven).mean == 3.2  # 32 turns over 10 pairs, as the ledger counts them
    narrow, wide = estimate(even), estimate(uneven)
    assert wide.high - wide.low > narrow.high - narrow.low


@pytest.mark.parametrize(
    ("one", "other", "groups"),
    [
        (key("a"), key("a"), 1),
        (key("a"), key("b"), 2),
        (key("a", "unit"), key("b", "unit", turn_index=1), 1),
        (key("a", "unit", "x"), key("b", "unit", "y"), 2),
        (key("a", "unit"), key("a", "other"), 1),
        (key("a", experiment="x"), key("a", experiment="y"), 1),
    ],
)
def test_pairs_of_one_input_or_of_one_unit_are_one_group(one: Key, other: Key, groups: int) -> None:
    assert estimate([Difference(one, 1), Difference(other, 2)]).groups == groups


def test_groups_that_a_third_pair_connects_are_one() -> None:
    apart = [Difference(key("a", "one"), 1), Difference(key("b", "two"), 2)]

    assert estimate(apart).groups == 2
    assert estimate([*apart, Difference(key("b", "one"), 3)]).groups == 1


@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_changes_no_digit(
    differences: list[Difference], chance: random.Random
) -> None:
    shuffled = chance.sample(differences, len(differences))

    assert estimate(shuffled) == estimate(differences)


@given(DIFFERENCES)
def test_swapping_the_sides_swaps_the_signs(differences: list[Difference]) -> None:
    there = estimate(differences)
    back = estimate(Difference(each.key, -each.turns) for each in differences)

    assert (back.pairs, back.groups, back.no_interval) == (
        there.pairs,
        there.groups,
        there.no_interval,
    )
    if there.low is not None:
        assert (back.mean, back.low, back.high) == (-there.mean, -there.high, -there.low)


@given(DIFFERENCES)
def test_there_is_an_interval_around_the_mean_or_a_reason_why_not(
    differences: list[Difference],
) -> None:
    found = estimate(differences)

    if found.no_interval is None:
        assert found.groups >= 2
        assert found.low < found.mean < found.high
    else:
        assert (found.low, found.high) == (None, None)


def test_of_nothing_there_is_no_mean() -> None:
    assert estimate([]) == Estimate(
        pairs=0, groups=0, mean=None, low=None, high=None, no_interval=NoInterval.TOO_FEW_GROUPS
    )


def test_one_group_has_a_mean_and_no_interval() -> None:
    found = estimate([Difference(key("a"), 1), Difference(key("a"), 2)])

    assert found == Estimate(
        pairs=2, groups=1, mean=1.5, low=None, high=None, no_interval=NoInterval.TOO_FEW_GROUPS
    )


def test_equal_groups_show_no_spread_and_so_no_interval() -> None:
    found = estimate(each_its_own(2, 2, 2))

    assert (found.mean, found.low, found.no_interval) == (2, None, NoInterval.NO_SPREAD)


@pytest.mark.usefixtures("without_scipy")
def test_without_the_extra_the_mean_stands_alone() -> None:
    found = estimate(each_its_own(3, 1))

    assert (found.mean, found.low, found.no_interval) == (2, None, NoInterval.NOT_INSTALLED)


@pytest.mark.parametrize("sizes", [[1] * 20, [1, 2, 3, 4] * 5], ids=["equal", "unequal"])
def test_without_an_effect_about_95_of_100_intervals_include_0(sizes: list[int]) -> None:
    """Runs of one input resemble each other, and no input has an effect."""
    chance = random.Random(7)
    includes = 0
    for _ in range(400):
        differences = []
        for number, size in enumerate(sizes):
            shared = chance.randint(-3, 3)
            differences += [
                Difference(key(f"input-{number}"), shared + chance.randint(-2, 2))
                for _ in range(size)
            ]
        includes += bool(estimate(differences).includes_zero)

    assert 0.92 <= includes / 400 <= 0.98
