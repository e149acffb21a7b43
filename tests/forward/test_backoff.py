"""Waits between attempts are the collector's."""

from __future__ import annotations

import pytest

from otel_turnavoid.forward.backoff import LONGEST_WAIT_S, Backoff, RetryPolicy

POLICY = RetryPolicy(initial_interval_s=4, multiplier=1.5, max_interval_s=10)


def backoff(policy: RetryPolicy = POLICY, chance: float = 0.5, now: list[float] | None = None):
    times = [0.0] if now is None else now
    return Backoff(policy, lambda: times[0], lambda: chance)


def test_waits_grow_by_the_multiplier_up_to_the_longest():
    waits = backoff()

    assert [waits.wait_s() for _ in range(5)] == [4, 6, 9, 10, 10]


@pytest.mark.parametrize(("chance", "wait_s"), [(0.0, 2.0), (0.5, 4.0), (1.0, 6.0)])
def test_waits_are_spread_around_their_interval(chance, wait_s):
    assert backoff(chance=chance).wait_s() == wait_s


def test_a_backend_is_never_tried_before_it_asked():
    waits = backoff()

    assert (waits.wait_s(60), waits.wait_s(1)) == (60, 6)


def test_a_backend_cannot_put_off_for_ever():
    assert backoff().wait_s(1e9) == LONGEST_WAIT_S


def test_nothing_is_given_up_by_itself():
    now = [0.0]
    waits = backoff(now=now)
    now[0] = 1e9

    assert waits.wait_s() == 4


def test_a_request_is_given_up_when_its_next_attempt_would_be_too_late():
    now = [0.0]
    waits = backoff(POLICY._replace(max_elapsed_s=10), now=now)
    first = waits.wait_s()
    now[0] = 4.5

    assert (first, waits.wait_s()) == (4, None)


def test_without_retry_a_request_is_given_up_at_once():
    assert backoff(RetryPolicy(enabled=False)).wait_s(1) is None
