"""Message content is off by default, and on by the conventions' variable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import _logs

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.instrument.content import CONTENT_VARIABLE, EVENT_DETAILS
from otel_turnavoid.testing import Telemetry

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Cancel my secret order ü"}]}]
ANSWERED = [{"role": "assistant", "parts": [{"type": "text", "content": "The secret is gone"}]}]


@pytest.fixture(autouse=True)
def _global_logs(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_logs._internal, "_LOGGER_PROVIDER", telemetry.logger_provider)
    return


def run(telemetry: Telemetry) -> dict[str, dict[str, Any]]:
    with (
        invoke("a", input=ASKED, tracer_provider=telemetry.tracer_provider),
        agent_turn(),
        llm_call("m", provider="p", input=ASKED) as call,
    ):
        call.messages(output=ANSWERED)
        with tool_turn("t") as tool:
            tool.content(arguments={"order": "secret"}, result="gone, secret")
    return {span.name: dict(span.attributes or {}) for span in telemetry.spans}


def everything(telemetry: Telemetry) -> str:
    return (telemetry.trace_request() + telemetry.logs_request()).decode("utf-8", "replace")


@pytest.mark.parametrize("value", [None, "", "false", "NO_CONTENT", "yes"])
def test_by_default_no_content_is_recorded(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv(CONTENT_VARIABLE, value)
    run(telemetry)

    assert "secret" not in everything(telemetry)


@pytest.mark.parametrize("value", ["true", "True", "SPAN_ONLY", "span_and_event"])
def test_on_spans(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, value)
    said = run(telemetry)

    assert json.loads(said["chat m"]["gen_ai.input.messages"]) == ASKED
    assert json.loads(said["chat m"]["gen_ai.output.messages"]) == ANSWERED
    assert json.loads(said["execute_tool t"]["gen_ai.tool.call.arguments"]) == {"order": "secret"}
    assert said["execute_tool t"]["gen_ai.tool.call.result"] == "gone, secret"
    assert "secret" not in str(said["invoke_agent a"])


@pytest.mark.parametrize("value", ["EVENT_ONLY", "SPAN_AND_EVENT"])
def test_in_events(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, value)
    said = run(telemetry)

    (record,) = [each.log_record for each in telemetry.records]
    assert record.event_name == EVENT_DETAILS
    assert dict(record.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "p",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(ASKED, ensure_ascii=False),
        "gen_ai.output.messages": json.dumps(ANSWERED, ensure_ascii=False),
    }
    (call,) = [span for span in telemetry.spans if span.name == "chat m"]
    assert (record.trace_id, record.span_id) == (call.context.trace_id, call.context.span_id)
    assert ("gen_ai.input.messages" in said["chat m"]) == (value == "SPAN_AND_EVENT")


def test_the_input_of_a_decorated_function_too(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, "true")

    @llm_call("m", input_from="question")
    def ask(question: str) -> str:
        return question

    with invoke("a", tracer_provider=telemetry.tracer_provider):
        ask("why?")

    (call,) = [span for span in telemetry.spans if span.name == "chat m"]
    assert call.attributes["gen_ai.input.messages"] == "why?"


def test_what_json_cannot_say_is_said_as_text(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, "true")

    class Model:
        def model_dump(self, *, mode: str) -> dict[str, str]:
            return {"mode": mode}

    endless: list[Any] = []
    endless.append(endless)
    with invoke("a", tracer_provider=telemetry.tracer_provider), tool_turn("t") as tool:
        tool.content(arguments=[Model(), 1j], result=endless)

    attributes = telemetry.spans[0].attributes
    assert attributes["gen_ai.tool.call.arguments"] == '[{"mode": "json"}, "1j"]'
    assert attributes["gen_ai.tool.call.result"] == "[[...]]"
