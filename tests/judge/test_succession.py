"""What the order of calls and tools speaks against."""

from __future__ import annotations

import pytest

from otel_turnavoid.vocabulary import (
    Disposition,
    Entry,
    ToolCaller,
    ToolDisposition,
    WithheldCause,
)

CONFLICT, UNPROVEN = WithheldCause.CONFLICTING_EVIDENCE, WithheldCause.COMPLETENESS_UNPROVEN
PARTED = (
    "1 calls say that they answer the input of the call before, and came after a tool that the"
    " model had asked for: its result is another input"
)
REPEATED = "1 AgentTurns state the input of the one before: the same input again is no other turn"
CONTINUED = (
    "1 calls say that they only went on with an answer (samplings 0), and came after a tool that"
    " the model itself had asked for: its result is another input"
)


@pytest.fixture
def found(script, assembled):
    """What is held against a run that ``written`` writes."""

    def judged(written):
        run = script()
        written(run)
        made = assembled(run.done())
        return made.causes, made.problems

    return judged


def test_one_input_in_two_turns_is_a_conflict(found, number) -> None:
    def written(run) -> None:
        for _ in range(2):
            run.turn({"input_digest": number(1)})

    assert found(written) == ((CONFLICT,), (REPEATED,))


def test_the_same_words_past_a_tool_in_an_agent_turn_of_its_own_are_another_turn(
    found, number
) -> None:
    """An agent may state only the newest message, such as a tool's short answer."""

    def written(run) -> None:
        for _ in range(2):
            run.turn({"input_digest": number(1)})
            run.tool()

    assert found(written) == ((), ())


@pytest.mark.parametrize("entry", [Entry.USER_TURN, Entry.SYSTEM_TURN])
def test_so_are_the_same_words_that_were_said_again(found, number, entry) -> None:
    def written(run) -> None:
        for _ in range(2):
            run.add(entry)
            run.turn({"input_digest": number(1)})

    assert found(written) == ((), ())


def test_what_is_said_meanwhile_parts_no_turn_and_no_answer(found, number) -> None:
    def written(run) -> None:
        turn = run.add(Entry.AGENT_TURN, ms=3000, start_ms=0, turn=Disposition.COMMITTED)
        run.call(turn, start_ms=0, input_digest=number(1))
        run.add(Entry.USER_TURN, start_ms=1000)
        run.call(turn, start_ms=1100, input_digest=number(1), samplings=0)

    assert found(written) == ((), ())


def test_one_input_past_a_tool_in_one_turn_is_a_conflict(found, number) -> None:
    def written(run) -> None:
        turn = run.add(Entry.AGENT_TURN, ms=3000, start_ms=0, turn=Disposition.COMMITTED)
        run.call(turn, start_ms=0, input_digest=number(1))
        run.tool(turn, start_ms=1000)
        run.call(turn, start_ms=1100, input_digest=number(1))

    assert found(written) == ((CONFLICT,), (PARTED,))


@pytest.mark.parametrize(
    "said",
    [{"caller": ToolCaller.CODE}, {"disposition": ToolDisposition.DISCARDED}],
    ids=["asked for by code", "thrown away"],
)
def test_a_tool_whose_result_the_model_does_not_read_changes_no_input(found, number, said) -> None:
    def written(run) -> None:
        turn = run.add(Entry.AGENT_TURN, ms=3000, start_ms=0, turn=Disposition.COMMITTED)
        run.call(turn, start_ms=0, input_digest=number(1))
        run.tool(turn, start_ms=1000, **said)
        run.call(turn, start_ms=1100, input_digest=number(1))

    assert found(written) == ((), ())


def test_two_samples_of_one_input_in_one_turn_are_no_conflict(found, number) -> None:
    def written(run) -> None:
        run.turn({"input_digest": number(1)}, {"input_digest": number(1)})

    assert found(written) == ((), ())


def test_a_retry_after_a_failed_turn_is_no_conflict(found, number) -> None:
    def written(run) -> None:
        failed = {"input_digest": number(1), "disposition": Disposition.FAILED}
        run.turn(failed, says=Disposition.FAILED)
        run.turn({"input_digest": number(1)})

    assert found(written) == ((), ())


def test_two_sub_agents_may_be_asked_the_same(found, number) -> None:
    """Each has its own conversation, although a span of its Invoke may be missing."""

    def written(run) -> None:
        run.turn({"input_digest": number(1)})
        for entry in (Entry.TOOL_TURN, Entry.TOOL_TURN):
            tool = run.add(entry, ms=1000)
            run.turn({"input_digest": number(2)}, parent=tool)

    assert found(written) == ((), ())


def test_a_continuation_past_a_tool_of_the_models_own_is_unproven(found, number) -> None:
    def written(run) -> None:
        run.turn({"input_digest": number(1)})
        run.tool()
        run.turn({"input_digest": number(2), "samplings": 0})

    assert found(written) == ((UNPROVEN,), (CONTINUED,))


def test_a_call_that_was_cut_after_the_tool_has_read_its_result(found, number) -> None:
    def written(run) -> None:
        cut = {"input_digest": number(2), "disposition": Disposition.FAILED, "samplings": 1}
        run.turn({"input_digest": number(1)})
        run.tool()
        run.turn(cut, {"input_digest": number(3), "samplings": 0})

    assert found(written) == ((), ())


def test_a_tool_of_a_sub_agent_is_none_of_its_callers(found, number) -> None:
    """Code that the model wrote calls an agent, whose model asks for a tool."""

    def written(run) -> None:
        run.turn({"input_digest": number(1)})
        inner = run.tool(caller=ToolCaller.CODE)
        run.turn({"input_digest": number(2)}, parent=inner)
        run.tool(inner)
        run.turn({"input_digest": number(3), "samplings": 0})

    assert found(written) == ((), ())
