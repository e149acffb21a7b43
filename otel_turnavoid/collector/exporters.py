"""The exporters of the metrics pipelines: where totals are scraped, and where they are pushed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from otel_turnavoid.collector.components import OtlpExporter, OtlpHttpExporter
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.publish.metrics import ledger_instance_id, metrics_data, service_resource
from otel_turnavoid.publish.prometheus import PrometheusEndpoint
from otel_turnavoid.publish.push import Compression, OtlpPusher, Protocol, Target

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

    from otel_turnavoid.collector.telemetry import Telemetry
    from otel_turnavoid.publish.totals import Totals


class Exporters:
    """Makes exporters; all share one resource and one set of totals."""

    def __init__(self, birth_ns: int, totals: Totals, own: Telemetry) -> None:
        self._birth_ns = birth_ns
        self._totals = totals
        self._own = own
        self._resource = service_resource(ledger_instance_id(birth_ns))

    def scraped(self) -> PrometheusEndpoint:
        """Return an endpoint with the accounts and the processor's own telemetry."""
        endpoint = PrometheusEndpoint(self._totals, self._resource)
        endpoint.registry.register(self._own)
        return endpoint

    def _read(self) -> MetricsData:
        return metrics_data(
            self._totals.snapshot(),
            birth_ns=self._birth_ns,
            now_ns=time.time_ns(),
            resource=self._resource,
        )

    @asynccontextmanager
    async def pushing(
        self, exporter: OtlpExporter | OtlpHttpExporter, key: str
    ) -> AsyncIterator[None]:
        """Push in the background, and a last time at the end."""
        try:
            pusher = OtlpPusher(
                self._read,
                target(exporter).exporter(),
                interval_s=None if exporter.interval is None else exporter.interval.seconds,
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"{key}.{error.key}", error.problem) from None
        pusher.start()
        try:
            yield
        finally:
            await asyncio.to_thread(pusher.shutdown)


def target(exporter: OtlpExporter | OtlpHttpExporter) -> Target:
    """Return where an exporter of the configuration pushes to."""
    grpc = isinstance(exporter, OtlpExporter)
    tls = exporter.tls
    return Target(
        protocol=Protocol.GRPC if grpc else Protocol.HTTP,
        endpoint=exporter.endpoint,
        headers={name: str(value) for name, value in exporter.headers.items()},
        timeout_s=exporter.timeout.seconds,
        compression=Compression(exporter.compression.value),
        insecure=tls.insecure if grpc and "://" not in exporter.endpoint else None,
        ca_file=_path(tls.ca_file),
        cert_file=_path(tls.cert_file),
        key_file=_path(tls.key_file),
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
