"""Everything that is wrong with a configuration, found without starting anything.

Files that it names are read, nothing is written, opened for writing, listened on or connected to.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from otel_turnavoid.collector import config
from otel_turnavoid.collector.auth import Authenticator
from otel_turnavoid.collector.components import ForwardingExporter, OtlpExporter
from otel_turnavoid.collector.config import Config
from otel_turnavoid.collector.forwarding import forwarding_target, queue_path
from otel_turnavoid.collector.problems import gathering, left_out, part
from otel_turnavoid.collector.securing import ServerTls
from otel_turnavoid.collector.tls import server_tls
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.publish.push import default_interval_s
from otel_turnavoid.store import DEFAULT_URL

_DRIVERS: Final = {"sqlite": "sqlite3", "postgresql": "psycopg"}


def problems(
    path: str | os.PathLike[str] | None, *, ledger_url: str | None = None
) -> list[ConfigurationError]:
    """Return every problem of the configuration in a file, or of the defaults without one.

    What depends on something that is wrong itself is checked once that is right.

    Args:
        path: The file.
        ledger_url: Wins over the configuration's.
    """
    with gathering() as found:
        for check in _checks(config.load(path), ledger_url):
            with part():
                check()
    return found


def _checks(loaded: Config, ledger_url: str | None) -> Iterator[Callable[[], object]]:
    """Yield what is to be tried, one thing each; raises ConfigurationError."""
    for key, tls in _served(loaded):
        yield partial(server_tls, tls, f"{key}.tls")
    for name, section in loaded.authenticators.items():
        yield partial(Authenticator, section, f"extensions.{name}")
    url = str(ledger_url or loaded.ledger_url or DEFAULT_URL)
    before = left_out()
    yield partial(_check_ledger, url)
    placed = left_out() == before
    queued = {name for each in loaded.sending.values() for name in each}
    for name, exporter in _clients(loaded).items():
        yield partial(_check_client, exporter, f"exporters.{name}")
        if name in queued and (placed or exporter.sending_queue.storage is not None):
            yield partial(_check_queue, name, exporter, url)
    if loaded.exporters:
        yield default_interval_s
    for index, path in enumerate(loaded.logging.output_paths):
        if path not in ("stderr", "stdout"):
            key = f"service.telemetry.logs.output_paths[{index}]"
            yield partial(_check_file, Path(path), key)


def _served(loaded: Config) -> Iterator[tuple[str, ServerTls]]:
    """Yield key and TLS of everything that listens with TLS."""
    protocols = loaded.receiver.protocols
    sections: dict[str, Any] = {
        f"{loaded.receiver_key}.protocols.grpc": protocols.grpc,
        f"{loaded.receiver_key}.protocols.http": protocols.http,
        **{f"exporters.{name}": each for name, each in loaded.exporters.items()},
        loaded.health_key: loaded.health,
    }
    for key, section in sections.items():
        if isinstance(tls := getattr(section, "tls", None), ServerTls):
            yield key, tls


def _clients(loaded: Config) -> dict[str, ForwardingExporter]:
    """Return the exporters that send, by id."""
    sending = [exporter for each in loaded.sending.values() for exporter in each.items()]
    return {
        name: exporter
        for name, exporter in (*loaded.exporters.items(), *sending)
        if isinstance(exporter, ForwardingExporter)
    }


def _check_client(exporter: ForwardingExporter, key: str) -> None:
    target = forwarding_target(exporter)
    try:
        target.checked_headers()
        if not isinstance(exporter, OtlpExporter) or not target.insecure:
            target.ssl_context()
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}.{error.key}", error.problem) from None


def _check_queue(name: str, exporter: ForwardingExporter, ledger_url: str) -> None:
    _check_file(queue_path(name, exporter, ledger_url), f"exporters.{name}.sending_queue.storage")


def _check_ledger(text: str) -> None:
    key = "extensions.ledger.url"
    try:
        url = make_url(text)
    except ArgumentError:
        raise ConfigurationError(key, "is no database URL; write sqlite:///turnavoid.db") from None
    backend = url.get_backend_name()
    driver = _DRIVERS.get(backend)
    if driver is None:
        known = ", ".join(_DRIVERS)
        raise ConfigurationError(key, f"wants one of {known} before the colon, got {backend!r}")
    if importlib.util.find_spec(driver) is None:
        problem = f"{backend} needs its driver: pip install 'otel-turnavoid[{backend}]'"
        raise ConfigurationError(key, problem)
    if backend == "sqlite" and url.database and not url.database.startswith(":"):
        _check_file(Path(url.database), key)


def _check_file(path: Path, key: str) -> None:
    """Check that a file could be made, or written where it is there."""
    folder = path.parent
    if not folder.is_dir():
        raise ConfigurationError(key, f"the folder {folder} does not exist")
    if path.is_dir():
        raise ConfigurationError(key, f"{path} is a folder")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigurationError(key, f"{path} cannot be written by this user")
