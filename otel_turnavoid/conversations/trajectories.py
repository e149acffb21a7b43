"""Published runs of benchmarks, reduced to their events: what happened, without its text.

Three shapes, told by their events (``k``, ``msg``, ``round``):

- a dialogue (tau2-bench): an ``assistant`` event with usage is a response; one without is the
  fixed greeting;
- a client's log: ``assistant`` lines with the same ``msg`` are one response, a line for each
  content block; the model ``<synthetic>`` marks a line of the client's own;
- rounds: each is one response with at most one call.
"""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.conversations import record as recorded
from otel_turnavoid.conversations.conversation import Conversation, Response, ToolCall
from otel_turnavoid.conversations.times import time_ns
from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.vocabulary import InvokeState

SCOPE: Final = "conversation.trajectory"
_ENDED: Final = ("user_stop", "agent_stop", None)
_SYNTHETIC: Final = "<synthetic>"
_NO_CALL: Final = ("finish", "invalid")
_MS: Final = 1_000_000


def is_trajectory(record: dict[str, Any]) -> bool:
    """Tell whether a record holds events of one of these shapes."""
    events = recorded.dicts(record.get("events"))
    return "task_id" in record and any("k" in event or "round" in event for event in events)


def read_trajectory(record: dict[str, Any], file: str, number: int) -> Conversation:
    """Read a record with ``events``."""
    events = recorded.dicts(record["events"])
    conversation = Conversation(
        run_id=recorded.run_id(record, file, number),
        scope=SCOPE,
        unit=recorded.unit(record),
        said=recorded.plain(record, file),
        state=InvokeState.COMPLETED if _completed(record) else InvokeState.FAILED,
        success=_success(record),
        asked=_asked_for(record),
        judged_by="recorded verdict",
        task=_task(record),
    )
    if any("round" in event for event in events):
        conversation.responses = _rounds(events, recorded.text(record, "model"))
    elif any("msg" in event for event in events):
        conversation.responses = _log(events)
    else:
        conversation.responses = _dialogue(events, recorded.text(record, "model"))
    times = [ns for event in events if (ns := time_ns(event.get("ts"))) is not None]
    ends = [response.end_ns for response in conversation.responses]
    conversation.start_ns = time_ns(record.get("start")) or min(times, default=0)
    conversation.end_ns = time_ns(record.get("end")) or max([*times, *ends], default=0)
    return conversation


def _completed(record: dict[str, Any]) -> bool:
    """Whether the run ended on its own terms."""
    return (
        record.get("exit_code", 0) == 0
        and record.get("status", "completed") == "completed"
        and not record.get("infra_fail", False)
        and record.get("termination") in _ENDED
    )


def _success(record: dict[str, Any]) -> bool | None:
    if "correct" in record:
        return record["correct"] is True
    if "reward" in record:
        return recorded.amount(record, "reward") == 1
    if "db_match" in record:
        # No verdict on what was said means that nothing had to be said.
        return record["db_match"] is True and record.get("communicate_match") is not False
    return None


def _asked_for(record: dict[str, Any]) -> bool | None:
    """Whether the task was to change anything, as far as the record says."""
    if isinstance(record.get("needs_write"), bool):
        return bool(record["needs_write"])
    # Of actions only their names are given, and a name does not tell whether it changes anything.
    return False if record.get("goal_actions") == [] else None


def _task(record: dict[str, Any]) -> Any:
    if "input_sha256" in record:
        return record["input_sha256"]
    if "scenario_sha256" in record:
        keys = ("policy_sha256", "scenario_sha256", "trial", "seed")
        return {key: record.get(key) for key in keys}
    return record["task_id"]


def _dialogue(events: list[dict[str, Any]], model: str | None) -> list[Response]:
    responses: list[Response] = []
    calls: dict[str, ToolCall] = {}
    before_ns = 0
    for place, event in enumerate(events):
        now_ns = time_ns(event.get("ts")) or place
        if event.get("k") == "assistant" and event.get("usage") is not None:
            usage = event["usage"]
            asked = [_asked(call, now_ns) for call in recorded.dicts(event.get("calls"))]
            calls |= {call.call_id: call for call in asked if call.call_id}
            responses.append(
                Response(
                    model=model,
                    usage=Usage(
                        input=recorded.count(usage, "in"), output=recorded.count(usage, "out")
                    ),
                    cost_usd=recorded.amount(event, "cost"),
                    start_ns=min(before_ns or now_ns, now_ns),
                    end_ns=now_ns,
                    tool_calls=asked,
                )
            )
        _answer(event, calls, now_ns)
        before_ns = now_ns
    return responses


def _log(events: list[dict[str, Any]]) -> list[Response]:
    responses: dict[str, Response] = {}
    calls: dict[str, ToolCall] = {}
    before_ns = 0
    for place, event in enumerate(events):
        now_ns = time_ns(event.get("ts")) or place
        name = recorded.text(event, "msg")
        if event.get("k") == "assistant" and name and event.get("model") != _SYNTHETIC:
            start_ns = min(before_ns or now_ns, now_ns)
            response = responses.setdefault(name, Response(start_ns=start_ns))
            response.model = recorded.text(event, "model")
            response.usage = _log_usage(event.get("usage"))
            response.end_ns = now_ns
            if event.get("block") == "tool_use":
                asked = _asked(event, now_ns)
                response.tool_calls.append(asked)
                calls[asked.call_id or ""] = asked
        _answer(event, calls, now_ns)
        before_ns = now_ns
    return list(responses.values())


def _rounds(events: list[dict[str, Any]], model: str | None) -> list[Response]:
    responses = []
    now_ns = 0
    for place, event in enumerate(events):
        start_ns = now_ns
        now_ns += (recorded.count(event, "latency_ms") or 0) * _MS + 1
        action = recorded.text(event, "action")
        asked = [ToolCall(call_id=f"{place}", name=action, start_ns=now_ns, end_ns=now_ns)]
        called = action is not None and action not in _NO_CALL
        responses.append(
            Response(
                model=model, start_ns=start_ns, end_ns=now_ns, tool_calls=asked if called else []
            )
        )
    return responses


def _asked(event: dict[str, Any], now_ns: int) -> ToolCall:
    call_id, name = recorded.text(event, "call"), recorded.text(event, "tool")
    return ToolCall(call_id=call_id, name=name, start_ns=now_ns, end_ns=now_ns)


def _answer(event: dict[str, Any], calls: dict[str, ToolCall], now_ns: int) -> None:
    call = calls.get(recorded.text(event, "call") or "")
    if call is not None and event.get("k") in ("tool", "result"):
        call.end_ns = now_ns
        call.failed = event.get("error") is True


def _log_usage(usage: Any) -> Usage:
    """Return the tokens of a response; the provider states the cached ones beside the input."""
    given = recorded.count(usage, "in")
    read, written = recorded.count(usage, "cache_read"), recorded.count(usage, "cache_write")
    return Usage(
        input=None if given is None else given + (read or 0) + (written or 0),
        output=recorded.count(usage, "out"),
        cache_read=read,
        cache_write=written,
    )
