"""Model calls and tool executions, each once, however many spans show it."""

from __future__ import annotations

from itertools import permutations

import pytest

from otel_turnavoid.judge.calls import calls_of, loop_inside, tools_of
from otel_turnavoid.judge.facts import CallDetail, ToolDetail, Usage
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.vocabulary import Disposition, Entry, Purpose, ToolDisposition

CALL, TOOL = Entry.LLM_CALL, Entry.TOOL_TURN


def shown(run):
    """Each call as the span ids that show it, the one that stands for it first."""
    calls = calls_of(SpanTree([run.root, *run.spans]))
    return [[fact.span_id for fact in (call.fact, *call.copies)] for call in calls]


def named(*groups):
    return [[fact.span_id for fact in group] for group in groups]


def answer(response_id, **said):
    return CallDetail(response_id=response_id, **said)


def test_a_framework_and_a_provider_span_nested_are_one_call(script) -> None:
    """A01."""
    run = script()
    framework = run.foreign(CALL, scope="langchain", ms=100, start_ms=0)
    provider = run.foreign(CALL, framework, scope="anthropic", ms=80, start_ms=10)

    assert shown(run) == named([framework, provider])


def test_three_layers_with_a_link_between_are_one_call(script) -> None:
    run = script()
    outer = run.foreign(CALL, ms=100, start_ms=0)
    link = run.foreign(None, outer, ms=90, start_ms=5)
    middle = run.foreign(CALL, link, ms=80, start_ms=10)
    inner = run.foreign(CALL, middle, ms=70, start_ms=11)

    assert shown(run) == named([outer, middle, inner])


def test_nested_copies_are_one_call_whatever_their_clocks_say(script) -> None:
    """The inner span's process is behind: it seems to start before the outer one."""
    run = script()
    outer = run.foreign(CALL, start_ms=100, ms=100)
    inner = run.foreign(CALL, outer, start_ms=50, ms=100)

    assert shown(run) == named([outer, inner])


def test_siblings_of_two_instrumentations_with_one_response_id_are_one_call(script) -> None:
    run = script()
    one = run.foreign(CALL, scope="a", call=answer("r1"), start_ms=0, ms=100)
    two = run.foreign(CALL, scope="b", call=answer("r1"), start_ms=10, ms=80)

    assert shown(run) == named([one, two])


def test_a_copy_in_another_trace_is_known_by_its_response_id(script) -> None:
    """A10: a real span, and one synthesised from a log event."""
    run = script()
    real = run.foreign(CALL, scope="a", call=answer("r1"), start_ms=0, ms=100, stamped=True)
    made = run.foreign(
        CALL, scope="b", call=answer("r1"), start_ms=5, ms=0, trace_id="u", stamped=True
    )

    assert shown(run) == named([real, made])


def test_siblings_with_different_response_ids_are_two_calls(script) -> None:
    run = script()
    one = run.foreign(CALL, scope="a", call=answer("r1"), start_ms=0, ms=100)
    two = run.foreign(CALL, scope="b", call=answer("r2"), start_ms=0, ms=100)

    assert shown(run) == named([one], [two])


@pytest.mark.parametrize("gap_ms", [0, 1, 60_000])
def test_a_stored_answer_given_again_with_its_id_is_another_call(script, gap_ms: int) -> None:
    """Also where it starts at the very moment at which the first one ended."""
    run = script()
    one = run.foreign(CALL, scope="a", call=answer("r1"), start_ms=0, ms=100)
    two = run.foreign(CALL, scope="b", call=answer("r1"), start_ms=100 + gap_ms, ms=100)

    assert shown(run) == named([one], [two])


def test_one_instrumentation_shows_parallel_stored_answers_as_two_calls(script) -> None:
    run = script()
    one = run.foreign(CALL, scope="a", call=answer("r1"), start_ms=0, ms=100)
    two = run.foreign(CALL, scope="a", call=answer("r1"), start_ms=10, ms=100)

    assert shown(run) == named([one], [two])


def test_siblings_without_ids_are_two_calls(script) -> None:
    run = script()
    one = run.foreign(CALL, start_ms=0, ms=100)
    two = run.foreign(CALL, start_ms=0, ms=100)

    assert shown(run) == named([one], [two])


def test_our_call_stands_for_others_inside_it(script) -> None:
    run = script()
    ours = run.call(start_ms=0, ms=100)
    theirs = run.foreign(CALL, ours, start_ms=10, ms=80)

    assert shown(run) == named([ours, theirs])


def test_our_call_stands_for_the_one_that_wraps_it(script) -> None:
    run = script()
    theirs = run.foreign(CALL, start_ms=0, ms=100)
    ours = run.call(theirs, start_ms=10, ms=80)

    assert shown(run) == named([ours, theirs])


def test_two_of_ours_are_never_one_call(script) -> None:
    run = script()
    outer = run.call(start_ms=0, ms=100, response_id="r1")
    inner = run.call(outer, start_ms=10, ms=80, response_id="r1")

    assert shown(run) == named([outer], [inner])


def test_a_span_that_wraps_two_attempts_of_ours_shows_the_last(script) -> None:
    run = script()
    theirs = run.foreign(CALL, start_ms=0, ms=300)
    failed = run.call(theirs, start_ms=10, ms=80, disposition=Disposition.FAILED, usage=Usage())
    again = run.call(theirs, start_ms=100, ms=80)

    assert shown(run) == named([failed], [again, theirs])


def test_a_span_with_a_lost_parent_inside_one_call_of_ours_is_its_copy(script) -> None:
    run = script()
    ours = run.call(start_ms=0, ms=100)
    theirs = run.foreign(CALL, start_ms=10, ms=80, parent_id="never-stored")

    assert shown(run) == named([ours, theirs])


def test_a_span_with_a_lost_parent_inside_two_calls_of_ours_is_its_own(script) -> None:
    run = script()
    one = run.call(start_ms=0, ms=100)
    two = run.call(start_ms=0, ms=100)
    theirs = run.foreign(CALL, start_ms=10, ms=80, parent_id="never-stored")

    assert shown(run) == named([one], [two], [theirs])


def test_an_inner_agents_call_below_a_tool_inside_a_model_span_is_no_copy(script) -> None:
    """Google's ADK runs tools inside of the model span that asked for them."""
    run = script()
    outer = run.foreign(CALL, start_ms=0, ms=1000)
    tool = run.foreign(TOOL, outer, start_ms=100, ms=800)
    agent = run.foreign(Entry.INVOKE, tool, start_ms=110, ms=700)
    inner = run.foreign(CALL, agent, start_ms=120, ms=600)

    assert shown(run) == named([outer], [inner])


def test_copies_are_found_in_any_order(script) -> None:
    run = script()
    ours = run.call(start_ms=0, ms=100, response_id="r1")
    run.foreign(CALL, ours, start_ms=10, ms=80)
    outer = run.foreign(CALL, scope="a", call=answer("r2"), start_ms=200, ms=100)
    run.foreign(CALL, outer, scope="b", start_ms=200, ms=100)
    run.foreign(CALL, scope="c", call=answer("r2"), start_ms=200, ms=100)

    orders = permutations(run.spans)
    seen = {repr(calls_of(SpanTree([run.root, *order]))) for order in orders}

    assert len(seen) == 1
    assert [len(group) for group in shown(run)] == [2, 3]


def test_what_copies_say_is_joined(script) -> None:
    """A02: one layer has the tokens, the other the model. The inner one saw the answer itself."""
    run = script()
    outer = run.foreign(CALL, call=CallDetail(usage=Usage(input=7)), ms=100, start_ms=0)
    run.foreign(
        CALL,
        outer,
        call=CallDetail(model="gemini", usage=Usage(input=9, output=3)),
        cost_usd=0.5,
        ms=80,
        start_ms=10,
    )

    [call] = calls_of(SpanTree(run.spans))

    assert (call.model, call.usage, call.cost_usd) == ("gemini", Usage(input=9, output=3), 0.5)


@pytest.mark.parametrize(
    ("said", "failed", "became"),
    [
        (None, False, Disposition.COMMITTED),
        (None, True, Disposition.FAILED),
        (Disposition.COMMITTED, True, Disposition.COMMITTED),
        (Disposition.DISCARDED, False, Disposition.DISCARDED),
        (Disposition.FAILED, False, Disposition.FAILED),
    ],
)
def test_what_became_of_a_call_is_stated_or_shown_by_its_status(
    script, said, failed, became
) -> None:
    run = script()
    run.call(disposition=said, failed=failed)

    [call] = calls_of(SpanTree(run.spans))

    assert call.disposition is became


@pytest.mark.parametrize(
    ("detail", "generated"),
    [
        ({}, True),
        ({"purpose": Purpose.AGENT}, True),
        ({"purpose": Purpose.SPECULATION}, True),
        ({"purpose": Purpose.VALIDATION}, False),
        ({"purpose": Purpose.COMPACTION}, False),
        ({"purpose": Purpose.SIDE}, False),
        ({"disposition": Disposition.FAILED}, False),
        ({"disposition": Disposition.DISCARDED}, False),
        ({"samplings": 0}, False),
        ({"samplings": 1}, True),
        ({"samplings": 5}, True),
    ],
)
def test_a_generation_is_successful_the_agents_and_sampled(script, detail, generated) -> None:
    run = script()
    run.call(**detail)

    [call] = calls_of(SpanTree(run.spans))

    assert call.generated is generated


def test_a_call_of_which_nothing_is_said_is_a_generation_of_the_agent(script) -> None:
    run = script()
    run.add(CALL)

    [call] = calls_of(SpanTree(run.spans))

    assert (call.purpose, call.generated, call.usage) == (Purpose.AGENT, True, Usage())


def test_tools_are_known_by_their_call_id(script) -> None:
    run = script()
    run.foreign(TOOL, scope="a", tool=ToolDetail(call_id="1"), start_ms=0, ms=100)
    run.foreign(TOOL, scope="b", tool=ToolDetail(call_id="1"), start_ms=10, ms=80)
    run.foreign(TOOL, scope="b", tool=ToolDetail(call_id="2"), start_ms=10, ms=80)

    assert len(tools_of(SpanTree(run.spans))) == 2


def test_a_tool_of_which_nothing_is_said_is_executed(script) -> None:
    run = script()
    run.add(TOOL)

    [tool] = tools_of(SpanTree(run.spans))

    assert (tool.disposition, tool.executed) == (ToolDisposition.EXECUTED, True)


@pytest.mark.parametrize("disposition", ToolDisposition)
def test_a_tool_counts_as_executed_where_its_result_was_used(script, disposition) -> None:
    run = script()
    run.tool(disposition=disposition)

    [tool] = tools_of(SpanTree(run.spans))

    assert tool.executed is (disposition in (ToolDisposition.EXECUTED, ToolDisposition.SPECULATED))


class TestLoopInside:
    """One span for a whole loop, as of a client that calls functions by itself."""

    @staticmethod
    def found(run):
        tree = SpanTree([run.root, *run.spans])
        return loop_inside(tree, calls_of(tree), tools_of(tree))

    def test_a_tool_inside_of_the_last_call_was_answered_in_the_same_span(self, script) -> None:
        run = script()
        call = run.foreign(CALL, start_ms=0, ms=100)
        run.foreign(TOOL, call, start_ms=20, ms=10)

        assert self.found(run) == call

    def test_a_later_call_may_be_the_one_that_read_the_result(self, script) -> None:
        """As where tools run inside the call that asked for them."""
        run = script()
        call = run.foreign(CALL, start_ms=0, ms=100)
        run.foreign(TOOL, call, start_ms=20, ms=10)
        run.foreign(CALL, start_ms=100, ms=50)

        assert self.found(run) is None

    def test_a_call_inside_that_came_after_the_tool_read_it(self, script) -> None:
        run = script()
        around = run.foreign(CALL, start_ms=0, ms=100, scope="wrapper")
        run.foreign(CALL, around, start_ms=1, ms=10)
        run.foreign(TOOL, around, start_ms=20, ms=10)
        run.foreign(CALL, around, start_ms=40, ms=10)

        assert self.found(run) is None

    def test_a_tool_beside_the_call_is_none_of_it(self, script) -> None:
        run = script()
        run.foreign(CALL, start_ms=0, ms=10)
        run.foreign(TOOL, start_ms=20, ms=10)

        assert self.found(run) is None

    def test_a_call_that_failed_read_nothing(self, script) -> None:
        run = script()
        call = run.foreign(CALL, start_ms=0, ms=100, failed=True)
        run.foreign(TOOL, call, start_ms=20, ms=10)

        assert self.found(run) is None

    def test_calls_of_ours_say_themselves_how_often_they_sampled(self, script) -> None:
        run = script()
        call = run.call(start_ms=0, ms=100)
        run.foreign(TOOL, call, start_ms=20, ms=10)

        assert self.found(run) is None
