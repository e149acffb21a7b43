"""The exporters of the metrics pipelines: where totals are scraped, and where they are pushed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
)

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.components import OtlpExporter, OtlpHttpExporter
from otel_turnavoid.collector.own_metrics import own_metrics
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.publish.metrics import ledger_instance_id, metrics_data, service_resource
from otel_turnavoid.publish.prometheus import (
    Labelled,
    LabelledCollector,
    PrometheusEndpoint,
    label_name,
)
from otel_turnavoid.publish.push import Compression, OtlpPusher, Protocol, Target
from otel_turnavoid.vocabulary import SERVICE_INSTANCE_ID

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from otel_turnavoid.collector.journal import Part
    from otel_turnavoid.collector.telemetry import Telemetry


INSTANCE_LABEL: Final = label_name(SERVICE_INSTANCE_ID)
"""Label of scraped accounts that tells the shares of a ledger apart.

Not only in ``target_info``: a share may move from one target to another, and a target from one
share to another. No series may jump because of that.
"""


class Exporters:
    """Makes exporters; all publish the same shares of one ledger."""

    def __init__(self, birth_ns: int, parts: Callable[[], Sequence[Part]], own: Telemetry) -> None:
        self._birth_ns = birth_ns
        self._parts = parts
        self._own = own

    def scraped(self) -> PrometheusEndpoint:
        """Return an endpoint with the accounts and the processor's own telemetry."""
        first = next((part.share for part in self._parts()), 1)
        endpoint = PrometheusEndpoint(LabelledCollector(self._labelled), self._resource(first))
        endpoint.registry.register(self._own)
        return endpoint

    def _labelled(self) -> list[Labelled]:
        return [
            Labelled({INSTANCE_LABEL: ledger_instance_id(self._birth_ns, part.share)}, part.totals)
            for part in self._parts()
        ]

    def identity(self, share: int) -> dict[str, str]:
        """Return the resource attributes of what is published of a share."""
        attributes = self._resource(share).attributes
        return {key: str(value) for key, value in sorted(attributes.items())}

    def _resource(self, share: int) -> Resource:
        return service_resource(ledger_instance_id(self._birth_ns, share))

    def _read(self) -> MetricsData:
        now_ns = time.time_ns()
        pushed = [
            metrics
            for part in self._parts()
            for metrics in metrics_data(
                part.totals.snapshot(),
                birth_ns=self._birth_ns,
                now_ns=now_ns,
                resource=self._resource(part.share),
            ).resource_metrics
        ]
        # The share that this process decides for is nobody else's: so is what it says of itself.
        for first in pushed[:1]:
            own = own_metrics(self._own.readings(), started_ns=self._own.started_ns, now_ns=now_ns)
            scopes = [*first.scope_metrics, own]
            pushed[0] = ResourceMetrics(first.resource, scopes, first.schema_url)
        return MetricsData(pushed)

    @asynccontextmanager
    async def pushing(
        self, exporter: OtlpExporter | OtlpHttpExporter, key: str
    ) -> AsyncIterator[None]:
        """Push in the background, and a last time at the end."""
        try:
            pusher = OtlpPusher(
                self._read,
                Counted(target(exporter).exporter(), self._own, key.removeprefix("exporters.")),
                interval_s=None if exporter.interval is None else exporter.interval.seconds,
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"{key}.{error.key}", error.problem) from None
        pusher.start()
        try:
            yield
        finally:
            await asyncio.to_thread(pusher.shutdown)


class Counted(MetricExporter):
    """An exporter whose data points are counted, as taken by the backend or not."""

    def __init__(self, exporter: MetricExporter, own: Telemetry, name: str) -> None:
        """Wrap.

        Args:
            exporter: Pushes.
            own: Where to count.
            name: Id of the exporter in the configuration.
        """
        super().__init__()
        self._exporter = exporter
        self._own = own
        self._name = name
        for counter in (telemetry.SENT_POINTS, telemetry.SEND_FAILED_POINTS):
            own.begin(counter, name)

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        """Push, and count."""
        counter = telemetry.SEND_FAILED_POINTS
        try:
            result = self._exporter.export(metrics_data, timeout_millis, **kwargs)
            if result is MetricExportResult.SUCCESS:
                counter = telemetry.SENT_POINTS
        finally:
            self._own.count(counter, _points(metrics_data), self._name)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Flush the wrapped exporter."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Release the wrapped exporter."""
        self._exporter.shutdown(timeout_millis, **kwargs)


def _points(pushed: MetricsData) -> int:
    return sum(
        len(metric.data.data_points)
        for resource in pushed.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


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
