"""A LangGraph agent, wrapped in two lines: three runs, and the verdicts on them.

``opentelemetry-instrumentation-langchain`` emits GenAI spans for LangChain and LangGraph. The
model is scripted, so it runs without a network::

    python examples/langgraph_agent.py
"""

from __future__ import annotations

from judged_pair import RUNS, TASK, Bench, Shop
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from pydantic import SecretStr

from otel_turnavoid import TurnAvoidSpanProcessor, invoke
from otel_turnavoid.testing.model_server import ModelServer


def serve(shop: Shop, model_url: str) -> None:
    """Let the agent do the task: nothing here knows that it is measured."""
    model = ChatOpenAI(model="gpt-5.1", base_url=model_url, api_key=SecretStr("none"))
    agent = create_agent(model, tools=[shop.look_up, shop.cancel], name="orders")
    agent.invoke({"messages": [{"role": "user", "content": TASK}]})


def main() -> None:
    """Run every arm, and print what the ledger says."""
    bench = Bench()
    bench.provider.add_span_processor(TurnAvoidSpanProcessor())  # the first line
    LangchainInstrumentor().instrument(tracer_provider=bench.provider)
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
            serve(shop, server.openai_url)
        print(f"{run_id}: the model answered {server.answers} times")
    bench.report()


if __name__ == "__main__":
    main()
