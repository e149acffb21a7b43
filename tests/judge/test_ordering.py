"""Effects whose order matters, because their observer says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.judge.observing import told_apart
from otel_turnavoid.judge.ordering import compared_effects

A_LATER, B_EARLIER = "a (out of order)", "b (out of order)"


@pytest.fixture
def compared(observation):
    def compare(before: str, after: str, *, ordered=(True, True)):
        return compared_effects(
            observation("c", *before, ordered=ordered[0]),
            observation("k", *after, ordered=ordered[1]),
        )

    return compare


@pytest.mark.parametrize(
    ("before", "after", "required", "reached"),
    [
        ("ab", "ab", ("a", "b"), ("a", "b")),
        ("ab", "ba", ("a", "b"), ("a", B_EARLIER)),
        ("abc", "bca", ("a", "b", "c"), (A_LATER, "b", "c")),
        ("abc", "ac", ("a", "b", "c"), ("a", "c")),
        ("ac", "abc", ("a", "c"), ("a", "b", "c")),
        ("aab", "aba", ("a", "a#2", "b"), ("a", "a#2", B_EARLIER)),
        ("", "", (), ()),
        ("a", "", ("a",), ()),
        ("", "a", (), ("a",)),
    ],
)
def test_what_left_its_place_is_marked_in_the_candidate(
    compared, before, after, required, reached
) -> None:
    assert compared(before, after) == (required, reached)


@pytest.mark.parametrize("ordered", [(True, False), (False, True)])
def test_order_counts_where_either_list_is_declared_ordered(compared, ordered) -> None:
    assert compared("ab", "ba", ordered=ordered)[1] == ("a", B_EARLIER)


def test_without_it_order_means_nothing(compared) -> None:
    assert compared("ab", "ba", ordered=(False, False)) == (("a", "b"), ("a", "b"))


def test_a_mark_is_never_taken_for_an_effect(observation) -> None:
    """A candidate that calls an effect as the mark would be called."""
    before = observation("c", "a", "b", A_LATER, ordered=True)
    after = observation("k", "b", A_LATER, "a", ordered=True)

    required, reached = compared_effects(before, after)

    assert set(reached) != set(required)
    assert reached == ("a (out of order)", "a (out of order) (out of order)", "b")


lists = st.lists(st.sampled_from("abcd"), max_size=7)


@given(before=lists, after=lists)
def test_they_are_equal_exactly_where_the_lists_are(observation, before, after) -> None:
    required, reached = compared_effects(
        observation("c", *before, ordered=True), observation("k", *after, ordered=True)
    )

    assert (required == reached) is (before == after)


def longest_common(before: list[str], after: list[str]) -> int:
    """Length of the longest common subsequence, the textbook way."""
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for row, one in enumerate(before):
        for column, other in enumerate(after):
            table[row + 1][column + 1] = (
                table[row][column] + 1
                if one == other
                else max(table[row][column + 1], table[row + 1][column])
            )
    return table[-1][-1]


@given(before=lists, after=lists)
def test_as_many_stand_as_keep_the_order(observation, before, after) -> None:
    """Repetitions are told apart first."""
    required, reached = compared_effects(
        observation("c", *before, ordered=True), observation("k", *after, ordered=True)
    )

    assert len(reached) == len(after)
    assert len(set(required) & set(reached)) == longest_common(
        told_apart(before), told_apart(after)
    )
