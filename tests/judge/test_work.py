"""What a run's work took: every span once, overhead apart, durations and stated cost."""

from __future__ import annotations

import msgspec
import pytest

from otel_turnavoid.judge.calls import calls_of, tools_of
from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.judge.run import Batch, Work
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.turns import turns_of
from otel_turnavoid.judge.work import batches_of, work_of
from otel_turnavoid.vocabulary import (
    Disposition,
    Entry,
    OverheadKind,
    Purpose,
    ToolDisposition,
)


def parts(run):
    tree = SpanTree([run.root, *run.spans])
    return tree, turns_of(tree, calls_of(tree)), tools_of(tree)


def work(run) -> Work:
    """Return what a run spent, whether its cost was stated or not."""
    return msgspec.structs.replace(work_of(*parts(run)), unpriced_calls=0, unpriced_tools=0)


def unpriced(run) -> tuple[int, int]:
    spent = work_of(*parts(run))
    return (spent.unpriced_calls, spent.unpriced_tools)


def batches(run):
    _, turns, tools = parts(run)
    return batches_of(turns, tools)


def test_calls_are_model_work_and_tools_are_tool_work(script) -> None:
    run = script()
    run.turn({"ms": 1000, "cost_usd": 0.25})
    run.tool(ms=100, cost_usd=0.5)

    assert work(run) == Work(model_ms=1000, model_usd=0.25, tool_ms=100, tool_usd=0.5)


@pytest.mark.parametrize(
    ("said", "spent"),
    [
        ({"disposition": Disposition.FAILED}, {"retry_ms": 1000, "retry_usd": 1}),
        ({"disposition": Disposition.DISCARDED}, {"speculation_ms": 1000, "speculation_usd": 1}),
        ({"purpose": Purpose.VALIDATION}, {"validation_ms": 1000, "validation_usd": 1}),
        ({"purpose": Purpose.SPECULATION}, {"model_ms": 1000, "model_usd": 1}),
        ({"purpose": Purpose.COMPACTION}, {"model_ms": 1000, "model_usd": 1}),
        ({"purpose": Purpose.SIDE}, {"model_ms": 1000, "model_usd": 1}),
        ({"overhead": OverheadKind.RECOVERY}, {"recovery_ms": 1000, "recovery_usd": 1}),
    ],
)
def test_a_call_is_the_work_that_it_was_for(script, said, spent) -> None:
    run = script()
    run.turn({"cost_usd": 1.0, **said})

    assert work(run) == Work(**spent)


def test_calls_of_a_discarded_turn_are_speculation(script) -> None:
    run = script()
    run.turn({}, {"disposition": Disposition.FAILED}, says=Disposition.DISCARDED)

    assert work(run) == Work(speculation_ms=2000)


def test_a_discarded_tool_is_speculation(script) -> None:
    run = script()
    run.tool(disposition=ToolDisposition.DISCARDED)
    run.tool(disposition=ToolDisposition.SPECULATED)

    assert work(run) == Work(speculation_ms=100, tool_ms=100)


@pytest.mark.parametrize("kind", OverheadKind)
def test_any_span_can_be_overhead(script, kind: OverheadKind) -> None:
    run = script()
    run.foreign(None, overhead=kind, ms=30, cost_usd=0.5, stamped=True)

    assert work(run) == Work(**{f"{kind.value}_ms": 30, f"{kind.value}_usd": 0.5})


def test_a_call_inside_of_overhead_is_that_overhead_once(script) -> None:
    run = script()
    check = run.foreign(None, overhead=OverheadKind.VALIDATION, ms=1200, start_ms=0)
    run.call(check, start_ms=100, ms=1000)

    assert work(run) == Work(validation_ms=1200)


def test_cost_inside_of_overhead_that_states_none_is_its_cost(script) -> None:
    """Else a check could be paid for without showing in the net saving."""
    run = script()
    check = run.foreign(None, overhead=OverheadKind.VALIDATION, ms=1200, start_ms=0)
    run.call(check, start_ms=100, ms=1000, cost_usd=0.25)

    assert work(run) == Work(validation_ms=1200, validation_usd=0.25)


def test_cost_inside_of_overhead_that_states_its_own_is_in_it(script) -> None:
    run = script()
    check = run.foreign(None, overhead=OverheadKind.VALIDATION, ms=1200, start_ms=0, cost_usd=1.0)
    run.call(check, start_ms=100, ms=1000, cost_usd=0.25)

    assert work(run) == Work(validation_ms=1200, validation_usd=1.0)


def test_work_inside_of_a_tool_is_taken_out_of_it(script) -> None:
    """A sub-agent called as a tool: its model time is model time."""
    run = script()
    tool = run.tool(start_ms=0, ms=1000)
    run.call(tool, start_ms=100, ms=700)

    assert work(run) == Work(model_ms=700, tool_ms=300)


def test_parallel_work_inside_of_a_tool_leaves_none_of_it(script) -> None:
    run = script()
    tool = run.tool(start_ms=0, ms=1000)
    for _ in range(2):
        run.call(tool, start_ms=100, ms=700)

    assert work(run) == Work(model_ms=1400, tool_ms=0)


def test_two_spans_of_one_call_are_timed_once(script) -> None:
    run = script()
    outer = run.foreign(Entry.LLM_CALL, start_ms=0, ms=1000, cost_usd=0.5)
    run.foreign(Entry.LLM_CALL, outer, start_ms=100, ms=800, cost_usd=0.5)

    assert work(run) == Work(model_ms=1000, model_usd=0.5)


def test_a_span_that_ends_before_it_starts_took_no_time(script) -> None:
    """A clock set back must not pay for other spans' time."""
    run = script()
    run.call(ms=-5000)
    run.call(start_ms=0, ms=1000)

    assert work(run) == Work(model_ms=1000)


def test_sums_of_work(script) -> None:
    spent = Work(
        model_ms=1, tool_ms=2, validation_ms=4, speculation_ms=8, retry_ms=16, recovery_ms=32
    )

    assert (spent.gross_ms, spent.overhead_ms, spent.gross_usd, spent.overhead_usd) == (
        3,
        60,
        0,
        0,
    )


def test_tools_between_two_turns_are_a_batch(script) -> None:
    run = script()
    run.turn({})
    run.tool()
    run.turn({})
    run.tool(start_ms=5000, ms=100)
    run.tool(start_ms=5000, ms=100)
    run.tool(start_ms=5100, ms=100)
    run.turn({})

    assert batches(run) == (Batch(size=1, depth=1), Batch(size=3, depth=2))


def test_tools_that_overlap_are_one_deep(script) -> None:
    run = script()
    run.turn({})
    for number in range(4):
        run.tool(start_ms=2000 + number, ms=500)

    assert batches(run) == (Batch(size=4, depth=1),)


def test_tools_that_were_not_executed_are_in_no_batch(script) -> None:
    run = script()
    run.tool(disposition=ToolDisposition.REUSED)
    run.tool(disposition=ToolDisposition.DENIED)

    assert batches(run) == ()


def test_turns_that_are_not_committed_do_not_part_batches(script) -> None:
    run = script()
    run.turn({})
    run.tool()
    run.turn({"disposition": Disposition.FAILED})
    run.tool()

    assert batches(run) == (Batch(size=2, depth=2),)


def test_calls_and_executions_without_a_stated_cost_are_counted(script) -> None:
    run = script()
    run.turn({"cost_usd": 0.25}, {})
    run.tool(cost_usd=0.5)
    run.tool()

    assert unpriced(run) == (1, 1)


def test_a_failed_call_without_usage_is_free(script) -> None:
    run = script()
    run.turn({"disposition": Disposition.FAILED, "usage": Usage()}, {"cost_usd": 1.0})

    assert unpriced(run) == (0, 0)


def test_a_failed_call_that_used_tokens_is_not_free(script) -> None:
    run = script()
    run.turn({"disposition": Disposition.FAILED, "usage": Usage(input=7)}, {"cost_usd": 1.0})

    assert unpriced(run) == (1, 0)


def test_a_reused_result_needs_no_cost(script) -> None:
    run = script()
    run.turn({"cost_usd": 1.0})
    run.tool(disposition=ToolDisposition.REUSED)

    assert unpriced(run) == (0, 0)


@pytest.mark.parametrize(
    ("control", "candidate", "comparable"),
    [
        ({}, {}, True),
        ({"unpriced_calls": 1}, {}, False),
        ({}, {"unpriced_calls": 1}, False),
        ({"unpriced_tools": 1}, {"unpriced_tools": 2}, True),
        ({"unpriced_tools": 1}, {}, True),
        ({"unpriced_tools": 1}, {"tool_usd": 0.5}, False),
        ({"tool_usd": 0.5}, {"unpriced_tools": 1}, False),
        ({"tool_usd": 0.5}, {"tool_usd": 0.25}, True),
    ],
)
def test_costs_compare_where_both_state_every_call_and_both_or_neither_state_tools(
    control, candidate, comparable
) -> None:
    assert Work(**control).priced_like(Work(**candidate)) is comparable
