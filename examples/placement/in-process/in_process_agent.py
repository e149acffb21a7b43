"""An agent that needs no processor: its spans are judged in its own process.

    python in_process_agent.py ORDERS_DB ARM

``ARM`` is ``control`` or ``fused-batch``. It cancels two orders in a new database and prints its
run id. ``TURNAVOID_LEDGER`` says where the ledger is.
"""

from __future__ import annotations

import sqlite3
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_turnavoid import TurnAvoidanceExporter, agent_turn, invoke, llm_call, tool_turn

TASK = "Cancel the orders 41 and 42."
BATCHES: dict[str, list[tuple[int, ...]]] = {"control": [(41,), (42,)], "fused-batch": [(41, 42)]}
"""Which orders the scripted model has cancelled in each of its turns, before it answers."""


def cancel(shop: sqlite3.Connection, order: int) -> None:
    """Cancel one order, as the model asked."""
    with tool_turn("cancel"), shop:
        shop.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order,))


def ask_model(said: object) -> None:
    """Ask the model once; a real agent would call it here."""
    with agent_turn(), llm_call("scripted", input=said):
        pass


def main() -> None:
    """Run one arm on a new database."""
    path, arm = sys.argv[1], sys.argv[2]
    shop = sqlite3.connect(path)
    with shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
        shop.executemany("INSERT INTO orders VALUES (?, 'open')", [(41,), (42,)])
    provider = TracerProvider(
        resource=Resource.create(
            {"service.name": "orders-agent", "service.instance.id": f"orders-agent-{arm}"}
        )
    )
    provider.add_span_processor(BatchSpanProcessor(TurnAvoidanceExporter()))
    with invoke("orders", arm=arm, input=TASK, tracer_provider=provider) as run:
        for orders in BATCHES[arm]:
            ask_model(orders)
            for order in orders:
                cancel(shop, order)
        ask_model("done")
        if arm != "control":
            run.set(mechanism=arm, lifecycle="realized", reason="serial-round-trip-collapsed")
    print(run.run_id)
    shop.close()
    provider.shutdown()  # stores what is left and decides what has all its evidence


if __name__ == "__main__":
    main()
