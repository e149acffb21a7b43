"""What the spans of other runs say about a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.judge.across import Across, Link, across
from otel_turnavoid.vocabulary import WithheldCause


def links(*notes: str) -> list[Link]:
    """Links of one trace from notes: ``child<parent:run``; ``-`` for no parent or no run."""
    found = []
    for note in notes:
        span, _, rest = note.partition("<")
        parent, _, run = rest.partition(":")
        found.append(
            Link("t", span, None if parent == "-" else parent, None if run == "-" else run)
        )
    return found


def test_runs_that_have_nothing_to_do_with_each_other_say_nothing() -> None:
    assert across(links("1<-:a", "2<1:a", "3<-:b", "4<3:b")) == {}


def test_a_run_below_a_span_of_another_is_inside_of_it() -> None:
    found = across(links("1<-:outer", "2<1:outer", "3<2:inner", "4<3:inner"))

    assert found == {"outer": Across(inside=("inner",))}


def test_spans_of_no_run_may_lie_between() -> None:
    found = across(links("1<-:outer", "2<1:-", "3<2:-", "4<3:inner"))

    assert found == {"outer": Across(inside=("inner",))}


def test_only_the_nearest_run_around_is_told() -> None:
    """The outer one is told of the middle one, and is not whole either."""
    found = across(links("1<-:a", "2<1:b", "3<2:c"))

    assert found == {"a": Across(inside=("b",)), "b": Across(inside=("c",))}


def test_a_run_below_a_span_of_no_run_is_inside_of_nothing() -> None:
    """A harness that starts a control and a candidate in one trace."""
    assert across(links("1<-:-", "2<1:control", "3<1:candidate")) == {}


def test_a_span_that_two_runs_claim_is_told_of_both() -> None:
    found = across(links("1<-:a", "1<-:b", "2<1:a"))

    assert found == {
        "a": Across(claimed_by=("b",), inside=()),
        "b": Across(claimed_by=("a",), inside=("a",)),
    }


def test_equal_span_ids_in_two_traces_are_two_spans() -> None:
    assert across([Link("t", "1", None, "a"), Link("u", "1", None, "b")]) == {}


@pytest.mark.parametrize("note", ["1<1:a", "1<2:a"])
def test_a_cycle_of_parents_ends(note: str) -> None:
    assert across(links(note, "2<1:-", "3<2:b")) == {"a": Across(inside=("b",))}


some_links = st.lists(
    st.builds(
        Link,
        st.sampled_from("tu"),
        st.sampled_from("123456"),
        st.sampled_from([None, *"123456"]),
        st.sampled_from([None, *"abc"]),
    ),
    max_size=12,
)


@given(some_links, st.randoms(use_true_random=False))
def test_order_and_repetition_mean_nothing(found: list[Link], rng) -> None:
    shuffled = [*found, *found[:3]]
    rng.shuffle(shuffled)

    assert across(shuffled) == across(found)


@given(some_links)
def test_claims_are_mutual(found: list[Link]) -> None:
    said = across(found)

    for run_id, each in said.items():
        for other in each.claimed_by:
            assert run_id in said[other].claimed_by


@pytest.mark.parametrize(
    ("found", "causes", "problem"),
    [
        (Across(), (), None),
        (
            Across(claimed_by=("b",)),
            (WithheldCause.CONFLICTING_EVIDENCE,),
            "spans of this run are claimed by another one too: b",
        ),
        (
            Across(inside=("b", "c")),
            (WithheldCause.COMPLETENESS_UNPROVEN,),
            (
                "another run began inside of this one, under an id of its own, and its turns are"
                " not in the count: b, c"
            ),
        ),
        (
            Across(inside=tuple("bcdefg")),
            (WithheldCause.COMPLETENESS_UNPROVEN,),
            (
                "another run began inside of this one, under an id of its own, and its turns are"
                " not in the count: b, c, d, e, …"
            ),
        ),
    ],
)
def test_it_is_held_against_the_run(script, assembled_across, found, causes, problem) -> None:
    run = assembled_across(script().turns(2).done(), found)

    assert run.causes == causes
    assert run.problems == ((problem,) if problem else ())
