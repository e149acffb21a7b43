"""The observer beside it: a process of its own, with an identity of its own, on the same ledger.

    python in_process_observer.py ORDERS_DB RUN_ID

Without a processor to take events, what it saw goes as a span to the same exporter.
"""

from __future__ import annotations

import sqlite3
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_turnavoid import Observer, TurnAvoidanceExporter


def effects(path: str) -> list[str]:
    """Return a label for every order that is no longer open."""
    shop = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = shop.execute("SELECT id, status FROM orders WHERE status <> 'open' ORDER BY id")
        return [f"order:{order}={status}" for order, status in rows]
    finally:
        shop.close()


def main() -> None:
    """Observe the database for one run."""
    path, run_id = sys.argv[1], sys.argv[2]
    provider = TracerProvider(
        resource=Resource.create(
            {"service.name": "orders-observer", "service.instance.id": "orders-observer-1"}
        )
    )
    provider.add_span_processor(BatchSpanProcessor(TurnAvoidanceExporter()))
    Observer("orders-db/v1", tracer_provider=provider).observe(run_id, effects(path))
    provider.shutdown()


if __name__ == "__main__":
    main()
