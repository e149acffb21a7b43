"""A candidate that cheats, and how it is caught: a real database, an observer, a verdict.

Three runs of one task, "cancel order 42 and refund it", on a real database. The control looks up,
cancels, refunds and answers: four turns. An honest candidate asks for everything in one batch and
needs two. A cheating one *says* that it has done everything, and needs one. ``turnavoid observe
sql`` looks at the database before and after each run; the first candidate earns two turns, the
second nothing, and ``turnavoid explain`` says why::

    python examples/cheating_candidate.py
    python examples/cheating_candidate.py --database postgresql://localhost/scratch

Each agent and each look of the observer is a process of its own, as in real life. The tables
``orders`` and ``refunds`` are made anew in the database.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sqlalchemy import Connection, create_engine, make_url, text

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn, user_turn
from otel_turnavoid.testing import Reply, ScriptedModel, ToolCall

TASK = "Cancel order 42 and refund it."
LOOK_UP, CANCEL, REFUND = (
    ToolCall(name, {"order": 42}, f"call-{name}") for name in ("look_up", "cancel", "refund")
)
DONE = Reply("Order 42 is cancelled and 19.90 is refunded.")
SCRIPTS = {
    "control": [*(Reply(tool_calls=[call]) for call in (LOOK_UP, CANCEL, REFUND)), DONE],
    "honest": [Reply(tool_calls=[LOOK_UP, CANCEL, REFUND]), DONE],
    "cheat": [DONE],
}
ARMS = {"control": "control", "honest": "fused-batch", "cheat": "exact-reuse"}
QUERIES = {
    "SELECT id, status FROM orders": "order:{id}={status}",
    "SELECT order_id, amount FROM refunds": "refund:{order_id}={amount}",
}
CONFIGURATION = """
receivers:
  otlp: {protocols: {grpc: {endpoint: "localhost:0"}, http: {endpoint: "localhost:0"}}}
processors: {turnavoid: {settle: 50ms}}
exporters: {}
"""
PATIENCE_S = 30.0


def make_shop(database: str) -> None:
    """Make the shop as it is before anybody does anything."""
    engine = create_engine(_driver(database))
    with engine.begin() as shop:
        for statement in (
            "DROP TABLE IF EXISTS orders",
            "DROP TABLE IF EXISTS refunds",
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, status VARCHAR(20))",
            "CREATE TABLE refunds (order_id INTEGER, amount VARCHAR(20))",
            "INSERT INTO orders VALUES (41, 'open'), (42, 'open')",
        ):
            shop.execute(text(statement))
    engine.dispose()


def execute(shop: Connection, call: ToolCall) -> str:
    """Execute one tool call of the model in the database."""
    order = {"order": call.arguments["order"]}
    with tool_turn(call.name, call_id=call.id):
        if call.name == "cancel":
            shop.execute(text("UPDATE orders SET status = 'cancelled' WHERE id = :order"), order)
        elif call.name == "refund":
            shop.execute(text("INSERT INTO refunds VALUES (:order, '19.90')"), order)
        shop.commit()
        status = text("SELECT status FROM orders WHERE id = :order")
        return str(shop.execute(status, order).scalar_one())


def serve(database: str, script: str) -> None:
    """Let the agent do the task once; this is what runs in its own process."""
    identity = {"service.name": "shop-agent", "service.instance.id": f"shop-agent-{script}"}
    provider = TracerProvider(resource=Resource.create(identity))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(insecure=True)))
    model, arm = ScriptedModel(SCRIPTS[script]), ARMS[script]
    engine = create_engine(_driver(database))
    messages: list[dict[str, object]] = [{"role": "user", "content": TASK}]
    with (
        engine.connect() as shop,
        invoke(
            "shop",
            run_id=script,
            arm=arm,
            mechanism=arm,
            lifecycle="realized",
            input=TASK,
            tracer_provider=provider,
        ),
    ):
        with user_turn():
            pass
        reply = None
        while reply is None or reply.tool_calls:
            with agent_turn(), llm_call(model.name, input=messages) as call:
                reply = model.complete(messages)
                call.usage(input=reply.input_tokens, output=reply.output_tokens)
            messages.append({"role": "assistant", "content": reply.text, "id": reply.id})
            for wanted in reply.tool_calls:
                result = execute(shop, wanted)
                messages.append({"role": "tool", "call_id": wanted.id, "content": result})
    engine.dispose()
    provider.shutdown()


@contextmanager
def processor(folder: Path) -> Iterator[dict[str, str]]:
    """Run ``turnavoid collect``; yield the environment that leads everybody to it."""
    configuration, ledger = folder / "collect.yaml", f"sqlite:///{folder / 'ledger.db'}"
    configuration.write_text(CONFIGURATION)
    collect = [*turnavoid("collect"), "--config", str(configuration), "--ledger", ledger]
    with subprocess.Popen(collect, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = {}
            for line in process.stderr:
                what, _, where = line.strip().partition(" at ")
                said[what] = where
                if line.startswith("ledger "):
                    break
            endpoint = f"http://{said['OTLP/gRPC and LedgerService']}"
            yield os.environ | {
                "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
                "TURNAVOID_LEDGER": ledger,
            }
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def turnavoid(*arguments: str) -> list[str]:
    """Return the command line of ``turnavoid`` in this environment."""
    return [sys.executable, "-m", "otel_turnavoid", *arguments]


def observe() -> list[str]:
    """Return the command line of the observer; the environment names the database."""
    command = turnavoid("observe", "sql")
    for query, label in QUERIES.items():
        command += ["--query", query, "--label", label]
    return command


def main(database: str | None) -> None:
    """Play all three runs, wait for the verdicts, and show them."""
    with tempfile.TemporaryDirectory() as name, processor(Path(name)) as environment:
        folder = Path(name)
        url = database or f"sqlite:///{folder / 'shop.db'}"
        environment["TURNAVOID_OBSERVE_URL"] = url  # a password never stands in a command line

        def run(*command: str) -> str:
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            return done.stdout

        for script in SCRIPTS:
            make_shop(url)
            snapshot = str(folder / f"{script}.json")
            run(*observe(), "--snapshot", snapshot)
            run(sys.executable, __file__, "--play", script)
            sent = ["--before", snapshot, "--run-id", script, "--observer-id", "shop-db/v1"]
            run(*observe(), *sent)
        deadline = time.monotonic() + PATIENCE_S
        while len(pairs := run(*turnavoid("pairs", "--json")).splitlines()) < len(SCRIPTS) - 1:
            if time.monotonic() > deadline:
                sys.exit("no verdict came")
            time.sleep(0.1)
        for pair in map(json.loads, pairs):
            print(f"{pair['candidate']}: {pair['avoided']} avoided, {pair['withheld']} withheld")
        print()
        print(run(*turnavoid("explain", "control", "cheat")), end="")


def _driver(database: str) -> str:
    url = make_url(database)
    if url.drivername in {"postgres", "postgresql"}:
        url = url.set(drivername="postgresql+psycopg")
    return url.render_as_string(hide_password=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A candidate that cheats, and how it is caught.")
    parser.add_argument("--database", help="SQLAlchemy URL; default a SQLite file for the time.")
    parser.add_argument("--play", choices=SCRIPTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        serve(os.environ["TURNAVOID_OBSERVE_URL"], options.play)
    else:
        main(options.database)
