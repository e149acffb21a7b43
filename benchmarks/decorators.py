"""What a decorated call costs, against a plain span with the same attributes.

Both record into the same SDK with a processor that drops what it gets, in alternating rounds of
one process; printed are the best rounds and their ratio. The plain side does by hand what a
careful user would: ``start_as_current_span`` with the starting attributes, ``set_attributes``
with the rest.

Run: ``python benchmarks/decorators.py [calls per round]``
"""

from __future__ import annotations

import sys
from time import perf_counter

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.vocabulary import SCOPE

ROUNDS = 15


@llm_call("gpt-5.1", provider="openai")
def decorated_call() -> None:
    """Stand for a model call."""


def managed_call() -> None:
    with llm_call("gpt-5.1", provider="openai"):
        pass


@tool_turn
def lookup_order() -> None:
    """Stand for a tool."""


def main(calls: int) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())
    tracer = provider.get_tracer(SCOPE)

    def plain_call(seq: int) -> None:
        with tracer.start_as_current_span(
            "chat gpt-5.1",
            kind=SpanKind.CLIENT,
            attributes={
                "turnavoid.entry": "llm_call",
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-5.1",
                "turnavoid.run.id": "r",
                "turnavoid.arm": "control",
                "turnavoid.call.purpose": "agent",
                "turnavoid.call.attempt": 1,
                "turnavoid.seq": seq,
            },
        ) as span:
            span.set_attributes(
                {"turnavoid.call.disposition": "committed", "turnavoid.call.samplings": 1}
            )

    def plain_tool(seq: int) -> None:
        with tracer.start_as_current_span(
            "execute_tool lookup_order",
            attributes={
                "turnavoid.entry": "tool_turn",
                "gen_ai.operation.name": "execute_tool",
                "turnavoid.tool.caller": "model",
                "turnavoid.tool.disposition": "executed",
                "gen_ai.tool.name": "lookup_order",
                "turnavoid.run.id": "r",
                "turnavoid.arm": "control",
                "turnavoid.seq": seq,
            },
        ):
            pass

    contests = {
        "@llm_call": (plain_call, decorated_call),
        "with llm_call": (plain_call, managed_call),
        "@tool_turn": (plain_tool, lookup_order),
    }
    best = {name: [float("inf"), float("inf")] for name in contests}
    with invoke("bench", run_id="r", arm="control", tracer_provider=provider), agent_turn():
        for _ in range(ROUNDS):
            for name, (plain, ours) in contests.items():
                started = perf_counter()
                for seq in range(calls):
                    plain(seq)
                between = perf_counter()
                for _ in range(calls):
                    ours()
                ended = perf_counter()
                best[name][0] = min(best[name][0], between - started)
                best[name][1] = min(best[name][1], ended - between)
    for name, (plain_s, ours_s) in best.items():
        print(
            f"{name}: plain span {plain_s / calls * 1e6:.2f} us,"
            f" ours {ours_s / calls * 1e6:.2f} us, ratio {ours_s / plain_s:.2f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
