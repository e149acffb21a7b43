"""Which observations count, what their labels mean, and who is independent of whom."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from otel_turnavoid.judge.facts import Process
from otel_turnavoid.judge.observing import effects, hear, independent, shared_process
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.vocabulary import Arm

START, END = 1000 * SECOND, 1060 * SECOND
SKEW = 300 * SECOND


def usable(*observations, settings=None):
    return hear(observations, START, END, settings or Settings())[:2]


@pytest.mark.parametrize(
    ("observed_ns", "counts"),
    [
        (START - SKEW - 1, False),
        (START - SKEW, True),
        (START, True),
        (END, True),
        (END + SKEW, True),
        (END + SKEW + 1, False),
        (START - 24 * 3600 * SECOND, False),
    ],
)
def test_an_observation_counts_within_the_run_and_its_skew(
    observation, observed_ns: int, counts
) -> None:
    seen = replace(observation("k", "a"), observed_ns=observed_ns)

    assert usable(seen) == (((seen,) if counts else ()), ())


def test_without_skew_only_the_run_itself_counts(observation) -> None:
    settings = Settings(observation_skew_ns=0)
    late = replace(observation("k", "a"), observed_ns=END + 1)

    assert usable(late, settings=settings) == ((), ())


def test_a_second_word_of_an_observer_that_says_the_same_is_one_observation(observation) -> None:
    early = replace(observation("k", "a", "b"), observed_ns=START)
    late = replace(observation("k", "b", "a"), observed_ns=END)

    assert {usable(*order) for order in permutations([early, late, late])} == {((early,), ())}


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ("a",)},
        {"labels": ("a", "b", "b")},
        {"labels": ()},
        {"service": "agent"},
        {"instance": "observer-2"},
        {"role": "agent"},
    ],
)
def test_an_observer_that_says_two_things_contradicts_itself(observation, change) -> None:
    one = replace(observation("k", "a", "b"), observed_ns=START)
    other = replace(one, observed_ns=END, **change)

    for order in ((one, other), (other, one)):
        assert usable(*order) == ((one,), ("orders-db",))


def test_a_contradiction_outside_the_time_of_the_run_is_about_something_else(observation) -> None:
    one = replace(observation("k", "a"), observed_ns=START)
    stale = replace(observation("k", "b"), observed_ns=START - SKEW - 1)

    assert usable(one, stale) == ((one,), ())


def test_two_observers_are_told_apart(observation) -> None:
    one = replace(observation("k", "a"), observed_ns=START)
    other = replace(observation("k", "b", observer="mail"), observed_ns=START)

    assert usable(one, other) == ((other, one), ())


def test_one_that_lost_attributes_counts_for_nothing(observation) -> None:
    cut = observation("k", "a", dropped=2, observed_ns=START)

    assert hear([cut], START, END, Settings()) == (
        (),
        (),
        ("orders-db: 2 attributes were dropped by a limit, and perhaps effects in them",),
    )


def test_the_same_word_whole_stands_in_its_place(observation) -> None:
    cut = observation("k", "a", dropped=2, observed_ns=START)
    whole = observation("k", "a", observed_ns=END)

    for order in permutations([cut, whole]):
        assert hear(order, START, END, Settings()) == ((whole,), (), ())


# Labels


@pytest.mark.parametrize(
    ("labels", "marked"),
    [
        ((), ()),
        (("b", "a"), ("a", "b")),
        (("a", "a", "a"), ("a", "a#2", "a#3")),
        (("a", "a#2"), ("a", "a#2")),
        (("a", "a", "a#2"), ("a", "a#2", "a#3")),
        (("a#2", "a#2", "a"), ("a", "a#2", "a#2#2")),
    ],
)
def test_repetitions_are_marked(observation, labels, marked) -> None:
    assert effects(observation("k", *labels)) == marked


def test_no_observation_has_no_effects() -> None:
    assert effects(None) == ()


tricky = st.lists(st.sampled_from(["a", "a#2", "a#3", "a#2#2", "b"]), max_size=7)


@given(labels=tricky)
def test_marks_are_never_lost_in_one_another(observation, labels) -> None:
    """As many marked labels as were sent: an effect that happened is not hidden by another."""
    marked = effects(observation("k", *labels))

    assert len(marked) == len(set(marked)) == len(labels)
    assert marked == tuple(sorted(marked))
    assert set(labels) <= set(marked)


@given(labels=tricky, data=st.data())
def test_order_of_labels_means_nothing(observation, labels, data) -> None:
    shuffled = data.draw(st.permutations(labels))

    assert effects(observation("k", *labels)) == effects(observation("k", *shuffled))


@given(one=st.lists(st.sampled_from("abc")), other=st.lists(st.sampled_from("abc")))
def test_marked_labels_compare_as_multisets(observation, one, other) -> None:
    before, after = effects(observation("k", *one)), effects(observation("k", *other))

    assert (before == after) is (Counter(one) == Counter(other))
    assert len(set(before) & set(after)) == sum((Counter(one) & Counter(other)).values())


# Independence


@pytest.mark.parametrize(
    ("seen_by", "agents", "proven"),
    [
        (("observer", "1"), [("agent", "1")], True),
        (("observer", None), [("agent", "")], True),
        (("agent", "1"), [("agent", "2")], True),
        (("agent", "1"), [("agent", "1")], False),
        (("agent", None), [("agent", "1")], False),
        (("agent", "1"), [("agent", "")], False),
        (("agent", None), [("agent", "")], False),
        ((None, "9"), [("agent", "1")], False),
        (("", "9"), [("agent", "1")], False),
        (("observer", "1"), [("", "1")], False),
        (("observer", "1"), [("", "2")], False),
        (("observer", "1"), [("", "")], False),
        (("observer", "1"), [("agent", "1"), ("observer", "1")], False),
        (("observer", "1"), [("agent", "1"), ("observer", "2")], True),
    ],
)
def test_an_observer_is_independent_where_it_is_provably_another_process(
    observation, make_run, seen_by, agents, proven
) -> None:
    service, instance = seen_by
    seen = observation("k", "a", service=service, instance=instance)
    runs = [
        make_run("c", Arm.CONTROL, 2),
        make_run("k", Arm.EXACT_REUSE, 1, identities=tuple(agents)),
    ]

    assert independent(seen, runs) is proven
    assert independent(seen, runs[::-1]) is proven


def test_one_process_under_two_names_is_no_independent_observer(observation, make_run) -> None:
    """The SDK makes one instance id a process, whatever service names its providers have."""
    process = "9c182bfb-91b0-4790-8b3e-4217bb851cf5"
    run = make_run("k", Arm.EXACT_REUSE, 1, identities=(("agent", process),))

    for spelled in (process, process.upper()):
        seen = observation("k", "a", service="auditor", instance=spelled)
        assert not independent(seen, [run])


@pytest.mark.parametrize(
    ("role", "proven"), [(None, True), ("observer", True), ("agent", False), ("", False)]
)
def test_an_authenticated_observer_has_the_role_of_one(observation, make_run, role, proven) -> None:
    seen = observation("k", "a", role=role)

    assert independent(seen, [make_run("k", Arm.EXACT_REUSE, 1)]) is proven


@pytest.mark.parametrize(
    ("mine", "theirs", "one"),
    [
        (Process(1, host_name="a"), Process(1, host_name="a"), True),
        (Process(1, host_id="m"), Process(1, host_id="m", host_name="a"), True),
        (Process(1, host_name="a"), Process(2, host_name="a"), False),
        (Process(1, host_name="a"), Process(1, host_name="b"), False),
        (Process(1, host_name="a", pod_uid="p"), Process(1, host_name="a", pod_uid="q"), False),
        (Process(1, host_name="a", created="t"), Process(1, host_name="a", created="u"), False),
        (Process(1, created="t"), Process(1, created="t"), False),
        (Process(1), Process(1), False),
        (None, Process(1, host_name="a"), False),
    ],
)
def test_a_process_is_the_same_where_its_number_and_its_place_are(
    observation, make_run, mine, theirs, one
) -> None:
    seen = observation("k", "a", process=mine)
    run = make_run("k", Arm.EXACT_REUSE, 1, processes=(Process(9, host_name="a"), theirs))

    assert shared_process(seen, [run]) == (theirs if one else None)
    assert independent(seen, [run]) is not one
