"""Which exporters traces and logs go to, and whether they can go there."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from otel_turnavoid.collector.components import (
    Exporter,
    ForwardingExporter,
    OtlpHttpExporter,
    OtlpReceiver,
    PrometheusExporter,
    Service,
)
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.errors import ConfigurationError

_GRPC_PORT: Final = 4317
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104 - names


def forwarded(
    service: Service,
    signal: str,
    exporters: Mapping[str, Exporter],
    receiver: OtlpReceiver,
    *,
    verdicts: bool = False,
) -> dict[str, ForwardingExporter]:
    """Return the exporters of a signal's pipelines by id, checked.

    Args:
        service: Whose pipelines.
        signal: ``traces`` or ``logs``.
        exporters: Those that are defined, by id.
        receiver: The one in use.
        verdicts: Look at the pipelines that carry verdicts only, in place of those that forward.

    Raises:
        ConfigurationError: One cannot take the signal, would send it back to this processor, or
            has its queue switched off.
    """
    found: dict[str, ForwardingExporter] = {}
    for name, pipeline in service.pipelines.items():
        # What is received is judged, so only verdicts pass no processor.
        if name.split("/")[0] != signal or verdicts == bool(pipeline.processors):
            continue
        for index, exporter_id in enumerate(pipeline.exporters):
            exporter = exporters[exporter_id]
            if isinstance(exporter, PrometheusExporter):
                key = f"service.pipelines.{name}.exporters[{index}]"
                raise ConfigurationError(key, f"{exporter_id} takes metrics only")
            _check(exporter, f"exporters.{exporter_id}", receiver)
            found[exporter_id] = exporter
    return found


def _check(exporter: ForwardingExporter, key: str, receiver: OtlpReceiver) -> None:
    if not exporter.sending_queue.enabled:
        raise ConfigurationError(
            f"{key}.sending_queue.enabled",
            "traces and logs always wait in a queue: without it trouble of the backend loses them",
        )
    at = _address(exporter)
    if at is None:
        raise ConfigurationError(f"{key}.endpoint", "wants host:port or a URL with a host")
    for own in (receiver.protocols.grpc, receiver.protocols.http):
        if own is not None and own.endpoint.port == at.port and _same_host(own.endpoint, at):
            problem = f"is this processor's own {own.endpoint}: everything would go in circles"
            raise ConfigurationError(f"{key}.endpoint", problem)


def _address(exporter: ForwardingExporter) -> Endpoint | None:
    """Return where an exporter sends to; None where its endpoint is not understood."""
    text = exporter.endpoint if "://" in exporter.endpoint else f"//{exporter.endpoint}"
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if not url.hostname:
        return None
    if port is None:
        usual = {"http": 80, "https": 443}.get(url.scheme, 443)
        port = usual if isinstance(exporter, OtlpHttpExporter) else _GRPC_PORT
    return Endpoint(url.hostname, port)


def _same_host(own: Endpoint, other: Endpoint) -> bool:
    here = _HERE | {socket.gethostname().lower()}
    return own.host.lower() == other.host or (own.host.lower() in here and other.host in here)
