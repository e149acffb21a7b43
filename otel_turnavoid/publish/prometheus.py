"""Totals as a Prometheus endpoint, through the official client.

Names follow OpenTelemetry's strategy UnderscoreEscapingWithSuffixes, and the labels
``otel_scope_name`` and ``otel_scope_version`` keep the accounts apart. No timestamps and no
``_created`` series are exposed: series exist at 0 from the start and survive restarts, so a
scraper needs neither, and ``_created`` would double the number of series in most Prometheus
servers. The start time is carried by the OTLP push.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from opentelemetry.sdk.resources import Resource
from prometheus_client.core import CollectorRegistry, Exemplar, Metric, Sample
from prometheus_client.exposition import choose_encoder, gzip_accepted

from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.publish import totals
from otel_turnavoid.publish.metrics import package_version
from otel_turnavoid.publish.totals import Distribution, Family, Totals
from otel_turnavoid.vocabulary import INSTRUMENTS, Instrument, Kind

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9464
PATHS: Final = frozenset({"/", "/metrics"})
"""Paths that answer with the metrics."""

UNIT_WORDS: Final = {"s": "seconds"}
"""UCUM units as Prometheus spells them; units in braces are left out of a name."""

_PLAIN: Final = (b"content-type", b"text/plain; charset=utf-8")
_TYPES: Final = {Kind.COUNTER: "counter", Kind.UP_DOWN: "gauge", Kind.HISTOGRAM: "histogram"}

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Headers = list[tuple[bytes, bytes]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def label_name(key: str) -> str:
    """Return an attribute key as a Prometheus label name, ``turnavoid_arm`` and so on."""
    return re.sub("_+", "_", re.sub("[^a-zA-Z0-9_]", "_", key))


def family_name(instrument: Instrument) -> str:
    """Return the name of an instrument's family, without ``_total``."""
    name = label_name(instrument.name)
    unit = _unit_word(instrument)
    return name if not unit or name.endswith(f"_{unit}") else f"{name}_{unit}"


def sample_names(instrument: Instrument) -> tuple[str, ...]:
    """Return the names under which a query finds an instrument."""
    name = family_name(instrument)
    if instrument.kind is Kind.COUNTER:
        return (f"{name}_total",)
    if instrument.kind is Kind.HISTOGRAM:
        return (f"{name}_bucket", f"{name}_sum", f"{name}_count")
    return (name,)


class Labelled(NamedTuple):
    """Totals whose series carry labels that the series of others do not."""

    labels: Mapping[str, str]
    """Label names, as in ``label_name``, and values; the same names for all that stand together."""
    totals: Totals


class LabelledCollector:
    """The collector that the Prometheus client asks at each scrape, over any number of totals."""

    def __init__(self, read: Callable[[], Sequence[Labelled]]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples, so that no other collector can take its name."""
        return (_family(instrument) for instrument in INSTRUMENTS)

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have a series."""
        read = [(each.labels, each.totals.snapshot()) for each in self._read()]
        for instrument in INSTRUMENTS:
            metric = _family(instrument)
            metric.samples = [
                sample
                for labels, snapshot in read
                for sample in _samples(snapshot.family(instrument), labels)
            ]
            if metric.samples:
                yield metric


class TotalsCollector(LabelledCollector):
    """The same over the one totals of a process."""

    def __init__(self, totals: Totals) -> None:
        super().__init__(lambda: (Labelled({}, totals),))


class PrometheusEndpoint:
    """An ASGI application that serves the totals at ``/metrics`` and ``/``.

    ``registry`` belongs to this endpoint alone; collectors of the processor's own telemetry
    may be registered in it.
    """

    def __init__(self, accounts: Totals | LabelledCollector, resource: Resource) -> None:
        self.registry = CollectorRegistry(
            target_info={
                label_name(key): str(value) for key, value in sorted(resource.attributes.items())
            }
        )
        if isinstance(accounts, Totals):
            accounts = TotalsCollector(accounts)
        self.registry.register(accounts)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer one ASGI connection."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the Prometheus endpoint speaks HTTP only (got {scope['type']})")
        if scope["path"] not in PATHS:
            await _answer(send, 404, b"404 Not Found; the metrics are at /metrics\n", [_PLAIN])
        elif scope["method"] not in {"GET", "HEAD"}:
            headers = [_PLAIN, (b"allow", b"GET, HEAD")]
            await _answer(send, 405, b"405 Method Not Allowed; use GET\n", headers)
        else:
            headers, body = await self._metrics(scope)
            await _answer(send, 200, b"" if scope["method"] == "HEAD" else body, headers)

    async def _metrics(self, scope: _Scope) -> tuple[_Headers, bytes]:
        encode, content_type = choose_encoder(_header(scope, b"accept"))
        names = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("name[]")
        registry = self.registry.restricted_registry(names) if names else self.registry
        body = await asyncio.to_thread(encode, registry)  # many series take a while to write
        headers = [(b"content-type", content_type.encode()), (b"vary", b"accept, accept-encoding")]
        if gzip_accepted(_header(scope, b"accept-encoding")):
            headers.append((b"content-encoding", b"gzip"))
            body = await asyncio.to_thread(gzip.compress, body)
        return headers, body


def _unit_word(instrument: Instrument) -> str:
    return "" if instrument.unit.startswith("{") else UNIT_WORDS[instrument.unit]


def _family(instrument: Instrument) -> Metric:
    return Metric(
        family_name(instrument),
        instrument.description,
        _TYPES[instrument.kind],
        _unit_word(instrument),
    )


def _samples(family: Family, added: Mapping[str, str]) -> Iterator[Sample]:
    instrument = family.instrument
    scope = {
        **added,
        "otel_scope_name": instrument.account.scope,
        "otel_scope_version": package_version(),
    }
    for series in family.series:
        labels = {label_name(key): value for key, value in series.labels} | scope
        if isinstance(series.value, Distribution):
            yield from _distribution(family, labels, series.value)
        else:
            named = _exemplar(family.exemplars.get(series.labels))
            yield Sample(sample_names(instrument)[0], labels, series.value, exemplar=named)


def _exemplar(found: totals.Exemplar | None) -> Exemplar | None:
    """Return what OpenMetrics shows beside a counter, under the names that Grafana looks for."""
    if found is None:
        return None
    labels = {"trace_id": found.trace_id, "span_id": found.span_id}
    return Exemplar(labels, found.value, found.at_ns / SECOND)


def _distribution(family: Family, labels: dict[str, str], value: Distribution) -> Iterator[Sample]:
    bucket, total, count = sample_names(family.instrument)
    limits = [*map(str, family.instrument.bounds), "+Inf"]
    for limit, below in zip(limits, accumulate(value.counts), strict=True):
        yield Sample(bucket, {**labels, "le": limit}, below)
    yield Sample(count, labels, value.count)
    yield Sample(total, labels, value.sum)


def _header(scope: _Scope, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


async def _answer(send: _Send, status: int, body: bytes, headers: _Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: _Receive, send: _Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
