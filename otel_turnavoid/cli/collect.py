"""``turnavoid collect``: the processor, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_turnavoid.cli.source import config_option, ledger_option
from otel_turnavoid.vocabulary import SCOPE

if TYPE_CHECKING:
    from otel_turnavoid.collector.processor import Processor

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
POLL_S: Final = 1.0
LEVELS: Final = {"warn": "WARNING"}
"""Levels of the configuration that Python's logging spells otherwise."""


@click.command
@config_option
@ledger_option
def command(config_path: Path | None, ledger_url: str | None) -> None:
    """Run the processor: OTLP in, verdicts and metrics out.

    Without a configuration it takes OTLP on localhost:4317 (gRPC) and localhost:4318 (HTTP),
    keeps its ledger in turnavoid.db, and shows metrics at http://localhost:9464/metrics.
    Where it listens stands on standard error. SIGTERM or SIGINT ends it: what was accepted is
    committed, what is due is decided, and the exit code is 0.
    """
    from otel_turnavoid.collector import config
    from otel_turnavoid.collector.processor import Processor

    loaded = config.load(config_path)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    level = loaded.log_level.value
    logging.getLogger(SCOPE).setLevel(LEVELS.get(level, level.upper()))
    ended = threading.Event()

    def end(number: int, _frame: Any) -> None:
        # A second signal of the kind ends the process at once: nothing accepted is lost by it.
        signal.signal(number, signal.SIG_DFL)
        ended.set()

    for number in SIGNALS:
        signal.signal(number, end)
    processor = Processor(loaded, ledger_url=ledger_url)
    processor.start()
    try:
        for line in listening(processor):
            click.echo(line, err=True)
        while processor.running and not ended.wait(POLL_S):
            pass
    finally:
        processor.stop()
    if not ended.is_set():
        raise RuntimeError("the processor ended by itself; the log says why")


def listening(processor: Processor) -> list[str]:
    """Return where a started processor listens and keeps its ledger, a line each."""
    lines = []
    if processor.grpc_endpoint:
        lines.append(f"OTLP/gRPC and LedgerService at {processor.grpc_endpoint}")
    if processor.http_endpoint:
        lines.append(f"OTLP/HTTP at {processor.http_endpoint}")
    lines += [f"metrics at {url}" for url in processor.metrics_endpoints]
    return [*lines, f"ledger {processor.ledger_name}"]
