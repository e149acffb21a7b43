"""Totals as OpenTelemetry metrics: one instrumentation scope per account, cumulative.

Every point starts at the birth of the ledger from which the totals are folded. Totals come back
whole after a restart, so the start time stays too: a restart is neither a reset nor a gap.
"""

from __future__ import annotations

import importlib.metadata
import uuid
from collections.abc import Collection, Mapping
from functools import cache
from hashlib import blake2b
from itertools import groupby
from typing import Final, cast

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_turnavoid.judge.accounts import Labels
from otel_turnavoid.judge.settings import RunLabel
from otel_turnavoid.publish import totals
from otel_turnavoid.publish.totals import (
    OVERFLOW_KEY,
    Distribution,
    Family,
    Snapshot,
)
from otel_turnavoid.vocabulary import INSTRUMENTS, SCOPE, SERVICE_INSTANCE_ID, Account, Kind

DEFAULT_SERVICE_NAME: Final = SCOPE
"""``service.name`` of what is published, where the environment names no other."""

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_LEDGERS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:otel_turnavoid:ledger")


@cache
def package_version() -> str:
    """Return the version of this package, which is the version of every scope."""
    return importlib.metadata.version("otel-turnavoid")


def totals_form(named: Collection[RunLabel] = ()) -> str:
    """Return a name for what totals fold to: another where saved ones cannot be gone on with.

    It differs between versions of this package, whose rules may differ, and by ``named``.
    """
    text = repr((INSTRUMENTS, sorted(named)))
    return f"{package_version()} {blake2b(text.encode(), digest_size=8).hexdigest()}"


def ledger_instance_id(birth_ns: int, share: int = 1) -> str:
    """Return a ``service.instance.id`` that stays the same as long as the ledger does.

    A fresh id for each process would make a restart look like a second writer, whose series
    repeat the totals of the first in every sum over instances. Where several processors share
    a ledger, each share of its journal has an id, whoever publishes it.
    """
    return str(uuid.uuid5(_LEDGERS, str(birth_ns) if share == 1 else f"{birth_ns}/{share}"))


def service_resource(
    instance_id: str,
    *,
    service_name: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Resource:
    """Return the resource of everything this process publishes.

    ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` are respected; arguments win.
    """
    given = {**(attributes or {}), SERVICE_VERSION: package_version()}
    given[SERVICE_INSTANCE_ID] = instance_id
    if service_name is not None:
        given[SERVICE_NAME] = service_name
    found = Resource.create(given)
    if str(found.attributes[SERVICE_NAME]).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: DEFAULT_SERVICE_NAME}))
    return found


def metrics_data(
    snapshot: Snapshot, *, birth_ns: int, now_ns: int, resource: Resource
) -> MetricsData:
    """Return a snapshot as one export.

    Args:
        snapshot: What to publish; instruments without a series are left out.
        birth_ns: When the ledger began, in nanoseconds since the epoch: every start time.
        now_ns: Time of every point, in nanoseconds since the epoch.
        resource: Who publishes.
    """
    filled = (family for family in snapshot.families if family.series)
    scopes = [
        ScopeMetrics(
            scope=instrumentation_scope(account),
            metrics=[_metric(family, birth_ns, now_ns) for family in families],
            schema_url="",
        )
        for account, families in groupby(filled, lambda family: family.instrument.account)
    ]
    return MetricsData([ResourceMetrics(resource, scopes, resource.schema_url)])


def instrumentation_scope(account: Account) -> InstrumentationScope:
    """Return the scope of an account."""
    return InstrumentationScope(account.scope, package_version())


def _metric(family: Family, birth_ns: int, now_ns: int) -> Metric:
    instrument = family.instrument
    data: Sum | Histogram
    if instrument.kind is Kind.HISTOGRAM:
        data = Histogram(
            [
                HistogramDataPoint(
                    _attributes(labels),
                    birth_ns,
                    now_ns,
                    count=cast("Distribution", value).count,
                    sum=cast("Distribution", value).sum,
                    bucket_counts=cast("Distribution", value).counts,
                    explicit_bounds=instrument.bounds,
                    # Over a ledger's whole life they say nothing; both are optional in OTLP.
                    min=None,  # type: ignore[arg-type]
                    max=None,  # type: ignore[arg-type]
                )
                for labels, value in family.series
            ],
            _CUMULATIVE,
        )
    else:
        data = Sum(
            [
                NumberDataPoint(
                    _attributes(series.labels),
                    birth_ns,
                    now_ns,
                    cast("float", series.value),
                    exemplars=_exemplars(family.exemplars.get(series.labels)),
                )
                for series in family.series
            ],
            _CUMULATIVE,
            is_monotonic=instrument.kind is Kind.COUNTER,
        )
    return Metric(instrument.name, instrument.description, instrument.unit, data)


def _exemplars(found: totals.Exemplar | None) -> list[Exemplar]:
    if found is None:
        return []
    span_id, trace_id = int(found.span_id, 16), int(found.trace_id, 16)
    return [Exemplar({}, found.value, found.at_ns, span_id, trace_id)]


def _attributes(labels: Labels) -> dict[str, str | bool]:
    # The overflow attribute is a boolean by the metrics SDK specification; labels are text.
    return {key: value == "true" if key == OVERFLOW_KEY else value for key, value in labels}
