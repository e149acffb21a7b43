"""A call ends once and rightly, whatever becomes of its stream; streams here are plain dicts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from otel_turnavoid import agent_turn, invoke, llm_call
from otel_turnavoid.errors import UsageError
from otel_turnavoid.instrument.responses import record_stream
from otel_turnavoid.testing import Reply, Telemetry
from otel_turnavoid.testing import model_wire as wire

REPLY = Reply("Hello", input_tokens=200, output_tokens=20)
BODY = wire.anthropic_message(REPLY, 1, "m")
EVENTS = list(wire.message_events(BODY))


@pytest.fixture(autouse=True)
def _in_a_turn(telemetry: Telemetry) -> Iterator[None]:
    with invoke(run_id="r", tracer_provider=telemetry.tracer_provider), agent_turn():
        yield


def call_of(telemetry: Telemetry) -> dict[str, Any]:
    (span,) = [span for span in telemetry.spans if span.name == "chat m"]
    return dict(span.attributes or {})


def became(telemetry: Telemetry) -> tuple[Any, Any]:
    call = call_of(telemetry)
    return call["turnavoid.call.disposition"], call.get("gen_ai.usage.output_tokens")


def test_figures_that_come_twice_are_totals_and_not_added(telemetry: Telemetry) -> None:
    """Anthropic's message_start and message_delta both say output_tokens."""
    with llm_call("m"):
        assert list(record_stream(iter(EVENTS))) == EVENTS

    assert became(telemetry) == ("committed", 20)


def test_leaving_after_the_last_event_is_no_loss(telemetry: Telemetry) -> None:
    with llm_call("m"):
        for event in record_stream(iter(EVENTS)):
            if event["type"] == "message_stop":
                break

    assert became(telemetry) == ("committed", 20)


def test_a_break_before_the_end_leaves_a_generation(telemetry: Telemetry) -> None:
    """The agent may have what it wanted: breaking off saves no turn."""
    with llm_call("m"):
        for _event in record_stream(iter(EVENTS)):
            break

    assert became(telemetry) == ("committed", None)


def test_a_stream_that_breaks_is_a_failed_call(telemetry: Telemetry) -> None:
    def broken() -> Iterator[Any]:
        yield EVENTS[0]
        raise ConnectionError

    with llm_call("m"), contextlib.suppress(ConnectionError):
        list(record_stream(broken()))

    assert became(telemetry) == ("failed", None)


def test_a_stream_that_was_never_read_gives_the_call_up(telemetry: Telemetry) -> None:
    with llm_call("m"):
        stream = record_stream(iter(EVENTS))

    assert became(telemetry) == ("failed", None)
    del stream


def test_an_error_of_the_consumer_leaves_a_generation(telemetry: Telemetry) -> None:
    @llm_call("m")
    def read() -> None:
        for _event in record_stream(iter(EVENTS)):
            raise KeyError

    with pytest.raises(KeyError):
        read()

    assert became(telemetry) == ("committed", None)


def test_a_disposition_stated_before_the_stream_stands(telemetry: Telemetry) -> None:
    with llm_call("m") as call:
        call.set(disposition="discarded")
        list(record_stream(iter(EVENTS)))

    assert became(telemetry) == ("discarded", 20)


def test_more_can_be_said_after_the_stream_where_the_block_ends_the_call(
    telemetry: Telemetry,
) -> None:
    with llm_call("m") as call:
        list(record_stream(iter(EVENTS)))
        call.cost(0.01)

    assert call_of(telemetry)["turnavoid.cost.usd"] == 0.01


def test_a_generator_of_ones_own_streams_through_its_call(telemetry: Telemetry) -> None:
    @llm_call("m")
    def ask() -> Iterator[Any]:
        yield from record_stream(iter(EVENTS))

    assert list(ask()) == EVENTS
    assert became(telemetry) == ("committed", 20)


def test_reading_on_after_the_call_has_ended_is_bad_use(telemetry: Telemetry) -> None:
    with llm_call("m"):
        stream = record_stream(iter(EVENTS))

    with pytest.raises(UsageError, match="a stream was read after its llm_call had ended"):
        list(stream)
    assert became(telemetry) == ("failed", None)


def test_something_that_is_no_stream_is_bad_use() -> None:
    with llm_call("m"), pytest.raises(UsageError) as raised:
        record_stream(3)

    assert str(raised.value) == "record_stream: want a stream, got int"


def test_a_stream_of_another_api_is_bad_use() -> None:
    with llm_call("m"), pytest.raises(UsageError) as raised:
        list(record_stream(iter([{"candidates": []}])))

    assert str(raised.value) == (
        "record_stream: want the events of a response of Chat Completions, OpenAI Responses or"
        " Anthropic Messages, got dict"
    )


@pytest.mark.usefixtures("production")
def test_a_stream_of_another_api_passes_through_in_production(telemetry: Telemetry) -> None:
    strange = [{"candidates": [number]} for number in range(3)]
    with llm_call("m"):
        assert list(record_stream(iter(strange))) == strange

    assert became(telemetry) == ("committed", None)


def test_a_cancelled_task_leaves_a_generation(telemetry: Telemetry) -> None:
    async def endless() -> AsyncIterator[Any]:
        yield EVENTS[0]
        await asyncio.Event().wait()

    async def ask() -> None:
        async with llm_call("m"):
            async for _event in record_stream(endless()):
                pass

    async def main() -> None:
        task = asyncio.create_task(ask())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert became(telemetry) == ("committed", None)
    assert call_of(telemetry)["error.type"] == "asyncio.exceptions.CancelledError"
    assert call_of(telemetry)["gen_ai.response.id"] == "msg_1"


def test_a_response_that_failed_on_its_way_is_a_failed_call(telemetry: Telemetry) -> None:
    body = wire.openai_response(REPLY, 1, "m") | {
        "status": "failed",
        "error": {"code": "server_error", "message": "…"},
    }
    events = [
        {"type": "response.created", "response": body},
        {"type": "response.failed", "response": body},
    ]
    with llm_call("m"):
        list(record_stream(iter(events)))

    call = call_of(telemetry)
    assert (call["turnavoid.call.disposition"], call["error.type"]) == ("failed", "server_error")
