"""Message lists: an assistant message is one response, whatever it is made of."""

from __future__ import annotations

import time

import pytest

from otel_turnavoid.digest import input_digest
from otel_turnavoid.judge.facts import ToolDetail, Usage
from otel_turnavoid.judge.settings import ArmRule
from otel_turnavoid.vocabulary import Arm, Entry, InvokeState, Lifecycle, Rejection

SYSTEM = {"role": "system", "content": "You refund."}
ASK = {"role": "user", "content": "Refund A-1."}
DONE = {"role": "assistant", "content": "Done."}


def asks(*calls: tuple[str, str]) -> dict:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
            for call_id, name in calls
        ],
    }


def result(call_id: str) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


def test_each_assistant_message_is_a_response_and_each_tool_call_an_execution(read) -> None:
    found = read([SYSTEM, ASK, asks(("c1", "lookup"), ("c2", "refund")), result("c1"), DONE])

    assert len(found.calls) == 2
    assert [fact.tool for fact in found.tools] == [
        ToolDetail(name="lookup", call_id="c1"),
        ToolDetail(name="refund", call_id="c2"),
    ]


def test_assistant_messages_in_a_row_with_one_id_are_one_response(read) -> None:
    one, two = DONE | {"id": "m1"}, asks(("c1", "lookup")) | {"id": "m1"}

    found = read([ASK, one, two, result("c1"), DONE | {"id": "m2"}])

    assert [fact.call.response_id for fact in found.calls] == ["m1", "m2"]
    assert len(found.tools) == 1


def test_assistant_messages_in_a_row_without_ids_are_two_responses(read) -> None:
    assert len(read([ASK, DONE, DONE]).calls) == 2


@pytest.mark.parametrize("before", [[], [SYSTEM]])
def test_a_greeting_before_anything_was_asked_is_no_response(read, before) -> None:
    assert len(read([*before, DONE, ASK, DONE]).calls) == 1


def test_an_answer_to_the_system_message_alone_is_a_response(read) -> None:
    assert len(read([SYSTEM, DONE]).calls) == 1


def test_content_blocks_ask_for_tools_too(read) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "lookup", "input": {}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    found = read(
        [
            ASK,
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [back]},
            DONE,
        ]
    )

    assert (len(found.calls), [fact.tool.name for fact in found.tools]) == (2, ["lookup"])


def test_the_old_form_of_a_single_call_is_read(read) -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "lookup"}}

    assert [fact.tool for fact in read([ASK, call]).tools] == [ToolDetail(name="lookup")]


def test_a_record_may_say_model_usage_and_run(read) -> None:
    found = read(
        {
            "run_id": "r-1",
            "model": "gpt-5",
            "messages": [ASK, DONE | {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}],
        }
    )

    [call] = found.calls
    assert (call.run_id, call.call.model, call.call.usage) == (
        "r-1",
        "gpt-5",
        Usage(input=7, output=2),
    )


@pytest.mark.parametrize("model", ["none", "Unknown", "unpublished", None, 5])
def test_a_model_that_is_not_named_is_unknown(read, model) -> None:
    [call] = read({"model": model, "messages": [ASK, DONE]}).calls

    assert call.call.model is None


@pytest.mark.parametrize(
    ("said", "run_id"),
    [
        ({}, "runs/3"),
        ({"id": "x"}, "x"),
        ({"task_id": 7}, "runs/7"),
        ({"task_id": 7, "trial": 1}, "runs/7/1"),
        ({"task_id": "t", "run": "base", "trial": 0}, "base/t/0"),
        ({"task_id": 7, "run_id": "given"}, "given"),
        ({"turnavoid.run.id": "ours", "run_id": "given"}, "ours"),
    ],
)
def test_a_run_is_named_by_its_record_or_its_place(read, said, run_id: str) -> None:
    found = read({**said, "messages": [ASK, DONE]})

    assert {fact.run_id for fact in found.facts} == {run_id}


def test_numbers_that_no_ledger_holds_are_unknown(read) -> None:
    usage = {"input_tokens": 2**63, "output_tokens": 2**63 - 1}
    found = read({"messages": [ASK, DONE | {"usage": usage}], "reward": 10**400})

    assert [call.call.usage for call in found.calls] == [Usage(output=2**63 - 1)]
    assert found.observations == []


@pytest.mark.parametrize("key", ["turnavoid.turn.index", "turnavoid.invoke.entries"])
def test_an_attribute_beyond_64_bits_is_a_fault(read, key: str) -> None:
    found = read({"messages": [ASK, DONE], key: 2**63})

    wanted = "want an integer of at least 0, got 9223372036854775808"
    assert [(fault.cause, fault.attribute, fault.problem) for fault in found.invoke.faults] == [
        (Rejection.VOCABULARY, key, wanted)
    ]


def test_many_greetings_take_no_longer_than_their_number(read) -> None:
    """Each looked through all that follow: a minute for these."""
    greetings = [{"role": "assistant", "content": "Hello"}] * 20_000

    started = time.process_time()
    facts = read({"messages": [*greetings, {"role": "user", "content": "x"}]}).facts

    assert [fact.entry for fact in facts] == [Entry.INVOKE]
    assert time.process_time() - started < 5


def test_what_was_asked_before_any_answer_identifies_the_task(read) -> None:
    """Not the arm's own prompt, nor what a user says later."""
    found = read([SYSTEM, ASK, DONE, {"role": "user", "content": "Thanks."}])

    assert found.invoke.invoke.digest == input_digest(["Refund A-1."])


def test_a_published_task_identifies_itself(read) -> None:
    task = {"user_id": "u", "instruction": "Refund A-1.", "actions": []}
    found = read({"task_id": 1, "policy_sha256": "p", "task": task, "messages": [ASK, DONE]})

    assert found.invoke.invoke.digest == input_digest(["p", "u", "Refund A-1."])
    assert found.invoke.unit == "1"


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ({"reward": 1.0}, [("task:7=done",)]),
        ({"reward": 0.5}, [()]),
        ({"reward": 0}, [()]),
        ({"reward": 1.0, "task": {"actions": []}}, [("task:7=unchanged",)]),
        ({"reward": 1.0, "task": {"actions": [{"name": "refund"}]}}, [("task:7=done",)]),
        ({}, []),
        ({"reward": None}, []),
        ({"reward": True}, []),
    ],
)
def test_a_reward_is_an_observation_of_somebody_else(read, said, labels) -> None:
    found = read({"task_id": 7, **said, "messages": [ASK, DONE]})

    assert [observation.labels for observation in found.observations] == labels
    assert all(seen.service != found.invoke.service for seen in found.observations)


def test_a_run_that_the_step_limit_ended_was_aborted(read) -> None:
    found = read({"task_id": 7, "reward": 0.0, "reward_info": None, "messages": [ASK, DONE]})

    assert found.invoke.invoke.state is InvokeState.ABORTED


def test_a_record_may_carry_our_attributes(read) -> None:
    found = read(
        {
            "turnavoid.run.id": "k",
            "turnavoid.arm": "exact-reuse",
            "turnavoid.lifecycle": "realized",
            "messages": [ASK, DONE],
        }
    )

    assert (found.invoke.arm, found.invoke.invoke.lifecycle) == (
        Arm.EXACT_REUSE,
        Lifecycle.REALIZED,
    )


def test_a_misspelled_attribute_is_a_fault(read) -> None:
    found = read({"turnavoid.arm": "Control", "messages": [ASK, DONE]})

    assert [fault.attribute for fault in found.invoke.faults] == ["turnavoid.arm"]


@pytest.mark.parametrize(("key", "value"), [("trial", "0"), ("conversation.file", "runs")])
def test_the_configuration_tells_arms_by_values_of_the_record(read, key: str, value: str) -> None:
    rule = ArmRule(arm=Arm.CONTROL)
    found = read({"trial": 0, "messages": [ASK, DONE]}, arms={key: {value: rule}})

    assert found.invoke.configured.arm is Arm.CONTROL


def test_the_configuration_may_make_the_digest_of_named_values(read) -> None:
    found = read({"case": "c", "messages": [ASK, DONE]}, digest=("case",))

    assert found.invoke.invoke.digest is None
    assert found.invoke.configured.digest_parts == {"case": '"c"'}


def test_nothing_of_what_was_said_is_kept(read) -> None:
    found = read([SYSTEM, {"role": "user", "content": "a secret"}, DONE | {"content": "a secret"}])

    assert "secret" not in repr(found.facts)


def test_one_record_is_the_same_facts_each_time(read) -> None:
    record = [ASK, asks(("c1", "lookup")), result("c1"), DONE]

    assert read(record).facts == read(record).facts
