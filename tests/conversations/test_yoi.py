"""Session logs of yoi: what begins a run, what ends it, and what is a turn."""

from __future__ import annotations

from itertools import count

import pytest

from otel_turnavoid.conversations import read_session, recorded
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import InvokeKind, InvokeState


def log(*entries: dict) -> list[dict]:
    start = {"kind": "segment_start", "session_id": "s", "system_prompt": "p", "history": []}
    times = count(1_780_000_000_000, 250)
    return [{**entry, "ts": next(times)} for entry in (start, *entries)]


def invoke(trigger: str = "user_send") -> dict:
    return {"kind": "invoke", "trigger": trigger}


def usage(history_len: int, **tokens: int) -> dict:
    return {"kind": "llm_usage", "history_len": history_len, "input_total_tokens": 10, **tokens}


def ended(result: str = "finished", *, interrupted: bool = False) -> dict:
    return {"kind": "run_completed", "interrupted": interrupted, "result": result}


def item(kind: str, **said: str) -> dict:
    return {"kind": "assistant_item", "item": {"kind": kind, **said}}


def facts_of(run):
    return recorded(run, Rules(Settings())).facts


def test_the_range_of_an_invoke_ends_at_the_next() -> None:
    runs = read_session(log(invoke(), usage(1), ended(), invoke("notify"), usage(3), ended()), "f")

    assert [(run.run_id, len(run.responses)) for run in runs] == [("s/0", 1), ("s/1", 1)]


def test_a_session_without_an_id_is_named_by_its_file() -> None:
    entries = log(invoke(), usage(1), ended())
    del entries[0]["session_id"]

    assert [run.run_id for run in read_session(entries, "f")] == ["f/0"]


@pytest.mark.parametrize("kind", [kind for kind in InvokeKind if kind is not InvokeKind.UNKNOWN])
def test_the_trigger_is_the_kind(kind: InvokeKind) -> None:
    [run] = read_session(log(invoke(kind.value), usage(1), ended()), "f")

    assert facts_of(run)[0].invoke.kind is kind


def test_newer_logs_spell_a_pod_event_differently() -> None:
    [run] = read_session(log(invoke("worker_event"), usage(1), ended()), "f")

    assert facts_of(run)[0].invoke.kind is InvokeKind.POD_EVENT


def test_a_trigger_that_nobody_knows_is_a_fault() -> None:
    [run] = read_session(log(invoke("cron"), usage(1), ended()), "f")

    assert [fault.attribute for fault in facts_of(run)[0].faults] == ["turnavoid.invoke.kind"]


@pytest.mark.parametrize(
    ("entries", "state"),
    [
        ([ended()], InvokeState.COMPLETED),
        ([ended("paused")], InvokeState.PAUSED),
        ([ended("yielded")], InvokeState.PAUSED),
        ([ended("limit_reached")], InvokeState.ABORTED),
        ([ended("something")], InvokeState.FAILED),
        ([ended(interrupted=True)], InvokeState.ABORTED),
        ([{"kind": "run_errored", "message": "m"}], InvokeState.FAILED),
        ([ended("paused"), {"kind": "paused_turn_abandoned"}], InvokeState.ABORTED),
        ([ended("paused"), usage(3), ended()], InvokeState.COMPLETED),
        ([], InvokeState.FAILED),
    ],
)
def test_a_run_ends_as_its_log_says_and_a_log_that_stops_shows_a_crash(entries, state) -> None:
    [run] = read_session(log(invoke(), usage(1), *entries), "f")

    assert run.state is state


def test_the_same_history_in_a_row_is_one_input() -> None:
    [run] = read_session(log(invoke(), usage(1), usage(1), usage(3), ended()), "f")

    inputs = [response.same_input for response in run.responses]
    assert (inputs[0] == inputs[1], inputs[1] == inputs[2]) == (True, False)


def test_a_new_segment_is_new_input_however_long_its_history() -> None:
    entries = log(invoke(), usage(5), ended())
    compacted = {**entries[0], "compacted_from": {"segment_id": "x", "at_turn_index": 1}}
    runs = read_session([*entries, compacted, *log(invoke(), usage(5), ended())[1:]], "f")

    first, second = (run.responses[0].same_input for run in runs)
    assert first != second


def test_tool_calls_belong_to_the_last_response_and_end_with_their_result() -> None:
    back = {"kind": "tool_result", "item": {"call_id": "c1", "is_error": True}}
    ask = item("tool_call", call_id="c1", name="lookup", arguments="{}")
    [run] = read_session(log(invoke(), usage(1), item("message"), ask, back, ended()), "f")

    [call] = run.responses[0].tool_calls
    assert (call.name, call.end_ns - call.start_ns, call.failed) == ("lookup", 250_000_000, True)


def test_a_seeded_history_is_no_work_of_its_segment() -> None:
    entries = log(invoke(), usage(3), ended())
    entries[0]["history"] = [{"kind": "message"}, {"kind": "tool_call", "call_id": "c"}]

    [run] = read_session(entries, "f")
    assert (len(run.responses), run.responses[0].tool_calls) == (1, [])


@pytest.mark.parametrize("kind", ["turn_end", "config_changed", "extension", "from the future"])
def test_other_entries_count_nothing(kind: str) -> None:
    entries = log(invoke(), usage(1), {"kind": kind, "turn_count": 9}, ended())

    [run] = read_session(entries, "f")
    assert (len(run.responses), run.state) == (1, InvokeState.COMPLETED)


def test_the_input_of_a_run_is_all_that_the_model_saw_before_it() -> None:
    first = {"kind": "user_input", "segments": [{"kind": "text", "content": "one"}]}
    other = {"kind": "user_input", "segments": [{"kind": "text", "content": "two"}]}
    [run] = read_session(log(invoke(), first, usage(1), ended()), "f")
    [same] = read_session(log(invoke(), first, usage(1), ended()), "f")
    [changed] = read_session(log(invoke(), other, usage(1), ended()), "f")

    assert (run.task == same.task, run.task == changed.task) == (True, False)
