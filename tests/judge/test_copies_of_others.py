"""One call is one call among the spans of other instrumentations, and by which rule."""

from __future__ import annotations

from itertools import permutations

import pytest

from otel_turnavoid.judge.calls import Rule, calls_of, tools_of
from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.vocabulary import Entry

CALL, TOOL = Entry.LLM_CALL, Entry.TOOL_TURN
SOME = Usage(input=120, output=20)


def calls(run):
    return calls_of(SpanTree([run.root, *run.spans]))


def rules(run):
    """The rules by which copies were known, a tuple for each call."""
    return [call.rules for call in calls(run)]


def says(usage=SOME, **said):
    return CallDetail(usage=usage, **said)


def beside(run, one, two, **said):
    """Two sibling spans of two scopes, the second within the time of the first."""
    run.foreign(CALL, scope="framework", call=one, start_ms=0, ms=100, **said)
    run.foreign(CALL, scope="provider", call=two, start_ms=10, ms=80, **said)


@pytest.mark.parametrize(
    ("one", "two", "rule"),
    [
        (says(response_id="r1"), says(response_id="r1"), Rule.RESPONSE_ID),
        (says(asks="c1"), says(asks="c1", response_id="r1"), Rule.TOOL_CALL_ID),
        (says(), says(response_id="r1"), Rule.TIME_AND_USAGE),
        (says(), says(usage=Usage(input=120)), Rule.TIME_AND_USAGE),
    ],
)
def test_siblings_of_two_instrumentations_are_one_call_by_the_first_rule(
    script, one, two, rule
) -> None:
    run = script()
    beside(run, one, two)

    assert rules(run) == [(rule,)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (says(response_id="r1"), says(response_id="r2")),
        (says(asks="c1"), says(asks="c2")),
        (says(), says(usage=Usage(input=121, output=20))),
        (says(), says(usage=Usage(input=120, output=21))),
        (says(), says(usage=Usage())),
        (says(usage=Usage()), says(usage=Usage())),
    ],
)
def test_what_contradicts_or_says_nothing_is_two_calls(script, one, two) -> None:
    run = script()
    beside(run, one, two)

    assert rules(run) == [(), ()]


def test_equal_usage_one_after_the_other_is_two_calls(script) -> None:
    run = script()
    run.foreign(CALL, scope="framework", call=says(), start_ms=0, ms=100)
    run.foreign(CALL, scope="provider", call=says(), start_ms=100, ms=100)

    assert rules(run) == [(), ()]


def test_equal_usage_of_one_instrumentation_is_two_calls(script) -> None:
    run = script()
    run.foreign(CALL, scope="provider", call=says(), start_ms=0, ms=100)
    run.foreign(CALL, scope="provider", call=says(), start_ms=10, ms=80)

    assert rules(run) == [(), ()]


def test_siblings_that_both_failed_are_one_failed_call(script) -> None:
    run = script()
    beside(run, CallDetail(), CallDetail(), failed=True)

    assert rules(run) == [(Rule.TIME_AND_USAGE,)]


def test_one_that_failed_beside_one_that_did_not_is_another(script) -> None:
    run = script()
    run.foreign(CALL, scope="framework", call=says(), start_ms=0, ms=100)
    run.foreign(CALL, scope="provider", call=CallDetail(), start_ms=10, ms=80, failed=True)

    assert rules(run) == [(), ()]


def test_time_alone_never_hides_a_call_beside_one_of_ours(script) -> None:
    run = script()
    run.call(start_ms=0, ms=100, usage=SOME)
    run.foreign(CALL, scope="provider", call=says(), start_ms=10, ms=80)

    assert rules(run) == [(), ()]


def test_parallel_calls_with_equal_usage_keep_their_number(script) -> None:
    run = script()
    for scope, ms in (("framework", 100), ("provider", 80)):
        for _ in range(3):
            run.foreign(CALL, scope=scope, call=says(), start_ms=100 - ms, ms=ms)

    assert rules(run) == [(Rule.TIME_AND_USAGE,)] * 3


def test_a_span_around_two_calls_of_one_instrumentation_shows_the_one_that_succeeded(
    script,
) -> None:
    """A46: a fallback to another model inside of one framework span."""
    run = script()
    around = run.foreign(CALL, scope="framework", call=says(), start_ms=0, ms=300)
    failed = run.foreign(CALL, around, call=CallDetail(), start_ms=10, ms=80, failed=True)
    answered = run.foreign(CALL, around, call=says(), start_ms=100, ms=80)

    groups = [[fact.span_id for fact in (call.fact, *call.copies)] for call in calls(run)]
    assert groups == [[around.span_id, answered.span_id], [failed.span_id]]


def test_a_span_around_two_answers_shows_two_calls(script) -> None:
    run = script()
    around = run.foreign(CALL, scope="framework", call=CallDetail(), start_ms=0, ms=300)
    for start_ms, name in ((10, "r1"), (100, "r2")):
        run.foreign(CALL, around, call=says(response_id=name), start_ms=start_ms, ms=80)

    assert [call.usage for call in calls(run)] == [SOME, SOME]


def test_tokens_that_wrappers_repeat_are_counted_once(script) -> None:
    """A12."""
    run = script()
    outer = run.foreign(CALL, scope="a", call=says(), start_ms=0, ms=100)
    run.foreign(CALL, outer, scope="b", call=says(), start_ms=10, ms=80)

    assert [call.usage for call in calls(run)] == [SOME]


@pytest.mark.parametrize(("resends", "attempts"), [(None, 1), (0, 1), (2, 3)])
def test_requests_sent_again_within_a_span_are_attempts(script, resends, attempts: int) -> None:
    run = script()
    outer = run.foreign(CALL, scope="a", call=says(), start_ms=0, ms=100)
    run.foreign(CALL, outer, scope="b", call=says(resends=resends), start_ms=10, ms=80)

    [call] = calls(run)
    assert call.attempts == attempts


@pytest.mark.parametrize(
    ("one", "two", "rule"),
    [
        (ToolDetail(name="lookup", call_id="c1"), ToolDetail(call_id="c1"), Rule.TOOL_CALL_ID),
        (ToolDetail(name="lookup"), ToolDetail(name="lookup", call_id="c1"), Rule.TIME_AND_NAME),
    ],
)
def test_siblings_of_one_tool_execution_are_one(script, one, two, rule) -> None:
    run = script()
    run.foreign(TOOL, scope="a", tool=one, start_ms=0, ms=100)
    run.foreign(TOOL, scope="b", tool=two, start_ms=10, ms=80)

    [tool] = tools_of(SpanTree(run.spans))
    assert tool.rules == (rule,)


def test_a_tool_inside_of_another_tool_is_its_own(script) -> None:
    """An agent that is called as a tool runs tools of its own, without an agent span between."""
    run = script()
    outer = run.foreign(TOOL, tool=ToolDetail(name="delegate"), start_ms=0, ms=100)
    run.foreign(TOOL, outer, tool=ToolDetail(name="lookup"), start_ms=10, ms=80)

    assert [tool.rules for tool in tools_of(SpanTree(run.spans))] == [(), ()]


def test_copies_are_the_same_in_any_order(script) -> None:
    run = script()
    beside(run, says(), says(response_id="r1"))
    run.foreign(CALL, scope="third", call=says(response_id="r1"), start_ms=20, ms=60)
    run.foreign(CALL, scope="provider", call=says(), start_ms=200, ms=10)

    seen = {repr(calls_of(SpanTree(order))) for order in permutations(run.spans)}

    assert len(seen) == 1
