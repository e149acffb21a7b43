"""An observer for ``examples/own_loop.py``: what does the database show after a run?

A process of its own with an identity of its own, which looks at the world and never asks the
agent. Events go to standard error, or over OTLP where ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set::

    python examples/observer.py control.db RUN_ID
"""

from __future__ import annotations

import os
import sqlite3
import sys

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter
from opentelemetry.sdk.resources import Resource

from otel_turnavoid import Observer

OBSERVER_ID = "orders-db/v1"


def effects(path: str) -> list[str]:
    """Return a label for every order that is no longer open."""
    shop = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = shop.execute("SELECT id, status FROM orders WHERE status <> 'open' ORDER BY id")
        return [f"order:{order}={status}" for order, status in rows]
    finally:
        shop.close()


def main() -> None:
    """Observe the database for one run and print the labels."""
    path, run_id = sys.argv[1], sys.argv[2]
    provider = LoggerProvider(
        resource=Resource.create(
            {"service.name": "orders-observer", "service.instance.id": "orders-observer-1"}
        )
    )
    over_otlp = "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ
    exporter = OTLPLogExporter() if over_otlp else ConsoleLogRecordExporter(out=sys.stderr)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    seen = effects(path)
    Observer(OBSERVER_ID, logger_provider=provider).observe(run_id, seen)
    print(*seen, sep="\n")
    provider.shutdown()


if __name__ == "__main__":
    main()
