"""A pydantic-ai agent, wrapped in two lines: three runs, and the verdicts on them.

pydantic-ai emits GenAI spans by itself. The model is scripted, so it runs without a network::

    python examples/pydantic_ai_agent.py
"""

from __future__ import annotations

from judged_pair import RUNS, TASK, Bench, Shop
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from otel_turnavoid import TurnAvoidSpanProcessor, invoke
from otel_turnavoid.testing.model_server import ModelServer


def serve(shop: Shop, model_url: str, instrumentation: Instrumentation) -> None:
    """Let the agent do the task: nothing here knows that it is measured."""
    openai = OpenAIProvider(base_url=model_url, api_key="none")
    agent = Agent(
        OpenAIChatModel("gpt-5.1", provider=openai),
        name="orders",
        tools=[shop.look_up, shop.cancel],
        capabilities=[instrumentation],
    )
    agent.run_sync(TASK)


def main() -> None:
    """Run every arm, and print what the ledger says."""
    bench = Bench()
    bench.provider.add_span_processor(TurnAvoidSpanProcessor())  # the first line
    instrumentation = Instrumentation(InstrumentationSettings(tracer_provider=bench.provider))
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
            serve(shop, server.openai_url, instrumentation)
        print(f"{run_id}: the model answered {server.answers} times")
    bench.report()


if __name__ == "__main__":
    main()
