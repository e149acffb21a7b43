"""What the spans of other runs say about a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.judge.across import Across, Link, Top, across
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


def tops(*notes: str) -> list[Top]:
    """Tops of one trace from notes: ``span<parent:run start-end``; ``-`` for no parent."""
    found = []
    for note in notes:
        place, _, times = note.partition(" ")
        (link,) = links(place)
        start, _, end = times.partition("-")
        assert link.run_id is not None
        found.append(Top(*link[:3], link.run_id, int(start), int(end)))
    return found


@pytest.mark.parametrize(
    ("notes", "outer"),
    [
        pytest.param(["1<p:a 0-9", "2<q:b 5-6"], "a", id="it ended meanwhile"),
        pytest.param(["1<p:a 0-9", "2<q:b 5-20"], "a", id="it went on for longer"),
        pytest.param(["1<p:a 0-9", "2<q:b 9-20"], "a", id="at the last moment"),
        pytest.param(["1<-:a 0-9", "2<q:b 5-6"], "a", id="the other is the root"),
        pytest.param(["1<-:a 0-9", "2<q:b 50-60"], "a", id="the root, and later"),
        pytest.param(["2<q:b 0-9", "1<-:a 5-6"], "a", id="the root, by another clock"),
    ],
)
def test_a_run_that_hangs_below_an_unknown_span_may_be_inside(notes: list[str], outer: str) -> None:
    assert across([], tops(*notes)) == {outer: Across(perhaps_inside=("b",))}


@pytest.mark.parametrize(
    "notes",
    [
        pytest.param(["1<p:a 0-9", "2<p:b 5-6"], id="both below one"),
        pytest.param(["1<p:a 0-9", "2<q:b 10-20"], id="it began afterwards"),
        pytest.param(["1<-:a 0-9", "2<-:b 5-6"], id="both are roots"),
        pytest.param(["1<-:a 0-9", "2<-:b 5-6", "3<q:c 10-20"], id="several roots, and afterwards"),
        pytest.param(["1<p:a 0-9", "2<q:a 5-6"], id="both are of one run"),
    ],
)
def test_else_a_run_beside_another_is_none_of_it(notes: list[str]) -> None:
    assert across([], tops(*notes)) == {}


def test_of_two_that_began_at_once_below_two_unknown_spans_either_may_be_inside() -> None:
    assert across([], tops("1<p:a 0-9", "2<q:b 0-9")) == {
        "a": Across(perhaps_inside=("b",)),
        "b": Across(perhaps_inside=("a",)),
    }


def test_the_unknown_span_is_the_one_above_all_that_are_known() -> None:
    known = links("x<p:-", "y<q:-")

    assert across(known, tops("1<x:a 0-9", "2<p:b 5-6")) == {}
    assert across(known, tops("1<x:a 0-9", "2<y:b 5-6")) == {"a": Across(perhaps_inside=("b",))}


def test_a_root_of_no_run_makes_no_run_the_root_of_the_trace() -> None:
    """A harness that was stored; one of its runs lies behind a server."""
    known = links("h<-:-", "1<h:a")

    assert across(known, tops("1<h:a 0-9", "2<q:b 50-60")) == {}


def test_what_is_known_to_be_inside_is_told_once() -> None:
    """One span of it hangs below a span of the outer run, another below an unknown one."""
    found = across(links("1<-:a", "2<1:b"), tops("1<-:a 0-9", "2<1:b 2-3", "3<q:b 5-6"))

    assert found == {"a": Across(inside=("b",))}


def test_spans_that_have_a_parent_in_their_run_are_no_tops() -> None:
    """The run began below the span that the other one began below."""
    known = links("1<p:a", "2<1:a")

    assert across(known, tops("1<p:a 0-9", "2<1:a 1-8", "3<p:b 5-6")) == {}


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


some_tops = st.lists(
    st.builds(
        Top,
        st.sampled_from("tu"),
        st.sampled_from("123456"),
        st.sampled_from([None, *"1234567"]),
        st.sampled_from("abc"),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=8,
)


@given(some_links, some_tops, st.randoms(use_true_random=False))
def test_order_and_repetition_mean_nothing(found: list[Link], begun: list[Top], rng) -> None:
    shuffled, again = [*found, *found[:3]], [*begun, *begun[:3]]
    rng.shuffle(shuffled)
    rng.shuffle(again)

    assert across(shuffled, again) == across(found, begun)


@given(some_links, some_tops)
def test_with_fewer_links_more_may_be_inside_and_never_less(
    found: list[Link], begun: list[Top]
) -> None:
    """So a first look, at the tops alone, finds all that must be read."""
    with_all = across(found, begun)
    with_none = across([], begun)

    for run_id, each in with_all.items():
        alone = with_none.get(run_id, Across())
        assert set(each.perhaps_inside) <= set(alone.perhaps_inside)


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
        (
            Across(perhaps_inside=("b",)),
            (WithheldCause.COMPLETENESS_UNPROVEN,),
            (
                "another run began in the trace of this one, below a span that is not here, and"
                " nothing shows that its turns are not this one's: b"
            ),
        ),
    ],
)
def test_it_is_held_against_the_run(script, assembled_across, found, causes, problem) -> None:
    run = assembled_across(script().turns(2).done(), found)

    assert run.causes == causes
    assert run.problems == ((problem,) if problem else ())
