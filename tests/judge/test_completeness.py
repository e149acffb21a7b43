"""Whether a run proves that nothing of it is missing: absence is never avoidance."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from otel_turnavoid.judge.facts import Counts, Usage
from otel_turnavoid.vocabulary import (
    Arm,
    Disposition,
    Entry,
    InvokeState,
    Lifecycle,
    Rejection,
    WithheldCause,
)

INCOMPLETE = (WithheldCause.INCOMPLETE_RUN,)
UNPROVEN = (WithheldCause.COMPLETENESS_UNPROVEN,)
CONFLICTING = (WithheldCause.CONFLICTING_EVIDENCE,)


def verdict(run):
    return run.ended, run.causes, run.problems


def test_a_run_with_all_that_it_declared_is_whole(script, assembled) -> None:
    run = assembled(script().turns(3, tools=2).done())

    assert verdict(run) == (True, (), ())
    assert run.whole


def test_a_run_that_needed_no_model_is_whole(script, assembled) -> None:
    run = assembled(script().done())

    assert verdict(run) == (True, (), ())
    assert (run.model_turns, run.llm_calls, run.tool_calls) == (0, 0, 0)


@pytest.mark.parametrize("lost", range(1, 10))
def test_any_lost_entry_makes_a_run_incomplete(script, assembled, lost: int) -> None:
    facts = script().turns(3, tools=1).done()
    del facts[lost]

    run = assembled(facts)

    assert run.causes == INCOMPLETE
    assert f"1 sequence number never arrived: {lost}" in run.problems


def test_a_number_that_nobody_can_count_to_is_answered_at_once(script, assembled) -> None:
    run = script().turns(1)
    said = replace(run.counts(), entries=2**63 - 1)

    found = assembled(run.done(counts=said))

    assert (
        "9223372036854775804 sequence numbers never arrived: 3, 4, 5, 6, 7, 8, 9, 10, …"
        in found.problems
    )


def test_the_first_half_lost_makes_a_run_incomplete(script, assembled) -> None:
    """A17."""
    facts = script().turns(6).done()

    run = assembled([facts[0], *facts[7:]])

    assert run.causes == INCOMPLETE
    assert "6 sequence numbers never arrived: 1, 2, 3, 4, 5, 6" in run.problems


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("agent_turns", "{} AgentTurns declared, 2 seen"),
        ("llm_calls", "{} LlmCalls declared, 2 seen"),
        ("tool_turns", "{} ToolTurns declared, 2 seen"),
        ("entries", "{} entries declared, 7 seen"),
    ],
)
@pytest.mark.parametrize("more", [-1, 1])
def test_each_count_must_be_what_arrived(script, assembled, field, problem, more: int) -> None:
    run = script().turns(2, tools=1)
    declared = {name: getattr(run.counts(), name) for name in Counts.__struct_fields__}
    declared[field] += more

    found = assembled(run.done(counts=Counts(**declared)))

    assert found.causes == INCOMPLETE
    assert problem.format(declared[field]) in found.problems


def test_a_number_beyond_the_declared_ones_is_seen(script, assembled) -> None:
    run = script().turns(1)
    counts = run.counts()
    run.add(Entry.SYSTEM_TURN)

    found = assembled(run.done(counts=counts))

    assert found.problems == (
        "3 entries declared, 4 seen",
        "sequence number 3 is beyond the 3 declared entries",
    )


def test_an_entry_without_a_number_fills_no_gap(script, assembled) -> None:
    facts = script().turns(1).done()
    facts[2] = replace(facts[2], seq=None)

    assert assembled(facts).causes == INCOMPLETE


def test_a_lost_call_is_not_made_up_by_somebody_elses(script, assembled) -> None:
    run = script().turns(2)
    facts = run.done()
    stamped = run.foreign(Entry.LLM_CALL, stamped=True)

    found = assembled([*(fact for fact in facts if fact.seq != 4), stamped])

    assert found.causes == INCOMPLETE


def test_many_lost_numbers_are_told_in_one_short_line(script, assembled) -> None:
    run = script().done(counts=Counts(0, 0, 0, 2**40))

    found = assembled(run)

    assert found.causes == INCOMPLETE
    assert max(map(len, found.problems)) < 120


def test_without_counts_nothing_is_proven(script, assembled) -> None:
    run = assembled(script().turns(2).done(counts=None))

    assert verdict(run) == (
        True,
        UNPROVEN,
        ("the Invoke declares no counts, so nothing proves that all spans arrived",),
    )


def test_without_counts_a_gap_in_the_numbers_still_shows_that_something_is_lost(
    script, assembled
) -> None:
    facts = script().turns(2).done(counts=None)
    del facts[2]

    run = assembled(facts)

    assert run.causes == (*INCOMPLETE, *UNPROVEN)
    assert "1 sequence number never arrived: 2" in run.problems


def test_without_its_invoke_a_run_has_not_ended(script, assembled) -> None:
    [_, *rest] = script().turns(2).done()

    run = assembled(rest)

    assert verdict(run) == (
        False,
        INCOMPLETE,
        ("the run has not ended: its Invoke never arrived",),
    )
    assert run.model_turns == 2


# Turns that no call shows


def test_a_committed_turn_beside_calls_that_are_not_in_it_proves_nothing(script, assembled) -> None:
    """A control pads itself with turns; a candidate leaves calls of its turns unrecorded."""
    run = script().turns(2)
    run.turn()

    found = assembled(run.done())

    assert (found.causes, found.model_turns) == (UNPROVEN, 3)
    assert found.problems == (
        (
            "1 committed AgentTurns hold none of the 2 declared calls; a turn in which no model"
            " was asked is not committed"
        ),
    )


def test_where_calls_are_never_instrumented_turns_are_believed(script, assembled) -> None:
    run = script()
    run.turn()
    run.turn()

    found = assembled(run.done())

    assert (found.causes, found.model_turns) == ((), 2)


@pytest.mark.parametrize("says", [Disposition.FAILED, Disposition.DISCARDED])
def test_a_turn_without_calls_that_was_not_committed_pads_nothing(script, assembled, says) -> None:
    run = script().turns(2)
    run.turn(says=says)

    assert assembled(run.done()).causes == ()


def test_a_lost_call_is_a_lost_call_and_no_made_up_turn(script, assembled) -> None:
    facts = script().turns(2).done()

    assert assembled([fact for fact in facts if fact.seq != 2]).causes == INCOMPLETE


# Generations that state one input


@pytest.mark.parametrize(
    ("others", "causes"),
    [
        pytest.param({}, CONFLICTING, id="more tokens of the same input"),
        pytest.param({"model": "another"}, (), id="another model counts otherwise"),
        pytest.param({"samplings": 4}, (), id="inner samplings add up"),
        pytest.param({"disposition": Disposition.DISCARDED}, (), id="thrown away anyway"),
        pytest.param({"disposition": Disposition.FAILED}, (), id="an attempt that failed"),
        pytest.param({"usage": Usage(input=900, cache_read=700)}, (), id="cached tokens"),
        pytest.param({"usage": Usage(input=200)}, (), id="the same tokens"),
        pytest.param({"input_digest": None}, (), id="an input that is not stated"),
    ],
)
def test_one_input_has_one_number_of_tokens(script, assembled, number, others, causes) -> None:
    """A digest of too little, such as of the instructions alone, would hide every turn."""
    run = script()
    again = {"input_digest": number(1), "usage": Usage(input=900), **others}
    run.turn({"input_digest": number(1), "usage": Usage(input=200)}, again)

    found = assembled(run.done())

    assert found.causes == causes
    assert found.problems == (
        ("calls with one input digest differ in their input tokens: 200, 900",) if causes else ()
    )


# What the sender itself says is missing


def test_attributes_dropped_from_one_of_our_spans_are_missing(script, assembled) -> None:
    facts = script().turns(1).done()
    facts[2] = replace(facts[2], dropped=3)

    found = assembled(facts)

    assert found.causes == INCOMPLETE
    assert found.problems == (
        f"span {facts[2].span_id}: 3 attributes were dropped by a span limit",
    )


def test_attributes_dropped_from_others_spans_are_theirs(script, assembled) -> None:
    run = script()
    turn = run.turn({})
    run.foreign(Entry.LLM_CALL, run.spans[-1], start_ms=10, ms=10, dropped=9)
    assert turn.own

    assert assembled(run.done()).causes == ()


def test_entries_that_were_not_wholly_recorded_are_missing(script, assembled) -> None:
    found = assembled(script().turns(1).done(impaired=2))

    assert found.causes == INCOMPLETE
    assert found.problems == ("the Invoke says that 2 entries were not, or not wholly, recorded",)


# Segments of a run that paused


def paused_run(script, *, resumed: bool = True):
    run = script().turns(2)
    first = run.done(state=InvokeState.PAUSED, counts=None)
    if not resumed:
        return first, []
    last = run.add(Entry.INVOKE, trace_id="later", parent_id=None)
    run.turns(1)
    counts = run.counts()
    declared = replace(first[0].invoke, state=InvokeState.COMPLETED, counts=counts)
    last = replace(last, invoke=declared)
    rest = run.spans[len(first) :]
    return first, [last, *rest]


def test_segments_of_a_resumed_run_are_one_run(script, assembled) -> None:
    """A33."""
    first, last = paused_run(script)

    run = assembled(last + first)

    assert verdict(run) == (True, (), ())
    assert (run.model_turns, run.state) == (3, InvokeState.COMPLETED)
    assert run.trace_ids == ("later", "trace-of-k")


def test_a_paused_run_has_not_ended(script, assembled) -> None:
    first, _ = paused_run(script, resumed=False)

    run = assembled(first)

    assert (run.ended, run.causes, run.rejections) == (False, (*INCOMPLETE, *UNPROVEN), ())
    assert "the run has not ended: paused and did not go on" in run.problems


def test_a_resumed_run_without_its_first_segment_is_incomplete(script, assembled) -> None:
    _, last = paused_run(script)

    assert assembled(last).causes == INCOMPLETE


def test_a_segment_that_goes_on_in_the_same_trace_declares_the_totals(script, assembled) -> None:
    first, last = paused_run(script)
    [invoke, *rest] = last
    invoke = replace(invoke, trace_id=first[0].trace_id, parent_id=first[0].span_id)

    assert verdict(assembled([*first, invoke, *rest])) == (True, (), ())


def test_segments_are_in_the_order_of_their_numbers_whatever_the_clocks_say(
    script, assembled
) -> None:
    """The second process is a day behind; what it says last is what holds."""
    first, [invoke, *rest] = paused_run(script)
    said = replace(invoke.invoke, lifecycle=Lifecycle.ATTEMPTED)
    day_ns = 24 * 3600 * 10**9
    invoke = replace(invoke, invoke=said, start_ns=invoke.start_ns - day_ns)

    run = assembled([*first, invoke, *rest])

    assert (run.lifecycle, run.causes) == (Lifecycle.ATTEMPTED, ())


def test_two_segments_with_different_totals_contradict_each_other(script, assembled) -> None:
    first, last = paused_run(script)
    other = replace(first[0].invoke, counts=Counts(1, 1, 1, 1))

    run = assembled([replace(first[0], invoke=other), *first[1:], *last])

    assert run.causes == (WithheldCause.CONFLICTING_EVIDENCE,)


# Sub-agents


def with_sub_agent(script, *, sub_state=InvokeState.COMPLETED, apart=False, **said):
    run = script().turns(1)
    more = {"trace_id": "apart", "parent_id": None} if apart else {}
    inner = run.add(Entry.INVOKE, run.spans[0], **more)
    at = len(run.spans) - 1
    run.turn({}, parent=inner)
    detail = replace(run.done()[0].invoke, state=sub_state, counts=None, digest=None)
    run.spans[at] = replace(inner, invoke=detail, end_ns=run.spans[-1].end_ns)
    return run.done(**said)


@pytest.mark.parametrize("apart", [False, True])
def test_a_sub_agents_invoke_is_an_entry_and_declares_nothing(script, assembled, apart) -> None:
    run = assembled(with_sub_agent(script, apart=apart))

    assert verdict(run) == (True, (), ())
    assert run.model_turns == 2


@pytest.mark.parametrize("apart", [False, True])
def test_a_failed_run_is_not_saved_by_a_sub_agent_that_completed(script, assembled, apart) -> None:
    """Also where the sub-agent ran in a trace of its own, and ended last."""
    run = assembled(with_sub_agent(script, apart=apart, state=InvokeState.FAILED))

    assert run.causes == (WithheldCause.RUN_NOT_COMPLETED,)


@pytest.mark.parametrize("apart", [False, True])
def test_a_failed_or_paused_sub_agent_is_the_business_of_its_caller(
    script, assembled, apart
) -> None:
    for state in (InvokeState.FAILED, InvokeState.ABORTED, InvokeState.PAUSED):
        run = assembled(with_sub_agent(script, apart=apart, sub_state=state))

        assert verdict(run) == (True, (), ())


@pytest.mark.parametrize("apart", [False, True])
def test_a_sub_agents_invoke_does_not_end_a_run_whose_own_has_not_arrived(
    script, assembled, apart
) -> None:
    """Sub-agents end, and are exported, long before their caller: nothing may be final yet."""
    [_, *rest] = with_sub_agent(script, apart=apart)

    run = assembled(rest)

    assert (run.ended, run.causes, run.rejections) == (False, INCOMPLETE, ())


# Spans of others inside a run


def test_an_agent_span_of_others_is_no_invoke_of_ours(script, assembled) -> None:
    run = script().turns(1)
    run.foreign(Entry.INVOKE, stamped=True, parent_id=None, trace_id="apart", failed=True)

    assert verdict(assembled(run.done())) == (True, (), ())
    assert not assembled(run.spans).ended


def test_a_call_of_others_that_the_invoke_did_not_declare_is_seen(script, assembled) -> None:
    run = script().turns(1)
    facts = run.done()
    hidden = run.foreign(Entry.LLM_CALL)

    found = assembled([*facts, hidden])

    assert found.causes == INCOMPLETE
    assert found.problems == ("1 calls or tools inside the run were not declared by its Invoke",)


def test_an_undeclared_copy_of_a_declared_call_is_no_call(script, assembled) -> None:
    run = script()
    turn = run.turn({})
    run.foreign(Entry.LLM_CALL, run.spans[-1], start_ms=10, ms=10)
    assert turn.own

    assert verdict(assembled(run.done())) == (True, (), ())


def test_stamped_spans_of_others_are_counted_raw(script, assembled) -> None:
    """Framework and provider show each call: four spans are declared, two calls are counted."""
    run = script()
    for _ in range(2):
        turn = run.turn()
        outer = run.foreign(Entry.LLM_CALL, turn, stamped=True, scope="framework", ms=100)
        begun_ms = run.now_ms - 90
        run.foreign(Entry.LLM_CALL, outer, stamped=True, scope="provider", start_ms=begun_ms, ms=80)
    facts = run.done()

    found = assembled(facts)

    assert facts[0].invoke.counts.llm_calls == 4
    assert verdict(found) == (True, (), ())
    assert (found.llm_calls, found.model_turns) == (2, 2)


def test_a_lost_stamped_span_makes_a_run_incomplete(script, assembled) -> None:
    run = script()
    run.turn()
    run.foreign(Entry.LLM_CALL, stamped=True)
    run.foreign(Entry.TOOL_TURN, stamped=True)
    facts = run.done()

    assert assembled(facts).causes == ()
    assert assembled(facts[:-1]).problems == ("1 ToolTurns declared, 0 seen",)
    assert assembled([*facts[:-2], facts[-1]]).problems == ("1 LlmCalls declared, 0 seen",)


def test_failed_calls_of_every_purpose_are_counted(script, assembled) -> None:
    run = script(arm=Arm.CONTROL)
    run.turn({"disposition": Disposition.FAILED}, {})
    run.call(purpose="side")

    facts = run.done()

    assert facts[0].invoke.counts == Counts(agent_turns=1, llm_calls=3, tool_turns=0, entries=5)
    assert assembled(facts).causes == ()


def test_a_malformed_run_is_refused_and_not_called_incomplete(script, assembled) -> None:
    found = assembled(script().turns(1).done(digest=None))

    assert (found.rejections, found.causes) == ((Rejection.DIGEST,), ())
