"""Published runs reduced to events: a response is a turn, a log line is not."""

from __future__ import annotations

import pytest

from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.vocabulary import InvokeState

USAGE = {"in": 10, "out": 3}


def dialogue(*events: dict, **said) -> dict:
    return {"task_id": "0", "trial": 1, "run": "base", "model": "m", "events": [*events], **said}


def answer(**said) -> dict:
    return {"k": "assistant", "usage": USAGE, **said}


def line(msg: str, block: str, out: int, **said) -> dict:
    usage = {"in": 10, "cache_read": 100, "cache_write": 5, "out": out}
    return {"k": "assistant", "msg": msg, "model": "m", "block": block, "usage": usage, **said}


def test_a_dialogues_greeting_has_no_usage_and_is_no_response(read) -> None:
    found = read(dialogue({"k": "assistant", "usage": None}, {"k": "user"}, answer()))

    [call] = found.calls
    assert call.call.usage == Usage(input=10, output=3)


@pytest.mark.parametrize(
    ("text", "ns"), [("0001-01-01T00:00:00Z", 0), ("9999-12-31T23:59:59Z", 2**63 - 1)]
)
def test_a_time_beyond_what_a_ledger_holds_is_the_nearest_that_it_holds(read, text, ns) -> None:
    found = read(dialogue(answer(ts=text), reward=1))

    assert [(fact.start_ns, fact.end_ns) for fact in found.facts] == [(ns, ns)] * 2
    assert [seen.observed_ns for seen in found.observations] == [ns]


def test_a_cost_that_nobody_can_have_paid_is_unknown(read) -> None:
    found = read(dialogue(answer(cost=10**400), answer(cost=1e16), answer(cost=2)))

    assert [call.cost_usd for call in found.calls] == [None, None, 2.0]


def test_a_dialogues_calls_end_with_their_results(read) -> None:
    found = read(
        dialogue(
            answer(ts="2026-01-01T00:00:01", calls=[{"call": "c1", "tool": "lookup"}]),
            {"k": "tool", "ts": "2026-01-01T00:00:03", "call": "c1", "error": True},
        )
    )

    [tool] = found.tools
    assert (tool.tool.name, tool.end_ns - tool.start_ns, tool.failed) == (
        "lookup",
        2_000_000_000,
        True,
    )


def test_the_simulated_users_model_calls_are_not_the_agents(read) -> None:
    assert len(read(dialogue({"k": "user", "usage": USAGE}, answer())).calls) == 1


def test_lines_of_one_response_are_one_with_the_last_lines_output(read) -> None:
    found = read(
        dialogue(
            line("m1", "thinking", 1),
            line("m1", "tool_use", 1, call="c1", tool="lookup"),
            {"k": "result", "call": "c1", "error": False},
            line("m1", "tool_use", 30, call="c2", tool="lookup"),
            line("m2", "text", 8),
        )
    )

    assert [fact.call.usage for fact in found.calls] == [
        Usage(input=115, output=30, cache_read=100, cache_write=5),
        Usage(input=115, output=8, cache_read=100, cache_write=5),
    ]
    assert len(found.tools) == 2


def test_a_line_that_the_client_wrote_itself_is_no_response(read) -> None:
    found = read(dialogue(line("m1", "text", 1), line("m2", "text", 0, model="<synthetic>")))

    assert len(found.calls) == 1


def test_a_round_is_a_response_with_at_most_one_call(read) -> None:
    rounds = [{"round": n, "action": action} for n, action in enumerate(["get", "post", "finish"])]
    found = read(dialogue(*rounds))

    assert (len(found.calls), [fact.tool.name for fact in found.tools]) == (3, ["get", "post"])


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({}, InvokeState.COMPLETED),
        ({"termination": "user_stop"}, InvokeState.COMPLETED),
        ({"termination": "max_steps"}, InvokeState.FAILED),
        ({"exit_code": 0}, InvokeState.COMPLETED),
        ({"exit_code": 1}, InvokeState.FAILED),
        ({"status": "completed", "infra_fail": False}, InvokeState.COMPLETED),
        ({"status": "agent_invalid_action"}, InvokeState.FAILED),
        ({"infra_fail": True}, InvokeState.FAILED),
    ],
)
def test_a_run_that_did_not_end_on_its_own_terms_failed(read, said, state) -> None:
    assert read(dialogue(answer(), **said)).invoke.invoke.state is state


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ({"reward": 1.0}, [("task:0=done",)]),
        ({"reward": 0.0}, [()]),
        ({"correct": True}, [("task:0=done",)]),
        ({"correct": False}, [()]),
        ({"db_match": True, "communicate_match": None}, [("task:0=done",)]),
        ({"db_match": True, "communicate_match": False}, [()]),
        ({"db_match": False, "communicate_match": True}, [()]),
        ({"correct": True, "needs_write": True}, [("task:0=done",)]),
        ({"correct": True, "needs_write": False}, [("task:0=unchanged",)]),
        ({"reward": 1.0, "goal_actions": []}, [("task:0=unchanged",)]),
        ({"reward": 0.0, "goal_actions": []}, [()]),
        ({"reward": 1.0, "goal_actions": ["get_user_details"]}, [("task:0=done",)]),
        ({}, []),
    ],
)
def test_a_verdict_is_an_observation_of_somebody_else(read, said, labels) -> None:
    found = read(dialogue(answer(), **said))

    assert [observation.labels for observation in found.observations] == labels
