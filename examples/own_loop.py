"""A small agent loop of one's own, instrumented: cancel two orders in a database.

The model is scripted, so it runs without a network. In the control arm it looks up one order a
turn; in the ``fused-batch`` arm it asks for both at once and needs a turn less. Spans go to
standard error, or over OTLP where ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set::

    turnavoid collect &
    export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
    python examples/own_loop.py control.db control
    python examples/own_loop.py candidate.db fused-batch

Each prints its run id; ``examples/observer.py`` then says what became of the database.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn, user_turn
from otel_turnavoid.testing import Reply, ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import TracerProvider as AnyTracerProvider

TASK = "Cancel the orders 41 and 42 if they have not been sent."
LOOK_UP_41 = ToolCall("look_up", {"order": 41}, "call-1")
LOOK_UP_42 = ToolCall("look_up", {"order": 42}, "call-2")
CANCEL = [
    ToolCall("cancel", {"order": 41}, "call-3"),
    ToolCall("cancel", {"order": 42}, "call-4"),
]
SCRIPTS = {
    "control": [
        Reply(tool_calls=[LOOK_UP_41]),
        Reply(tool_calls=[LOOK_UP_42]),
        Reply(tool_calls=CANCEL),
        Reply("Both are cancelled."),
    ],
    "fused-batch": [
        Reply(tool_calls=[LOOK_UP_41, LOOK_UP_42]),
        Reply(tool_calls=CANCEL),
        Reply("Both are cancelled."),
    ],
}


def open_shop(path: str) -> sqlite3.Connection:
    """Return a database with two open orders."""
    shop = sqlite3.connect(path)
    with shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
        shop.executemany("INSERT INTO orders VALUES (?, 'open')", [(41,), (42,)])
    return shop


def execute(shop: sqlite3.Connection, call: ToolCall) -> str:
    """Execute one tool call of the model."""
    with tool_turn(call.name, call_id=call.id):
        order = call.arguments["order"]
        if call.name == "cancel":
            with shop:
                shop.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order,))
        (status,) = shop.execute("SELECT status FROM orders WHERE id = ?", (order,)).fetchone()
        return str(status)


@agent_turn
def next_step(model: ScriptedModel, messages: list[Mapping[str, Any]]) -> Reply:
    """Ask the model once; a retry with the same messages would stay inside this turn."""
    with llm_call(model.name, provider="scripted", input=messages) as call:
        reply = model.complete(messages)
        call.set(model=model.name, response_id=reply.id, finish_reasons=[reply.finish_reason])
        call.usage(input=reply.input_tokens, output=reply.output_tokens)
    return reply


def run(
    shop: sqlite3.Connection, arm: str, tracer_provider: AnyTracerProvider | None = None
) -> str | None:
    """Let the agent do the task and return its run id."""
    model = ScriptedModel(SCRIPTS[arm])
    messages: list[Mapping[str, Any]] = []
    with invoke("orders", arm=arm, input=TASK, tracer_provider=tracer_provider) as this_run:
        with user_turn():
            messages.append({"role": "user", "content": TASK})
        while True:
            reply = next_step(model, messages)
            messages.append({"role": "assistant", "content": reply.text, "id": reply.id})
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                result = execute(shop, call)
                messages.append({"role": "tool", "call_id": call.id, "content": result})
        if arm != "control":
            this_run.set(mechanism=arm, lifecycle="realized", reason="serial-round-trip-collapsed")
    return this_run.run_id


def main() -> None:
    """Run one arm on a new database and print the run id."""
    path, arm = sys.argv[1], sys.argv[2]
    provider = TracerProvider(
        resource=Resource.create(
            {"service.name": "orders-agent", "service.instance.id": f"orders-agent-{arm}"}
        )
    )
    over_otlp = "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ
    exporter = OTLPSpanExporter() if over_otlp else ConsoleSpanExporter(out=sys.stderr)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    shop = open_shop(path)
    print(run(shop, arm, provider))
    shop.close()
    provider.shutdown()


if __name__ == "__main__":
    main()
