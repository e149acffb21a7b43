"""Starts processors by forking: a process that has imported everything, so that each is up soon.

Reads a line of JSON for each processor from standard input (``config``: a file, ``ledger``: a
URL) and says on standard output, in lines of JSON, the ``pid`` of each at once and where it
listens when it does. SIGTERM ends a processor in order, SIGKILL at once.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from otel_turnavoid.collector import config
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.errors import TurnAvoidError

PREPARED = (
    "encodings.idna",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.auto",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
)
"""What a processor imports when it starts; PostgreSQL's last, as it may be missing."""


def say(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def live(config_file: str, ledger: str) -> int:
    processor = Processor(config.load(Path(config_file)), ledger_url=ledger)
    try:
        processor.start()
    except TurnAvoidError as error:
        say(pid=os.getpid(), problem=str(error))
        return 2
    http = (processor.http_endpoint or "").rpartition("/")[2]
    say(pid=os.getpid(), http=http, metrics=list(processor.metrics_endpoints))
    signal.sigwait({signal.SIGTERM})
    processor.stop()
    return 0


def main() -> None:
    with suppress(ImportError):
        for module in PREPARED:
            importlib.import_module(module)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # The kernel buries them: nobody waits for those that are killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    say(pid=0)
    for line in iter(sys.stdin.readline, ""):
        wanted = json.loads(line)
        pid = os.fork()
        if not pid:
            os._exit(live(wanted["config"], wanted["ledger"]))
        say(pid=pid, forked=True)


if __name__ == "__main__":
    main()
