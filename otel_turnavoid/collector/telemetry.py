"""What the processor says about itself: counts of requests, spans and decisions.

These series start at 0 with each process, unlike the accounts, which come from the ledger. They
are scraped at the same endpoint under a scope of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple

from prometheus_client.core import Metric, Sample

from otel_turnavoid.publish.metrics import package_version
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import Kind, Word

SCOPE: Final = "otel_turnavoid.collector"
"""Instrumentation scope of the processor's own telemetry."""


class Own(NamedTuple):
    """An instrument of the processor's own."""

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Label keys with their closed sets of values; every combination exists from the start."""


class Outcome(Word):
    """What a request came to."""

    SUCCESS = "success"
    REFUSED = "refused"
    """The sender's fault: not readable, too large."""
    FAILURE = "failure"
    """Ours: ledger trouble, overload, a bug."""


_TRANSPORT: Final = ("transport", ("grpc", "http"))

ACCEPTED_SPANS: Final = Own(
    "turnavoid.receiver.accepted.spans",
    Kind.COUNTER,
    "{span}",
    "Spans taken, those that are not about agents included.",
    (_TRANSPORT,),
)
REFUSED_SPANS: Final = Own(
    "turnavoid.receiver.refused.spans",
    Kind.COUNTER,
    "{span}",
    "Spans refused singly, or with their readable request.",
    (_TRANSPORT,),
)
ACCEPTED_RECORDS: Final = Own(
    "turnavoid.receiver.accepted.log_records",
    Kind.COUNTER,
    "{record}",
    "Log records taken, those that are no observations included.",
    (_TRANSPORT,),
)
REFUSED_RECORDS: Final = Own(
    "turnavoid.receiver.refused.log_records",
    Kind.COUNTER,
    "{record}",
    "Log records refused singly, or with their readable request.",
    (_TRANSPORT,),
)
REQUESTS: Final = Own(
    "turnavoid.receiver.requests",
    Kind.COUNTER,
    "{request}",
    "Export requests answered.",
    (
        _TRANSPORT,
        ("signal", ("traces", "logs")),
        ("outcome", tuple(outcome.value for outcome in Outcome)),
    ),
)
PENDING_REQUESTS: Final = Own(
    "turnavoid.receiver.pending.requests",
    Kind.UP_DOWN,
    "{request}",
    "Requests that wait for their commit.",
)
IGNORED: Final = Own(
    "turnavoid.processor.ignored.items",
    Kind.COUNTER,
    "{item}",
    "Spans and log records that are not about agents.",
)
FACTS: Final = Own(
    "turnavoid.processor.stored.items",
    Kind.COUNTER,
    "{item}",
    "Facts and observations committed to the ledger.",
)
DUPLICATES: Final = Own(
    "turnavoid.processor.duplicates",
    Kind.COUNTER,
    "{item}",
    "Facts and observations that the ledger had already.",
)
DECISIONS: Final = Own(
    "turnavoid.processor.decisions",
    Kind.COUNTER,
    "{decision}",
    "Decisions published since the process started.",
    (("kind", ("pair", "null", "run")),),
)
DECISION_LAG: Final = Own(
    "turnavoid.processor.decision.lag",
    Kind.UP_DOWN,
    "s",
    "Age of the oldest commit that no decision round has seen yet.",
)
LEDGER_FAILURES: Final = Own(
    "turnavoid.processor.ledger.failures",
    Kind.COUNTER,
    "{failure}",
    "Commits and decision rounds that the ledger failed.",
)
LEDGER_SIZE: Final = Own(
    "turnavoid.processor.ledger.size",
    Kind.UP_DOWN,
    "By",
    "Size of the ledger's files; only where it is files on this machine.",
)

_TYPES: Final = {Kind.COUNTER: "counter", Kind.UP_DOWN: "gauge"}
_UNITS: Final = {"s": "seconds", "By": "bytes"}
_SCOPE_LABELS: Final = {"otel_scope_name": SCOPE, "otel_scope_version": package_version()}


class Telemetry:
    """Counts and gauges; safe to use from any thread, and a Prometheus collector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Own, dict[tuple[str, ...], int]] = {
            each: dict.fromkeys(_combinations(each), 0)
            for each in _INSTRUMENTS
            if each.kind is Kind.COUNTER
        }
        self._gauges: dict[Own, Callable[[], float | None]] = {}

    def count(self, instrument: Own, amount: int = 1, *labels: str) -> None:
        """Add to a counter; the label values stand in the order of its keys."""
        with self._lock:
            self._counts[instrument][labels] += amount

    def value(self, instrument: Own, *labels: str) -> int:
        """Return a count so far."""
        with self._lock:
            return self._counts[instrument][labels]

    def gauge(self, instrument: Own, read: Callable[[], float | None]) -> None:
        """Ask ``read`` at each scrape; None is no value."""
        self._gauges[instrument] = read

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples."""
        return (_family(instrument) for instrument in _INSTRUMENTS)

    def collect(self) -> Iterator[Metric]:
        """Yield every family with its samples."""
        with self._lock:
            counts = {each: dict(cells) for each, cells in self._counts.items()}
        for instrument, cells in counts.items():
            metric = _family(instrument)
            metric.samples = [
                Sample(
                    f"{metric.name}_total",
                    {
                        **{
                            key: value
                            for (key, _), value in zip(instrument.labels, labels, strict=True)
                        },
                        **_SCOPE_LABELS,
                    },
                    count,
                )
                for labels, count in cells.items()
            ]
            yield metric
        for instrument, read in self._gauges.items():
            value = read()
            if value is not None:
                metric = _family(instrument)
                metric.samples = [Sample(metric.name, dict(_SCOPE_LABELS), value)]
                yield metric


def _combinations(instrument: Own) -> Iterator[tuple[str, ...]]:
    return product(*(values for _, values in instrument.labels))


def _family(instrument: Own) -> Metric:
    unit = _UNITS.get(instrument.unit, "")
    name = label_name(instrument.name)
    return Metric(
        f"{name}_{unit}" if unit else name,
        instrument.description,
        _TYPES[instrument.kind],
        unit,
    )


_INSTRUMENTS: Final = tuple(value for value in globals().values() if isinstance(value, Own))
