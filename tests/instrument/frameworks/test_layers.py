"""Several layers that each make spans: framework, SDK and our own entries; and sub-agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.instrument.responses import record_response
from otel_turnavoid.testing import Reply, ToolCall
from otel_turnavoid.testing.model_server import Failure, ModelServer

REASON = "needs the extra 'frameworks'"
TASK = "Cancel the orders 41 and 42."
USER = [{"role": "user", "content": TASK}]
LOOK_UP = [ToolCall("look_up", {"order": order}) for order in (41, 42)]
SCRIPT = [Reply(tool_calls=LOOK_UP[:1]), Reply(tool_calls=LOOK_UP[1:]), "Done."]


def look_up(order: int) -> str:
    """Return the status of an order."""
    return f"order {order} is open"


def run_of(bench: Any) -> Any:
    return invoke(run_id="r", arm="control", input=TASK, tracer_provider=bench.provider)


def claude(bench: Any, server: ModelServer, *, asynchronous: bool = False) -> Any:
    """Anthropic's SDK, which makes spans of its own."""
    anthropic = pytest.importorskip("anthropic", reason=REASON)
    kind = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
    return kind(
        base_url=server.anthropic_url,
        api_key="none",
        open_telemetry={"tracer_provider": bench.provider},
    )


def ask(client: Any) -> Any:
    return client.messages.create(model="claude-opus-5", messages=USER, max_tokens=100)


def test_an_sdk_that_traces_itself_needs_no_instrumentation(bench: Any) -> None:
    with ModelServer(["One.", Failure(529), "Two."]) as server, run_of(bench):
        client = claude(bench, server)
        ask(client)
        with tool_turn("look_up"):
            pass
        ask(client)

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.model_turns, run.tool_calls) == (server.answers, 1) == (2, 1)
    assert run.llm_calls == len(server.requests) == 3  # its spans say how often they were resent


def test_ours_around_an_sdk_that_traces_itself_is_one_call(bench: Any) -> None:
    """A01: both are raw spans in the counts, and one call in the account."""
    call = llm_call("claude-opus-5", provider="anthropic")
    with ModelServer(["One."]) as server, run_of(bench), agent_turn(), call:
        record_response(ask(claude(bench, server)))

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.model_turns, run.llm_calls) == (server.answers, 1) == (1, 1)
    assert (run.usage.input, run.usage.output) == (200, 20)


def test_a_framework_around_an_sdk_that_traces_itself_is_one_call_each(bench: Any) -> None:
    ai = pytest.importorskip("pydantic_ai", reason=REASON)
    models = pytest.importorskip("pydantic_ai.models.anthropic", reason=REASON)
    from pydantic_ai.capabilities import Instrumentation  # noqa: PLC0415 - may be absent
    from pydantic_ai.models.instrumented import InstrumentationSettings  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    async def main(server: ModelServer) -> None:
        async with claude(bench, server, asynchronous=True) as client, run_of(bench):
            model = models.AnthropicModel(
                "claude-opus-5", provider=AnthropicProvider(anthropic_client=client)
            )
            settings = InstrumentationSettings(tracer_provider=bench.provider)
            agent = ai.Agent(model, tools=[look_up], capabilities=[Instrumentation(settings)])
            await agent.run(TASK)

    with ModelServer(SCRIPT) as server:
        asyncio.run(main(server))

    operations = [(span.attributes or {}).get("gen_ai.operation.name") for span in bench.spans]
    run = bench.runs()["r"]
    assert operations.count("chat") == 6
    assert run.problems == ()
    assert (run.model_turns, run.llm_calls, run.tool_calls) == (3, 3, 2)
    assert server.answers == 3


def test_a_sub_agent_of_pydantic_ai_counts_in_its_callers_run(bench: Any) -> None:
    """Moving turns into a sub-agent avoids nothing."""
    ai = pytest.importorskip("pydantic_ai", reason=REASON)
    from pydantic_ai.capabilities import Instrumentation  # noqa: PLC0415 - may be absent
    from pydantic_ai.models.instrumented import InstrumentationSettings  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    spans = Instrumentation(InstrumentationSettings(tracer_provider=bench.provider))
    with ModelServer([Reply(tool_calls=[ToolCall("delegate")]), *SCRIPT, "Done."]) as server:
        provider = OpenAIProvider(base_url=server.openai_url, api_key="none")
        model = OpenAIChatModel("gpt-5.1", provider=provider)
        inner = ai.Agent(model, name="inner", tools=[look_up], capabilities=[spans])

        async def delegate() -> str:
            """Let another agent do it."""
            return str((await inner.run(TASK)).output)

        outer = ai.Agent(model, name="outer", tools=[delegate], capabilities=[spans])

        async def main() -> None:
            with run_of(bench):
                await outer.run(TASK)
            await provider.client.close()

        asyncio.run(main())

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.model_turns, run.tool_calls) == (server.answers, server.tool_calls) == (5, 3)


def test_a_fallback_to_another_model_is_one_turn(bench: Any) -> None:
    """A46: the same input, whichever model answers it in the end."""
    ai = pytest.importorskip("pydantic_ai", reason=REASON)
    openai = pytest.importorskip("openai", reason=REASON)
    fallback = pytest.importorskip("pydantic_ai.models.fallback", reason=REASON)
    from pydantic_ai.capabilities import Instrumentation  # noqa: PLC0415 - may be absent
    from pydantic_ai.models.instrumented import InstrumentationSettings  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    spans = Instrumentation(InstrumentationSettings(tracer_provider=bench.provider))

    async def main(broken: ModelServer, sound: ModelServer) -> None:
        async with (
            openai.AsyncOpenAI(base_url=broken.openai_url, api_key="-", max_retries=0) as first,
            openai.AsyncOpenAI(base_url=sound.openai_url, api_key="-") as second,
        ):
            models = [
                OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
                for name, client in (("gpt-5.1", first), ("gpt-4.1", second))
            ]
            model = fallback.FallbackModel(*models)
            agent = ai.Agent(model, tools=[look_up], capabilities=[spans])
            with run_of(bench):
                await agent.run(TASK)

    with ModelServer([Failure(500)] * 3) as broken, ModelServer(SCRIPT) as sound:
        asyncio.run(main(broken, sound))

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.model_turns, run.tool_calls) == (sound.answers, sound.tool_calls) == (3, 2)
    assert len(broken.requests) == 3


def test_an_agent_as_a_tool_of_the_openai_agents_sdk_counts_in_its_callers_run(
    bench: Any,
) -> None:
    agents = pytest.importorskip("agents", reason=REASON)
    openai = pytest.importorskip("openai", reason=REASON)
    instrumentation = pytest.importorskip(
        "opentelemetry.instrumentation.openai_agents", reason=REASON
    )
    agents.set_trace_processors([])
    instrumentor = instrumentation.OpenAIAgentsInstrumentor()
    instrumentor.instrument(tracer_provider=bench.provider)

    async def main(server: ModelServer) -> None:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none") as client:
            model = agents.OpenAIResponsesModel("gpt-5.1", client)
            inner = agents.Agent("inner", model=model, tools=[agents.function_tool(look_up)])
            as_tool = inner.as_tool("delegate", "Let another agent do it.")
            with run_of(bench):
                await agents.Runner.run(agents.Agent("outer", model=model, tools=[as_tool]), TASK)

    delegation = Reply(tool_calls=[ToolCall("delegate", {"input": TASK})])
    with ModelServer([delegation, *SCRIPT, "Done."]) as server:
        asyncio.run(main(server))
    instrumentor.uninstrument()

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.model_turns, run.tool_calls) == (server.answers, server.tool_calls) == (5, 3)
