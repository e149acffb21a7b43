"""From the configuration's exporters to a running ``Forwarder``, and its counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import make_url

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.components import (
    MIB,
    BodyEncoding,
    Compression,
    ForwardingExporter,
    OtlpExporter,
    RetryOnFailure,
)
from otel_turnavoid.collector.config import Config
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward import (
    Delivery,
    Encoding,
    Exporter,
    Fate,
    Forwarder,
    Queue,
    QueueError,
    QueueFile,
    RetryPolicy,
    Signal,
    Target,
)
from otel_turnavoid.forward.outcome import Sender
from otel_turnavoid.publish.metrics import package_version

_COUNTERS: Final = {
    (Fate.SENT, Signal.TRACES): telemetry.SENT_SPANS,
    (Fate.SENT, Signal.LOGS): telemetry.SENT_RECORDS,
    (Fate.SEND_FAILED, Signal.TRACES): telemetry.SEND_FAILED_SPANS,
    (Fate.SEND_FAILED, Signal.LOGS): telemetry.SEND_FAILED_RECORDS,
    (Fate.ENQUEUE_FAILED, Signal.TRACES): telemetry.ENQUEUE_FAILED_SPANS,
    (Fate.ENQUEUE_FAILED, Signal.LOGS): telemetry.ENQUEUE_FAILED_RECORDS,
}


class Forwarders(NamedTuple):
    """What goes where; exporters that do both are the same."""

    received: Forwarder
    """For what senders sent."""
    verdicts: Forwarder
    """For what this process decided: has every exporter."""


@asynccontextmanager
async def forwarding(
    config: Config,
    ledger_url: str,
    own: Telemetry,
    *,
    failed: Callable[[], None],
    grace_s: Callable[[], float],
) -> AsyncIterator[Forwarders]:
    """Forward while the block runs.

    Args:
        config: Names the exporters.
        ledger_url: Says where queues lie that have no ``storage``.
        own: Where to count.
        failed: Called where forwarding ended by a bug.
        grace_s: Asked at the end how long what waits may still be sent.

    Raises:
        ConfigurationError: A queue cannot be opened, or a certificate not be read.
    """
    made: dict[str, Exporter] = {}
    try:
        for each in config.sending.values():
            for name, section in each.items():
                if name not in made:
                    made[name] = await _exporter(name, section, ledger_url, own)
    except BaseException:
        for exporter in made.values():
            await exporter.stop(0)
        raise

    def to(exporters: Mapping[str, Iterable[str]]) -> Forwarder:
        return Forwarder(
            {Signal(signal): [made[name] for name in each] for signal, each in exporters.items()}
        )

    forwarders = Forwarders(to(config.forwarding), to(config.sending))
    forwarders.verdicts.start(failed)
    try:
        yield forwarders
    finally:
        await forwarders.verdicts.stop(grace_s())


async def _exporter(
    name: str, section: ForwardingExporter, ledger_url: str, own: Telemetry
) -> Exporter:
    key = f"exporters.{name}"
    path = queue_path(name, section, ledger_url)
    bounds = section.sending_queue
    try:
        sender = _sender(section)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}.{error.key}", error.problem) from None

    def opened() -> Queue:
        file = QueueFile(path)
        return Queue(file, max_requests=bounds.queue_size, max_bytes=bounds.size_mib * MIB)

    try:
        queue = await asyncio.to_thread(opened)
    except QueueError as error:
        await sender.close()
        raise ConfigurationError(f"{key}.sending_queue.storage", str(error)) from None
    for counter in _COUNTERS.values():
        own.begin(counter, name)
    own.gauge(telemetry.QUEUE_SIZE, lambda: len(queue), name)
    own.gauge(telemetry.QUEUE_CAPACITY, lambda: queue.max_requests, name)

    def count(fate: Fate, exporter: str, signal: Signal, items: int) -> None:
        own.count(_COUNTERS[fate, signal], items, exporter)

    delivery = Delivery(_encoding(section), _policy(section.retry_on_failure), bounds.num_consumers)
    return Exporter(name, queue, sender, count, delivery)


def queue_path(name: str, section: ForwardingExporter, ledger_url: str) -> Path:
    """Return the file of an exporter's queue: its ``storage``, or beside a SQLite ledger.

    Raises:
        ConfigurationError: The ledger is no file, and there is no ``storage``.
    """
    if section.sending_queue.storage is not None:
        return Path(section.sending_queue.storage)
    ledger = make_url(ledger_url)
    if ledger.get_backend_name() != "sqlite" or not ledger.database:
        raise ConfigurationError(
            f"exporters.{name}.sending_queue.storage",
            "is required: the ledger is no file beside which the queue could lie",
        )
    path = Path(ledger.database)
    return path.with_name(f"{path.stem}.{name.replace('/', '-')}.queue")


def _sender(section: ForwardingExporter) -> Sender:
    target = forwarding_target(section)
    if isinstance(section, OtlpExporter):
        from otel_turnavoid.forward.sender_grpc import GrpcSender  # noqa: PLC0415 - heavy

        return GrpcSender(target)
    from otel_turnavoid.forward.sender_http import HttpSender  # noqa: PLC0415 - heavy

    return HttpSender(target)


def forwarding_target(section: ForwardingExporter) -> Target:
    """Return where an exporter of the configuration forwards to, and how."""
    tls = section.tls
    return Target(
        endpoint=section.endpoint,
        headers=tuple((name, str(value)) for name, value in section.headers.items()),
        timeout_s=section.timeout.seconds,
        gzip=section.compression is Compression.GZIP,
        encoding=_encoding(section),
        insecure=tls.insecure,
        ca_file=_path(tls.ca_file),
        cert_file=_path(tls.cert_file),
        key_file=_path(tls.key_file),
        user_agent=f"turnavoid/{package_version()}",
    )


def _encoding(section: ForwardingExporter) -> Encoding:
    if isinstance(section, OtlpExporter) or section.encoding is BodyEncoding.PROTO:
        return Encoding.PROTOBUF
    return Encoding.JSON


def _policy(section: RetryOnFailure) -> RetryPolicy:
    return RetryPolicy(
        enabled=section.enabled,
        initial_interval_s=section.initial_interval.seconds,
        randomization_factor=section.randomization_factor,
        multiplier=section.multiplier,
        max_interval_s=section.max_interval.seconds,
        max_elapsed_s=section.max_elapsed_time.seconds,
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
