"""The observer of the demo: looks at every run's shop before and after, and says what changed.

It is a process of its own with its own service identity, knows the runs by their ids only, and
never asks an agent. ``python -m otel_turnavoid.demo.observer SHOPS ENDPOINT RUN...``
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource

from otel_turnavoid import Observer

OBSERVER_ID: Final = "shop-auditor"
COLUMNS: Final = ("size", "address", "status")


def effects(before: Path, after: Path) -> list[str]:
    """Return what happened to a shop between two looks, as effect labels, repetitions kept."""
    with closing(_read_only(before)) as old, closing(_read_only(after)) as new:
        return sorted((*_changes(old, new), *_additions(old, new)))


def _changes(old: sqlite3.Connection, new: sqlite3.Connection) -> list[str]:
    query = f"SELECT id, {', '.join(COLUMNS)} FROM orders"  # noqa: S608 - our own column names
    was = {row[0]: row[1:] for row in old.execute(query)}
    return [
        f"order:{order}.{column}={value}"
        for order, *values in new.execute(query)
        for column, value, earlier in zip(COLUMNS, values, was[order], strict=True)
        if value != earlier
    ]


def _additions(old: sqlite3.Connection, new: sqlite3.Connection) -> list[str]:
    labels: Counter[str] = Counter()
    for noun, query in (
        ("refund", "SELECT order_id, amount FROM refunds"),
        ("mail", "SELECT order_id, subject FROM mails"),
    ):
        labels.update(f"{noun}:{order}={what}" for order, what in new.execute(query))
        labels.subtract(f"{noun}:{order}={what}" for order, what in old.execute(query))
    return list((+labels).elements())


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


@contextmanager
def telemetry(endpoint: str) -> Iterator[LoggerProvider]:
    """Send observations over OTLP for the time of the block; all of them are sent at its end."""
    resource = Resource.create({SERVICE_NAME: OBSERVER_ID, SERVICE_INSTANCE_ID: f"{OBSERVER_ID}-1"})
    provider = LoggerProvider(resource=resource)
    exporter = OTLPLogExporter(endpoint=endpoint, insecure=True)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    try:
        yield provider
    finally:
        provider.shutdown()


def main(shops: Path, endpoint: str, run_ids: Sequence[str]) -> None:
    """Look at the shop of every run and state what was seen."""
    with telemetry(endpoint) as provider:
        observer = Observer(OBSERVER_ID, logger_provider=provider)
        for run_id in run_ids:
            observer.observe(run_id, effects(shops / "before.db", shops / f"{run_id}.db"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
