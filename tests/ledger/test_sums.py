"""Sums are exact until they are rounded, once."""

from __future__ import annotations

from fractions import Fraction
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.ledger.sums import expansion, negated, rounded

numbers = st.lists(
    st.one_of(
        st.floats(0, 1000),
        st.floats(0, 1e300),
        st.floats(0, 1e-300),
        st.sampled_from([0.1, 1e16, 1.0, 5e-324]),
    )
)


def exact(values: list[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction())


@given(numbers)
def test_an_expansion_has_exactly_the_sum_of_the_values(values: list[float]) -> None:
    assert exact(expansion(values)) == exact(values)


@given(numbers, numbers)
def test_expansions_can_be_expanded_again(first: list[float], second: list[float]) -> None:
    again = expansion(expansion(first) + expansion(second))

    assert exact(again) == exact(first) + exact(second)


@given(numbers, numbers)
def test_a_difference_is_rounded_once(first: list[float], second: list[float]) -> None:
    difference = rounded(expansion(first), negated(expansion(second)))

    assert difference == float(exact(first) - exact(second))


def test_what_cancels_leaves_what_a_running_sum_would_lose() -> None:
    assert rounded(expansion([1e16, 1.0]), negated(expansion([1e16]))) == 1.0


def test_a_sum_of_nothing_is_positive_zero() -> None:
    assert str(rounded([])) == str(rounded(negated(expansion([0.0])))) == "0.0"


def test_an_expansion_stays_short() -> None:
    assert len(expansion([0.1 * number for number in range(10_000)])) <= 3


def test_a_sum_beyond_the_largest_double_is_infinite_and_stays_so() -> None:
    assert expansion([1.7e308, 1.7e308]) == [inf]
    assert expansion([inf, 1.0]) == [inf]
