"""Whatever ends an entry ends its span once, is told apart, and goes on unchanged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from otel_turnavoid import agent_turn, current_invoke, invoke, llm_call, tool_turn
from otel_turnavoid.testing import Telemetry


class ProviderError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "name", "state"),
    [
        (ValueError("secret prompt"), "ValueError", "failed"),
        (ProviderError("secret prompt"), f"{__name__}.ProviderError", "failed"),
        (asyncio.CancelledError(), "asyncio.exceptions.CancelledError", "aborted"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "aborted"),
        (SystemExit(0), "SystemExit", "aborted"),
        (GeneratorExit(), "GeneratorExit", "aborted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_an_exception_fails_every_entry_it_passes(
    telemetry: Telemetry, error: BaseException, name: str, state: str
) -> None:
    with (
        pytest.raises(type(error)) as raised,
        invoke("a", tracer_provider=telemetry.tracer_provider),
        agent_turn(),
        llm_call("m"),
    ):
        raise error

    assert raised.value is error
    assert [
        (span.name, span.attributes["error.type"], span.status.status_code, len(span.events))
        for span in telemetry.spans
    ] == [(kind, name, StatusCode.ERROR, 0) for kind in ("chat m", "agent_turn", "invoke_agent a")]
    call, turn, run = (dict(span.attributes or {}) for span in telemetry.spans)
    assert call["turnavoid.call.disposition"] == "failed"
    assert turn["turnavoid.turn.disposition"] == "failed"
    assert run["turnavoid.invoke.state"] == state
    assert run["turnavoid.invoke.entries"] == 3


def test_the_text_of_an_exception_is_not_recorded(telemetry: Telemetry) -> None:
    with (
        pytest.raises(ValueError, match="secret"),
        invoke("a", tracer_provider=telemetry.tracer_provider),
        tool_turn("t"),
    ):
        raise ValueError("secret prompt")

    assert b"secret" not in telemetry.trace_request()


def test_a_turn_with_a_good_generation_stays_committed(telemetry: Telemetry) -> None:
    """Design section 2: committed is a turn with a successful generation; code after it failed."""

    @agent_turn
    def turn_with_bad_answer() -> None:
        with llm_call("m"):
            pass
        raise ValueError("parse")

    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        pytest.raises(ValueError, match="parse"),
    ):
        turn_with_bad_answer()

    turn = telemetry.spans[1]
    assert turn.attributes["turnavoid.turn.disposition"] == "committed"
    assert turn.status.status_code is StatusCode.ERROR


def test_a_tool_that_failed_was_executed(telemetry: Telemetry) -> None:
    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        pytest.raises(OSError, match="x"),
        tool_turn("t"),
    ):
        raise OSError("x")

    assert telemetry.spans[0].attributes["turnavoid.tool.disposition"] == "executed"
    assert telemetry.spans[0].attributes["error.type"] == "OSError"


def test_what_the_user_stated_stands_when_an_exception_ends_the_entry(
    telemetry: Telemetry,
) -> None:
    class ApprovalNeededError(Exception):
        pass

    @invoke("a", tracer_provider=telemetry.tracer_provider)
    def agent() -> None:
        with suppress(asyncio.CancelledError), agent_turn(), llm_call("m") as call:
            call.set(disposition="discarded")
            raise asyncio.CancelledError
        current_invoke().set(state="paused")
        raise ApprovalNeededError

    with pytest.raises(ApprovalNeededError):
        agent()

    call_span, turn_span, run_span = telemetry.spans
    assert call_span.attributes["turnavoid.call.disposition"] == "discarded"
    assert turn_span.attributes["turnavoid.turn.disposition"] == "discarded"
    assert run_span.attributes["turnavoid.invoke.state"] == "paused"


def test_a_cancelled_task_ends_its_entries(telemetry: Telemetry) -> None:
    @llm_call("m")
    async def hang() -> None:
        await asyncio.Event().wait()

    async def agent() -> None:
        async with invoke("a", tracer_provider=telemetry.tracer_provider), agent_turn():
            await hang()

    async def main() -> None:
        task = asyncio.create_task(agent())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [span.name for span in telemetry.spans] == ["chat m", "agent_turn", "invoke_agent a"]
    assert telemetry.spans[2].attributes["turnavoid.invoke.state"] == "aborted"


def test_a_decorated_function_raises_its_own_exception(telemetry: Telemetry) -> None:
    error = ProviderError()

    @invoke(tracer_provider=telemetry.tracer_provider)
    def agent() -> Any:
        raise error

    with pytest.raises(ProviderError) as raised:
        agent()
    assert raised.value is error
    assert len(telemetry.spans) == 1


def test_ending_twice_changes_nothing(telemetry: Telemetry) -> None:
    handle = invoke("a", tracer_provider=telemetry.tracer_provider).begin()
    handle.end()
    handle.end(ValueError())

    (span,) = telemetry.spans
    assert span.attributes["turnavoid.invoke.state"] == "completed"
