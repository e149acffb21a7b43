"""The processor's own telemetry as OpenTelemetry metrics, to be pushed with the accounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_turnavoid.collector.telemetry import SCOPE, Buckets, Own, Reading
from otel_turnavoid.publish.metrics import package_version
from otel_turnavoid.vocabulary import Kind

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


def own_metrics(readings: Iterable[Reading], *, started_ns: int, now_ns: int) -> ScopeMetrics:
    """Return readings as the metrics of one scope.

    Args:
        readings: Those of one instrument together.
        started_ns: When the process, and with it every series, began.
        now_ns: Time of every point.
    """
    metrics = [
        Metric(
            instrument.name,
            instrument.description,
            instrument.unit,
            _data(instrument, list(series), (started_ns, now_ns)),
        )
        for instrument, series in groupby(readings, lambda reading: reading.instrument)
    ]
    scope = InstrumentationScope(SCOPE, package_version())
    return ScopeMetrics(scope=scope, metrics=metrics, schema_url="")


def _data(
    instrument: Own, series: Sequence[Reading], times: tuple[int, int]
) -> Sum | Gauge | Histogram:
    if instrument.kind is Kind.HISTOGRAM:
        points = [
            _distribution(instrument, reading, times, cast("Buckets", reading.value))
            for reading in series
        ]
        return Histogram(points, _CUMULATIVE)
    numbers = [
        NumberDataPoint(dict(reading.labels), *times, cast("float", reading.value))
        for reading in series
    ]
    if instrument.kind is Kind.COUNTER:
        return Sum(numbers, _CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _distribution(
    instrument: Own, reading: Reading, times: tuple[int, int], value: Buckets
) -> HistogramDataPoint:
    return HistogramDataPoint(
        dict(reading.labels),
        *times,
        count=value.total,
        sum=value.sum,
        bucket_counts=value.counts,
        explicit_bounds=instrument.bounds,
        # Over a process's whole life they say nothing; both are optional in OTLP.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
