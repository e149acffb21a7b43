"""Spans of one run: copies put together, contradictions told, ancestors found."""

from __future__ import annotations

from itertools import permutations

import msgspec
from msgspec.structs import replace

from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.vocabulary import Entry


def conflicts(facts):
    return SpanTree(facts).conflicts


def test_the_same_span_delivered_often_is_one_span(script) -> None:
    facts = script().turns(2).done()

    tree = SpanTree(facts * 29)

    assert tree.facts == SpanTree(facts).facts
    assert len(tree.facts) == len(facts)
    assert tree.conflicts == []


def test_copies_that_are_equal_but_not_identical_are_one_span(script) -> None:
    facts = script().turns(1).done()

    again = [msgspec.json.decode(msgspec.json.encode(fact), type=type(fact)) for fact in facts]

    assert SpanTree(facts + again).facts == SpanTree(facts).facts


def test_two_contents_under_one_span_id_are_one_span_and_a_conflict(script) -> None:
    facts = script().turns(1).done()
    other = replace(facts[1], failed=True)

    tree = SpanTree([*facts, other])

    assert len(tree.facts) == len(facts)
    assert tree.conflicts == [f"different contents under span id {facts[1].span_id}"]


def test_conflicts_read_the_same_in_any_order_and_repetition(script) -> None:
    """Three contents, one of them often, must not tell who came first."""
    [root, turn, _] = script().turns(1).done()
    contents = [turn, replace(turn, failed=True), replace(turn, agent="other"), turn, root]
    seen = {
        (tuple(tree.conflicts), tuple(map(repr, tree.facts)))
        for order in permutations([*contents, contents[1]])
        for tree in [SpanTree(order)]
    }

    assert len(seen) == 1


def test_conflicts_are_listed_by_span_id_not_by_arrival(script) -> None:
    facts = script().turns(2).done()
    others = [replace(fact, failed=True) for fact in facts]

    assert conflicts(facts + others) == conflicts(others[::-1] + facts[::-1])


def test_equal_span_ids_in_two_traces_are_two_spans(script) -> None:
    [root, *_] = script().done()

    tree = SpanTree([root, replace(root, trace_id="another", run_id="other")])

    assert len(tree.facts) == 2
    assert tree.conflicts == []


def test_an_entry_exported_again_under_fresh_ids_is_one_entry(script) -> None:
    """A09: after a crash between delivery and marking, everything is sent with new ids."""
    facts = script().turns(2, tools=1).done()
    again = [
        replace(
            fact,
            trace_id="fresh",
            span_id=f"fresh-{fact.span_id}",
            parent_id=fact.parent_id and f"fresh-{fact.parent_id}",
        )
        for fact in facts
    ]

    tree = SpanTree(facts + again)

    assert [fact.seq for fact in tree.facts].count(3) == 1
    assert len(tree.facts) == len(facts)
    assert tree.conflicts == []


def test_a_run_id_used_again_after_its_invoke_ended_is_a_conflict(script) -> None:
    """Two executions with equal entries; an export again or a replay begins before the end."""
    facts = script().turns(1).done()
    later = max(fact.end_ns for fact in facts)
    second = [
        replace(
            fact,
            trace_id="trace-of-another-execution",
            start_ns=fact.start_ns + later,
            end_ns=fact.end_ns + later,
        )
        for fact in facts
    ]

    assert conflicts([*facts, *second]) == ["the run id was used again after entry 0 had ended"]


def test_a_child_of_a_copy_has_the_first_export_as_its_parent(script) -> None:
    facts = script().turns(1).done()
    turn = facts[1]
    copy = replace(turn, span_id="copy", start_ns=turn.start_ns + 1)
    child = replace(facts[2], parent_id="copy")

    tree = SpanTree([facts[0], turn, copy, child])

    assert tree.parent(child) == turn


def test_two_different_entries_with_one_number_are_a_conflict(script) -> None:
    facts = script().turns(1).done()
    other = replace(facts[2], span_id="other", call=replace(facts[2].call, model="other"))

    assert conflicts([*facts, other]) == ["two different entries with sequence number 2"]


def test_numbers_of_two_runs_in_one_trace_do_not_meet(script) -> None:
    one, two = script("k", trace_id="t").turns(1).done(), script("c", trace_id="t").turns(1).done()

    tree = SpanTree(one + two)

    assert len(tree.facts) == len(one) + len(two)
    assert tree.conflicts == []


def test_others_spans_with_one_number_are_left_alone(script) -> None:
    run = script()
    run.foreign(Entry.LLM_CALL, seq=1)
    run.foreign(Entry.LLM_CALL, seq=1)

    assert len(SpanTree(run.done()).facts) == 3


def test_a_cycle_of_parents_ends(script) -> None:
    run = script()
    one = run.foreign(None, span_id="a", parent_id="b")
    two = run.foreign(None, span_id="b", parent_id="a")

    tree = SpanTree([one, two])

    assert list(tree.ancestors(one)) == [two]


def test_a_span_that_is_its_own_parent_has_no_ancestor(script) -> None:
    own_parent = script().foreign(None, span_id="a", parent_id="a")

    assert list(SpanTree([own_parent]).ancestors(own_parent)) == []
