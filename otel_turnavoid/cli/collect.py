"""``turnavoid collect``: the processor, until a signal ends it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_turnavoid.cli.notify import notify
from otel_turnavoid.cli.source import config_option, ledger_option

if TYPE_CHECKING:
    from otel_turnavoid.collector.processor import Processor

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
POLL_S: Final = 1.0
LAST_S: Final = 5.0
"""What the ledger may take to be decided and closed, after ``service.shutdown_timeout``."""

SWITCH_S: Final = 0.001
"""How long one thread may compute while another waits to: a fifth of Python's default. Who
writes to the ledger lets others go first at every statement, and would wait for each of them."""

_logger = logging.getLogger(__name__)


@click.command
@config_option
@ledger_option
def command(config_path: Path | None, ledger_url: str | None) -> None:
    """Run the processor: OTLP in, verdicts and metrics out.

    Without a configuration it takes OTLP on localhost:4317 (gRPC) and localhost:4318 (HTTP),
    keeps its ledger in turnavoid.db, shows pages at http://localhost:4318/ and metrics at
    http://localhost:9464/metrics.
    Where it listens stands on standard error. SIGTERM or SIGINT ends it: requests in flight are
    answered, what was accepted is committed, what is due is decided, and the exit code is 0. A
    second signal ends it at once; what was accepted is in the ledger even then.
    """
    # Its library would write a line for every handshake that a stranger fails.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.setswitchinterval(SWITCH_S)
    from otel_turnavoid.collector import config, logs
    from otel_turnavoid.collector.components import LogEncoding
    from otel_turnavoid.collector.processor import Processor

    loaded = config.load(config_path)
    logs.set_up(loaded.logging)
    ended = threading.Event()

    def end(_number: int, _frame: Any) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        ended.set()

    for number in SIGNALS:
        signal.signal(number, end)
    processor = Processor(loaded, ledger_url=ledger_url)
    processor.start()
    try:
        if loaded.logging.encoding is LogEncoding.JSON:
            _logger.info("listening", extra=logs.said_by("listening", places(processor)))
        else:
            for line in listening(processor):
                click.echo(line, err=True)
        notify("READY=1")
        while processor.running and not ended.wait(POLL_S):
            pass
    finally:
        notify("STOPPING=1")
        whole = processor.stop(within_s=loaded.shutdown_timeout.seconds + LAST_S)
    if not ended.is_set():
        raise RuntimeError("the processor ended by itself; the log says why")
    if not whole:
        _logger.warning("not drained in time; the next start goes on with what is in the ledger")
        logging.shutdown()
        os._exit(0)  # threads that wait for a ledger which does not answer would be waited for


def places(processor: Processor) -> dict[str, Any]:
    """Return where a started processor listens and keeps its ledger, by name."""
    return {
        "grpc": processor.grpc_endpoint,
        "http": processor.http_endpoint,
        "pages": processor.pages_url,
        "metrics": list(processor.metrics_endpoints),
        "health": processor.health_endpoint,
        "ledger": processor.ledger_name,
    }


def listening(processor: Processor) -> list[str]:
    """Return where a started processor listens and keeps its ledger, a line each."""
    lines = []
    if processor.grpc_endpoint:
        lines.append(f"OTLP/gRPC and LedgerService at {processor.grpc_endpoint}")
    if processor.http_endpoint:
        lines.append(f"OTLP/HTTP at {processor.http_endpoint}")
    if processor.pages_url:
        lines.append(f"pages at {processor.pages_url}")
    lines += [f"metrics at {url}" for url in processor.metrics_endpoints]
    if processor.health_endpoint:
        lines.append(f"health at {processor.health_endpoint}")
    return [*lines, f"ledger {processor.ledger_name}"]
