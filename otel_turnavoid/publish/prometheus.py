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
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from itertools import accumulate
from typing import Any, Final
from urllib.parse import parse_qs

from opentelemetry.sdk.resources import Resource
from prometheus_client.core import CollectorRegistry, Metric, Sample
from prometheus_client.exposition import choose_encoder, gzip_accepted

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


class TotalsCollector:
    """The collector that the Prometheus client asks at each scrape."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples, so that no other collector can take its name."""
        return (_family(instrument) for instrument in INSTRUMENTS)

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have a series."""
        for family in self._totals.snapshot().families:
            if family.series:
                metric = _family(family.instrument)
                metric.samples = list(_samples(family))
                yield metric


class PrometheusEndpoint:
    """An ASGI application that serves the totals at ``/metrics`` and ``/``.

    ``registry`` belongs to this endpoint alone; collectors of the processor's own telemetry
    may be registered in it.
    """

    def __init__(self, totals: Totals, resource: Resource) -> None:
        self.registry = CollectorRegistry(
            target_info={
                label_name(key): str(value) for key, value in sorted(resource.attributes.items())
            }
        )
        self.registry.register(TotalsCollector(totals))

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


def _samples(family: Family) -> Iterator[Sample]:
    instrument = family.instrument
    scope = {
        "otel_scope_name": instrument.account.scope,
        "otel_scope_version": package_version(),
    }
    for series in family.series:
        labels = {label_name(key): value for key, value in series.labels} | scope
        if isinstance(series.value, Distribution):
            yield from _distribution(family, labels, series.value)
        else:
            yield Sample(sample_names(instrument)[0], labels, series.value)


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
