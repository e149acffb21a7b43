"""An agent of the OpenAI Agents SDK, wrapped in two lines: three runs, and the verdicts.

The SDK has tracing of its own; ``opentelemetry-instrumentation-openai-agents-v2`` turns it into
GenAI spans. The model is scripted, so it runs without a network::

    python examples/openai_agents_agent.py
"""

from __future__ import annotations

import asyncio

from agents import (
    Agent,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_trace_processors,
)
from judged_pair import RUNS, TASK, Bench, Shop
from openai import AsyncOpenAI
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

from otel_turnavoid import TurnAvoidSpanProcessor, invoke
from otel_turnavoid.testing.model_server import ModelServer


async def serve(shop: Shop, model_url: str) -> None:
    """Let the agent do the task: nothing here knows that it is measured."""
    async with AsyncOpenAI(base_url=model_url, api_key="none") as openai:
        agent = Agent(
            name="orders",
            model=OpenAIResponsesModel("gpt-5.1", openai),
            tools=[function_tool(shop.look_up), function_tool(shop.cancel)],
        )
        await Runner.run(agent, TASK)


async def main() -> None:
    """Run every arm, and print what the ledger says."""
    bench = Bench()
    bench.provider.add_span_processor(TurnAvoidSpanProcessor())  # the first line
    set_trace_processors([])  # the SDK's own exporter would send traces to OpenAI
    OpenAIAgentsInstrumentor().instrument(tracer_provider=bench.provider)
    for run_id, arm, variant, script in RUNS:
        with (
            bench.observed(run_id) as shop,
            ModelServer(script) as server,
            invoke(  # the second line
                run_id=run_id,
                arm=arm,
                variant=variant,
                mechanism=arm,
                lifecycle="realized",
                input=TASK,
                tracer_provider=bench.provider,
            ),
        ):
            await serve(shop, server.openai_url)
        print(f"{run_id}: the model answered {server.answers} times")
    bench.report()


if __name__ == "__main__":
    asyncio.run(main())
