"""Real frameworks against a scripted model server: what the server counted is what is declared.

Each framework runs the same scenarios. The truth is the server's: answered requests are turns,
tool calls that it asked for are tools. SDK retries are inside a framework's span: one call.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from otel_turnavoid import invoke
from otel_turnavoid.testing import Reply, ToolCall
from otel_turnavoid.testing.model_server import Failure, ModelServer

TASK = "Cancel the orders 41 and 42."
LOOK_UP = [ToolCall("look_up", {"order": order}, f"call-{order}") for order in (41, 42)]
DONE = "Done."

CONTROL = [Reply(tool_calls=LOOK_UP[:1]), Reply(tool_calls=LOOK_UP[1:]), DONE]
FUSED = [Reply(tool_calls=LOOK_UP), DONE]
SCENARIOS = {
    "control": CONTROL,
    "fused": FUSED,
    "no tools": [DONE],
    "server error": [CONTROL[0], Failure(500), *CONTROL[1:]],
    "rate limit": [CONTROL[0], Failure(429), *CONTROL[1:]],
    "cached": [Reply(tool_calls=LOOK_UP[:1], cached_tokens=120), Reply(DONE, cached_tokens=120)],
}


def look_up(order: int) -> str:
    """Return the status of an order."""
    return f"order {order} is open"


def _need(*modules: str) -> list[Any]:
    for module in modules:
        pytest.importorskip(module, reason="needs the extra 'frameworks'")
    return [importlib.import_module(module) for module in modules]


Serve = Callable[..., Any]


@pytest.fixture
def pydantic_ai(bench: Any) -> Serve:
    ai, capabilities, instrumented, models, providers = _need(
        "pydantic_ai",
        "pydantic_ai.capabilities",
        "pydantic_ai.models.instrumented",
        "pydantic_ai.models.openai",
        "pydantic_ai.providers.openai",
    )
    settings = instrumented.InstrumentationSettings(tracer_provider=bench.provider)

    async def serve(server: ModelServer, *, stream: bool = False) -> None:
        provider = providers.OpenAIProvider(base_url=server.openai_url, api_key="none")
        model = models.OpenAIChatModel("gpt-5.1", provider=provider)
        spans = capabilities.Instrumentation(settings)
        agent = ai.Agent(model, name="orders", tools=[look_up], capabilities=[spans])
        if stream:
            async with agent.run_stream(TASK) as result:
                async for _text in result.stream_text():
                    pass
        else:
            await agent.run(TASK)
        await provider.client.close()

    return serve


def agents_sdk(bench: Any, module: str) -> Iterator[Serve]:
    agents, openai, instrumentation = _need("agents", "openai", module)
    agents.set_trace_processors([])
    instrumentor = instrumentation.OpenAIAgentsInstrumentor()
    instrumentor.instrument(tracer_provider=bench.provider)

    async def serve(server: ModelServer, *, stream: bool = False) -> None:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none") as client:
            agent = agents.Agent(
                name="orders",
                model=agents.OpenAIResponsesModel("gpt-5.1", client),
                tools=[agents.function_tool(look_up)],
            )
            if stream:
                result = agents.Runner.run_streamed(agent, TASK)
                async for _event in result.stream_events():
                    pass
            else:
                await agents.Runner.run(agent, TASK)

    yield serve
    instrumentor.uninstrument()


@pytest.fixture
def openai_agents(bench: Any) -> Iterator[Serve]:
    yield from agents_sdk(bench, "opentelemetry.instrumentation.openai_agents")


@pytest.fixture
def openai_agents_openinference(bench: Any) -> Iterator[Serve]:
    yield from agents_sdk(bench, "openinference.instrumentation.openai_agents")


@pytest.fixture
def langgraph(bench: Any, switched: Any) -> Serve:
    langchain, chat_models, instrumentation = _need(
        "langchain.agents", "langchain_openai", "opentelemetry.instrumentation.langchain"
    )
    instrumentor = instrumentation.LangchainInstrumentor()
    if not instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.instrument(tracer_provider=switched[0])
    bench.use(*switched)

    async def serve(server: ModelServer, *, stream: bool = False) -> None:
        model = chat_models.ChatOpenAI(
            model="gpt-5.1", base_url=server.openai_url, api_key="none", stream_usage=True
        )
        agent = langchain.create_agent(model, tools=[look_up], name="orders")
        asked = {"messages": [{"role": "user", "content": TASK}]}
        if stream:
            async for _part in agent.astream(asked, stream_mode="messages"):
                pass
        else:
            await agent.ainvoke(asked)

    return serve


@pytest.fixture(params=["pydantic_ai", "openai_agents", "openai_agents_openinference", "langgraph"])
def serve(request: pytest.FixtureRequest) -> Serve:
    """Let one framework's agent do the task against a server."""
    return request.getfixturevalue(request.param)


def served(bench: Any, serve: Serve, script: Sequence[Any], **options: Any) -> ModelServer:
    with ModelServer(script) as server:

        async def main() -> None:
            async with invoke(
                run_id="r", arm="control", input=TASK, tracer_provider=bench.provider
            ):
                await serve(server, **options)

        asyncio.run(main())
    return server


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_declared_is_what_the_server_counted(
    bench: Any, serve: Serve, scenario: str
) -> None:
    server = served(bench, serve, SCENARIOS[scenario])

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.evidence.value, run.model_turns, run.tool_calls) == (
        "declared",
        server.answers,
        server.tool_calls,
    )


def test_streamed_runs_count_the_same(bench: Any, serve: Serve) -> None:
    server = served(bench, serve, CONTROL, stream=True)

    run = bench.runs()["r"]
    assert run.problems == ()
    assert (run.model_turns, run.tool_calls) == (server.answers, server.tool_calls) == (3, 2)


def test_runs_side_by_side_are_kept_apart(bench: Any, serve: Serve) -> None:
    async def one(run_id: str, server: ModelServer) -> None:
        async with invoke(run_id=run_id, arm="control", tracer_provider=bench.provider):
            await serve(server)

    async def main() -> None:
        await asyncio.gather(one("a", first), one("b", second), one("c", third))

    with ModelServer(CONTROL) as first, ModelServer(FUSED) as second, ModelServer([DONE]) as third:
        asyncio.run(main())

    runs = bench.runs()
    assert {name: (runs[name].model_turns, runs[name].tool_calls) for name in "abc"} == {
        "a": (3, 2),
        "b": (2, 2),
        "c": (1, 0),
    }
    assert [runs[name].causes for name in "abc"] == [(), (), ()]


def test_an_agent_that_fails_declares_what_it_had(bench: Any, serve: Serve) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - each framework has its own
        served(bench, serve, [CONTROL[0], Failure(400)])

    run = bench.runs()["r"]
    assert [cause.value for cause in run.causes] == ["run-not-completed"]
    assert (run.model_turns, run.tool_calls) == (1, 1)


def test_every_span_inside_carries_the_run(bench: Any, serve: Serve) -> None:
    served(bench, serve, CONTROL)

    assert {(span.attributes or {}).get("turnavoid.run.id") for span in bench.spans} == {"r"}
