"""Model turns: what counts as one, whatever wraps it (design section 2, pitfalls A4)."""

from __future__ import annotations

from itertools import permutations

import pytest

from otel_turnavoid.judge.calls import calls_of
from otel_turnavoid.judge.facts import CallDetail, Usage
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.turns import turns_of
from otel_turnavoid.vocabulary import Disposition, Entry, Purpose

COMMITTED, FAILED, DISCARDED = Disposition.COMMITTED, Disposition.FAILED, Disposition.DISCARDED
FAIL = {"disposition": FAILED}


def turns(run):
    tree = SpanTree([run.root, *run.spans])
    return turns_of(tree, calls_of(tree))


def committed(run) -> int:
    return sum(turn.committed for turn in turns(run))


@pytest.fixture
def said(number):
    """What a call on input ``n`` says."""
    return lambda n, **more: {"input_digest": number(n), **more}


def test_a_turn_with_one_generation_is_committed(script, said) -> None:
    run = script()
    run.turn(said(1))

    assert committed(run) == 1


def test_attempts_at_one_input_are_one_turn(script, said) -> None:
    run = script()
    run.turn(said(1, **FAIL), said(1, **FAIL), said(1))

    assert committed(run) == 1
    assert [len(turn.calls) for turn in turns(run)] == [3]


def test_a_fallback_to_another_model_is_the_same_turn(script, said) -> None:
    run = script()
    run.turn(said(1, model="a", **FAIL), said(1, model="b"))

    assert committed(run) == 1


def test_one_input_sampled_twice_is_one_turn(script, said) -> None:
    run = script()
    run.turn(said(1), said(1))

    assert committed(run) == 1


def test_a_race_whose_loser_is_thrown_away_is_one_turn(script, said) -> None:
    """A57."""
    run = script()
    turn = run.turn()
    run.call(turn, start_ms=0, **said(1))
    run.call(turn, start_ms=0, **said(1, purpose=Purpose.SPECULATION, disposition=DISCARDED))

    assert committed(run) == 1


def test_one_span_around_a_whole_loop_is_as_many_turns_as_inputs(script, said) -> None:
    """The input changed: a new AgentTurn. A wide span must not hide turns."""
    run = script()
    run.turn(said(1), said(2), said(3, **FAIL), said(3), said(4))

    assert committed(run) == 4


def test_what_does_not_generate_makes_no_turn_of_its_own_inside_one(script, said) -> None:
    run = script()
    run.turn(
        said(1),
        said(2, purpose=Purpose.VALIDATION),
        said(3, samplings=0),
        said(4, purpose=Purpose.SIDE),
        said(5, disposition=DISCARDED),
    )

    assert committed(run) == 1


def test_generations_one_after_the_other_on_unstated_inputs_are_turns_each(script) -> None:
    """Nothing proves that the second is a retry, and the first had succeeded."""
    run = script()
    run.turn({}, {})

    assert committed(run) == 2


def test_generations_at_the_same_time_on_unstated_inputs_are_alternatives(script) -> None:
    run = script()
    turn = run.turn()
    run.call(turn, start_ms=0)
    run.call(turn, start_ms=500)

    assert committed(run) == 1


def test_a_retry_on_an_unstated_input_is_the_same_turn(script) -> None:
    run = script()
    run.turn(FAIL, FAIL, {})

    assert committed(run) == 1


@pytest.mark.parametrize("says", [COMMITTED, FAILED, None])
def test_a_turn_whose_attempts_all_failed_is_not_committed_whatever_it_says(
    script, said, says
) -> None:
    run = script()
    run.turn(said(1, **FAIL), said(1, **FAIL), says=says)

    assert committed(run) == 0


def test_a_turn_that_generated_is_committed_although_it_says_failed(script, said) -> None:
    run = script()
    run.turn(said(1), says=FAILED)

    assert committed(run) == 1


def test_a_turn_whose_result_was_thrown_away_is_not_committed(script, said) -> None:
    run = script()
    run.turn(said(1), said(2), says=DISCARDED)

    assert committed(run) == 0


@pytest.mark.parametrize("purpose", [Purpose.VALIDATION, Purpose.COMPACTION, Purpose.SIDE])
def test_side_work_is_no_turn_inside_or_outside(script, said, purpose) -> None:
    run = script()
    run.turn(said(1, purpose=purpose))
    run.call(**said(2, purpose=purpose))

    assert committed(run) == 0


def test_continuations_add_no_turn(script, said) -> None:
    """A49: requests that only hand results back to running code."""
    run = script()
    run.turn(said(1), *(said(10 + n, samplings=0) for n in range(8)))
    run.turn(said(2))

    assert committed(run) == 2


@pytest.mark.parametrize(
    ("failure", "turns"),
    [
        pytest.param({"usage": Usage()}, 0, id="refused: nothing shows that it was sampled"),
        pytest.param({"samplings": 0}, 0, id="itself a continuation"),
        pytest.param({"samplings": 1}, 1, id="cut, as it says"),
        pytest.param({"usage": Usage(output=7)}, 1, id="cut, as its tokens say"),
        pytest.param({"samplings": 1, "purpose": Purpose.SIDE}, 0, id="side work"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_a_continuation_of_a_cut_answer_brings_the_turn_to_its_end(
    script, said, failure, turns, inside
) -> None:
    run = script()
    attempts = [said(1, **FAIL, **failure), said(1, samplings=0)]
    if inside:
        run.turn(*attempts)
    else:
        for attempt in attempts:
            run.call(**attempt)

    assert committed(run) == turns


def test_each_cut_answer_is_a_turn_of_its_own(script, said) -> None:
    run = script()
    cut = {**FAIL, "samplings": 1}
    run.turn(said(1), said(2, **cut), said(2, samplings=0), said(3, **cut), said(3, samplings=0))

    assert committed(run) == 3


def test_several_samplings_inside_one_response_are_one_turn(script, said) -> None:
    """A48."""
    run = script()
    run.turn(said(1, samplings=3))

    assert committed(run) == 1


def test_system_and_user_turns_are_no_model_turns(script, said) -> None:
    run = script()
    run.add(Entry.USER_TURN)
    run.turn(said(1))
    run.add(Entry.SYSTEM_TURN)
    run.turn(said(2))

    assert committed(run) == 2


# Calls without an AgentTurn


def test_calls_outside_of_turns_make_turns_by_their_inputs(script, said) -> None:
    run = script()
    for detail in [said(1, **FAIL), said(1), said(2), said(3, **FAIL), said(3)]:
        run.call(**detail)

    assert committed(run) == 3


def test_unstated_inputs_make_turns_by_success(script) -> None:
    """A43: 5 calls of which 2 failed."""
    run = script()
    for detail in [{}, FAIL, FAIL, {}, {}]:
        run.call(**detail)

    assert committed(run) == 3
    assert [len(turn.calls) for turn in turns(run)] == [1, 3, 1]


def test_an_unstated_continuation_goes_with_the_turn_before(script) -> None:
    run = script()
    for detail in [{}, {"samplings": 0}, {"samplings": 0}, {}]:
        run.call(**detail)

    assert committed(run) == 2
    assert [len(turn.calls) for turn in turns(run)] == [3, 1]


def test_attempts_that_end_in_failure_make_no_committed_turn(script, said) -> None:
    run = script()
    run.call(**said(1, **FAIL))
    run.call(**said(1, **FAIL))

    assert [turn.committed for turn in turns(run)] == [False]


def test_side_work_between_attempts_makes_no_turn(script, said) -> None:
    run = script()
    for detail in [said(1, **FAIL), said(9, purpose=Purpose.SIDE), said(1)]:
        run.call(**detail)

    assert committed(run) == 1


def test_side_work_between_generations_does_not_make_them_one_turn(script) -> None:
    run = script()
    for detail in [{}, {"purpose": Purpose.SIDE}, {}]:
        run.call(**detail)

    assert committed(run) == 2


def test_two_failing_agents_side_by_side_are_two_turns(script) -> None:
    run = script()
    for detail in [FAIL, FAIL, {}, {}]:
        run.call(**detail)

    assert committed(run) == 2


def test_a_call_below_a_tool_is_no_part_of_the_turn_around_it(script, said) -> None:
    """A sub-agent without spans of its own, called as a tool inside the turn."""
    run = script()
    turn = run.turn(said(1))
    tool = run.tool(turn, start_ms=0, ms=9000)
    for n in range(2, 8):
        run.call(tool, start_ms=n, ms=1, **said(n))

    assert committed(run) == 7


@pytest.mark.parametrize("flat", [True, False])
def test_a_sub_agents_calls_are_not_those_of_the_turn_it_runs_in(script, said, flat) -> None:
    """A44: moving turns into a sub-agent avoids nothing, also on one unchanged input."""
    run = script()
    turn = run.turn(said(1), ms=10_000)
    below = run.root if flat else turn
    inner = run.add(Entry.INVOKE, below, start_ms=1000, ms=5000)
    for n in range(6):
        run.call(inner, start_ms=1000 + n, ms=1, disposition=COMMITTED, **said(n + 2))

    assert committed(run) == 7


# Where the parents do not tell


def test_flat_and_nested_spans_make_the_same_turns(script, said) -> None:
    """A30."""
    nested, flat = script(), script()
    for run, deep in ((nested, True), (flat, False)):
        run.turn(said(1, **FAIL), said(1), nested=deep)
        run.turn(said(2), nested=deep)
        run.turn(said(3, **FAIL), nested=deep)

    assert committed(nested) == committed(flat) == 2
    shapes = [[len(turn.calls) for turn in turns(run)] for run in (nested, flat)]
    assert shapes == [[2, 1, 1]] * 2


def test_calls_with_lost_parents_lie_in_the_turn_that_contains_them(script, said) -> None:
    run = script()
    run.turn(said(1), ms=1000)
    run.call(start_ms=100, ms=100, parent_id="never-stored", **said(1))

    assert committed(run) == 1


def test_cycles_that_contain_the_later_ones_are_turns_each(script, said) -> None:
    """A58: recursive loops leave every span open until the end."""
    run = script()
    parent = None
    for n in range(6):
        parent = run.add(Entry.AGENT_TURN, parent, start_ms=10 * n, ms=1000 - 10 * n)
        run.call(parent, start_ms=10 * n, ms=5, **said(n))

    assert committed(run) == 6


def test_open_cycles_and_flat_calls_are_turns_each(script, said) -> None:
    run = script()
    for n in range(6):
        run.add(Entry.AGENT_TURN, start_ms=10 * n, ms=1000 - 10 * n)
        run.call(start_ms=10 * n, ms=5, **said(n))

    assert committed(run) == 6


# AgentTurns without calls


def test_an_empty_turn_is_believed(script) -> None:
    run = script()
    run.turn()
    run.turn(says=None)

    assert committed(run) == 2


@pytest.mark.parametrize("says", [FAILED, DISCARDED])
def test_an_empty_turn_that_says_it_is_not_committed_is_not(script, says) -> None:
    run = script()
    run.turn(says=says)

    assert committed(run) == 0


def test_empty_turns_and_calls_outside_of_them_are_counted_once(script, said) -> None:
    run = script()
    for n in range(3):
        run.turn()
        run.call(**said(n))

    assert committed(run) == 3


def test_one_call_outside_does_not_take_the_other_empty_turns_away(script, said) -> None:
    """A single stray generation must not erase turns that the run states."""
    run = script()
    for _ in range(4):
        run.turn()
    run.call(**said(1))

    assert committed(run) == 4


def test_a_call_outside_is_not_that_of_an_empty_turn_that_failed(script, said) -> None:
    run = script()
    run.turn(says=FAILED)
    run.turn()
    run.call(**said(1))

    assert committed(run) == 1


def test_more_calls_outside_than_empty_turns_count(script, said) -> None:
    run = script()
    run.turn()
    for n in range(4):
        run.call(**said(n))

    assert committed(run) == 4


def test_a_turn_of_others_is_not_read(script) -> None:
    """A41: somebody else's turn means something else."""
    run = script()
    run.foreign(Entry.AGENT_TURN)

    assert committed(run) == 0


def test_others_calls_inside_our_turn_are_its_calls(script) -> None:
    run = script()
    turn = run.turn(ms=1000)
    framework = run.foreign(Entry.LLM_CALL, turn, scope="a", start_ms=0, ms=900)
    run.foreign(Entry.LLM_CALL, framework, scope="b", start_ms=10, ms=800)

    assert committed(run) == 1
    assert [len(each.calls) for each in turns(run)] == [1]


def test_turns_do_not_depend_on_order(script, said) -> None:
    run = script()
    run.turn(said(1), said(2))
    run.turn()
    run.call(**said(3))
    run.foreign(Entry.LLM_CALL, start_ms=100, ms=10, call=CallDetail(model="m"))

    seen = set()
    for order in permutations(run.spans):
        tree = SpanTree([run.root, *order])
        seen.add(repr(turns_of(tree, calls_of(tree))))

    assert len(seen) == 1
