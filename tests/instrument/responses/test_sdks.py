"""The providers' own SDKs against a scripted server: whole, streamed, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from otel_turnavoid import agent_turn, invoke, llm_call
from otel_turnavoid.instrument.responses import record_response, record_stream
from otel_turnavoid.testing import Reply, Telemetry, ToolCall
from otel_turnavoid.testing.model_server import Cut, ModelServer

openai = pytest.importorskip("openai", reason="needs the extra 'frameworks'")
anthropic = pytest.importorskip("anthropic", reason="needs the extra 'frameworks'")

USER = [{"role": "user", "content": "Cancel order 42."}]
REPLY = Reply(
    "One moment.",
    tool_calls=[ToolCall("look_up", {"order": 42})],
    input_tokens=200,
    output_tokens=20,
    cached_tokens=120,
    cache_write_tokens=30,
    reasoning_tokens=7,
)
COMMON = {
    "gen_ai.response.model": "m",
    "gen_ai.usage.input_tokens": 200,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 120,
    "gen_ai.usage.reasoning.output_tokens": 7,
    "turnavoid.call.disposition": "committed",
    "turnavoid.call.samplings": 1,
}
WRITTEN = {"gen_ai.usage.cache_write.input_tokens": 30}
CHAT = COMMON | {
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.response.finish_reasons": ("tool_calls",),
}
RESPONSES = (
    COMMON
    | WRITTEN
    | {
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.finish_reasons": ("completed",),
    }
)
MESSAGES = (
    COMMON
    | WRITTEN
    | {
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.finish_reasons": ("tool_use",),
    }
)
LEFT = {
    "gen_ai.response.model": "m",
    "turnavoid.call.disposition": "committed",
    "turnavoid.call.samplings": 1,
}


@pytest.fixture(autouse=True)
def _in_a_turn(telemetry: Telemetry) -> Iterator[None]:
    with invoke(run_id="r", tracer_provider=telemetry.tracer_provider), agent_turn():
        yield


def said(telemetry: Telemetry) -> dict[str, Any]:
    """What the one ended call says about its answer."""
    (span,) = [span for span in telemetry.spans if span.name == "chat m"]
    keys = ("gen_ai.response", "gen_ai.usage", "error", "turnavoid.call.d", "turnavoid.call.s")
    return {key: value for key, value in (span.attributes or {}).items() if key.startswith(keys)}


def ask_chat(server: ModelServer, **options: Any) -> Any:
    client = openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
    if options.get("stream"):
        options["stream_options"] = {"include_usage": True}
    return client.chat.completions.create(model="m", messages=USER, **options)


def ask_responses(server: ModelServer, **options: Any) -> Any:
    client = openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
    return client.responses.create(model="m", input=USER, **options)


def ask_messages(server: ModelServer, **options: Any) -> Any:
    client = anthropic.Anthropic(base_url=server.anthropic_url, api_key="none", max_retries=0)
    return client.messages.create(model="m", messages=USER, max_tokens=100, **options)


async def aask_chat(server: ModelServer) -> Any:
    client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
    options = {"include_usage": True}
    return await client.chat.completions.create(
        model="m", messages=USER, stream=True, stream_options=options
    )


async def aask_responses(server: ModelServer) -> Any:
    client = openai.AsyncOpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
    return await client.responses.create(model="m", input=USER, stream=True)


async def aask_messages(server: ModelServer) -> Any:
    client = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="none", max_retries=0)
    return await client.messages.create(model="m", messages=USER, max_tokens=100, stream=True)


APIS = [
    pytest.param(ask_chat, CHAT, id="chat"),
    pytest.param(ask_responses, RESPONSES, id="responses"),
    pytest.param(ask_messages, MESSAGES, id="messages"),
]


@pytest.mark.parametrize(("ask", "expected"), APIS)
def test_a_whole_response(telemetry: Telemetry, ask: Any, expected: dict[str, Any]) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        record_response(ask(server))

    assert said(telemetry) == expected


@pytest.mark.parametrize(("ask", "expected"), APIS)
def test_a_stream_says_the_same_as_a_whole_response(
    telemetry: Telemetry, ask: Any, expected: dict[str, Any]
) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        for _event in record_stream(ask(server, stream=True)):
            pass

    assert said(telemetry) == expected


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        pytest.param(aask_chat, CHAT, id="chat"),
        pytest.param(aask_responses, RESPONSES, id="responses"),
        pytest.param(aask_messages, MESSAGES, id="messages"),
    ],
)
def test_an_asynchronous_stream_says_the_same(
    telemetry: Telemetry, ask: Any, expected: dict[str, Any]
) -> None:
    async def main(server: ModelServer) -> None:
        async with llm_call("m"):
            async for _event in record_stream(await ask(server)):
                pass

    with ModelServer([REPLY]) as server:
        asyncio.run(main(server))

    assert said(telemetry) == expected


@pytest.mark.parametrize(("ask", "expected"), APIS)
def test_a_stream_that_is_left_early_is_a_generation(
    telemetry: Telemetry, ask: Any, expected: dict[str, Any]
) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        stream = record_stream(ask(server, stream=True))
        next(iter(stream))
        stream.close()

    assert said(telemetry) == LEFT | {"gen_ai.response.id": expected["gen_ai.response.id"]}


@pytest.mark.parametrize("ask", [ask_chat, ask_responses, ask_messages])
def test_a_connection_that_breaks_is_a_failed_call(telemetry: Telemetry, ask: Any) -> None:
    @llm_call("m")
    def read_all(server: ModelServer) -> None:
        for _event in record_stream(ask(server, stream=True)):
            pass

    with ModelServer([Cut(REPLY)]) as server, pytest.raises(Exception) as raised:  # noqa: PT011 - each SDK has its own
        read_all(server)

    call = said(telemetry)
    assert call["turnavoid.call.disposition"] == "failed"
    assert call["error.type"].endswith(type(raised.value).__qualname__)
    assert "gen_ai.usage.output_tokens" not in call


def test_a_call_begun_by_hand_ends_with_its_stream(telemetry: Telemetry) -> None:
    with ModelServer([REPLY]) as server:
        stream = record_stream(ask_chat(server, stream=True), llm_call("m").begin())
        for _event in stream:
            pass

    assert said(telemetry) == CHAT


def test_a_call_begun_by_hand_ends_when_its_stream_is_forgotten(telemetry: Telemetry) -> None:
    with ModelServer([REPLY]) as server:
        inner = ask_chat(server, stream=True)
        stream = record_stream(inner, llm_call("m").begin())
        next(iter(stream))
        del stream
        inner.close()

    assert said(telemetry) == LEFT | {
        "gen_ai.response.id": "chatcmpl-1",
        "error.type": "GeneratorExit",
    }


def test_anthropics_stream_helper_with_its_text_and_final_message(telemetry: Telemetry) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        client = anthropic.Anthropic(base_url=server.anthropic_url, api_key="none")
        helper = client.messages.stream(model="m", messages=USER, max_tokens=100)
        with record_stream(helper) as stream:
            texts = list(stream.text_stream)
            final = stream.get_final_message()

    assert texts == ["One mo", "ment."]
    assert final.content[0].text == "One moment."
    assert said(telemetry) == MESSAGES


def test_anthropics_asynchronous_stream_helper(telemetry: Telemetry) -> None:
    async def main(server: ModelServer) -> Any:
        client = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="none")
        helper = client.messages.stream(model="m", messages=USER, max_tokens=100)
        async with llm_call("m"), record_stream(helper) as stream:
            return await stream.get_final_message()

    with ModelServer([REPLY]) as server:
        final = asyncio.run(main(server))

    assert final.stop_reason == "tool_use"
    assert said(telemetry) == MESSAGES


def test_openais_stream_helper_for_responses(telemetry: Telemetry) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        with record_stream(client.responses.stream(model="m", input=USER)) as stream:
            final = stream.get_final_response()

    assert final.id == "resp_1"
    assert said(telemetry) == RESPONSES


def test_openais_stream_helper_for_chat_completions(telemetry: Telemetry) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        helper = client.chat.completions.stream(
            model="m", messages=USER, stream_options={"include_usage": True}
        )
        with record_stream(helper) as stream:
            final = stream.get_final_completion()

    assert final.id == "chatcmpl-1"
    assert said(telemetry) == CHAT


def test_a_stream_without_usage_leaves_it_unknown(telemetry: Telemetry) -> None:
    with ModelServer([REPLY]) as server, llm_call("m"):
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        stream = client.chat.completions.create(model="m", messages=USER, stream=True)
        for _chunk in record_stream(stream):
            pass

    call = said(telemetry)
    assert not [key for key in call if key.startswith("gen_ai.usage")]
    assert call["turnavoid.call.disposition"] == "committed"
