"""What the processor says about itself: counts of requests, spans and decisions.

These series start at 0 with each process, unlike the accounts, which come from the ledger. They
are scraped at the same endpoint, and pushed with the accounts, under a scope of their own.

Names, kinds and labels are the OpenTelemetry Collector's, with ``turnavoid`` in place of
``otelcol``, which belongs to its components: ``turnavoid_receiver_accepted_spans_total`` is read as
``otelcol_receiver_accepted_spans_total`` is. What the Collector does not have is ours alone.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate, product
from typing import Final, NamedTuple

from prometheus_client.core import Metric, Sample

from otel_turnavoid.collector import memory
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
    bounds: tuple[float, ...] = ()
    """Of a histogram: upper limits of its buckets."""
    watched: bool = False
    """Whether its value is asked for when it is read, and not counted up."""


class Buckets(NamedTuple):
    """What a histogram saw."""

    counts: tuple[int, ...]
    """Per bucket, the one without a limit last."""
    sum: float

    @property
    def total(self) -> int:
        """How many values."""
        return sum(self.counts)


class Reading(NamedTuple):
    """One series as it stands."""

    instrument: Own
    labels: dict[str, str]
    value: float | Buckets


class Outcome(Word):
    """What a request came to."""

    SUCCESS = "success"
    REFUSED = "refused"
    """The sender's fault: not readable, too large."""
    FAILURE = "failure"
    """Ours: ledger trouble, overload, a bug."""


_TRANSPORT: Final = ("transport", ("grpc", "http"))
_EXPORTER: Final[tuple[str, tuple[str, ...]]] = ("exporter", ())
"""Its values stand in the configuration: each series begins with ``Telemetry.begin``."""

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
REFUSED_CREDENTIALS: Final = Own(
    "turnavoid.receiver.refused.credentials",
    Kind.COUNTER,
    "{request}",
    "Requests without a known credential, or with one whose role may not do that.",
    (_TRANSPORT, ("reason", ("unauthenticated", "forbidden"))),
)
REFUSED_BY_ROLE: Final = Own(
    "turnavoid.receiver.refused.by_role",
    Kind.COUNTER,
    "{item}",
    "Effects of agents' credentials and spans of agents from observers', refused singly.",
    (("role", ("agent", "observer")),),
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
LATE: Final = Own(
    "turnavoid.processor.late.items",
    Kind.COUNTER,
    "{item}",
    "Facts and observations not taken, as they are from before what retention removed.",
)
PRUNED: Final = Own(
    "turnavoid.processor.pruned.items",
    Kind.COUNTER,
    "{item}",
    "What retention removed from the ledger; decisions and their figures stay.",
    (("kind", ("runs", "facts", "observations")),),
)
EXPIRED_RUNS: Final = Own(
    "turnavoid.processor.expired.runs",
    Kind.COUNTER,
    "{run}",
    "Runs that got their final outcome without a pair: by age, or as too many were open.",
    (("reason", ("age", "limit")),),
)
DECISIONS: Final = Own(
    "turnavoid.processor.decisions",
    Kind.COUNTER,
    "{decision}",
    "Decisions published since the process started.",
    (("kind", ("pair", "null", "run")),),
)
SENT_SPANS: Final = Own(
    "turnavoid.exporter.sent.spans",
    Kind.COUNTER,
    "{span}",
    "Spans that a backend took.",
    (_EXPORTER,),
)
SENT_RECORDS: Final = Own(
    "turnavoid.exporter.sent.log_records",
    Kind.COUNTER,
    "{record}",
    "Log records that a backend took.",
    (_EXPORTER,),
)
SEND_FAILED_SPANS: Final = Own(
    "turnavoid.exporter.send_failed.spans",
    Kind.COUNTER,
    "{span}",
    "Spans that a backend refused for good, or that were given up.",
    (_EXPORTER,),
)
SEND_FAILED_RECORDS: Final = Own(
    "turnavoid.exporter.send_failed.log_records",
    Kind.COUNTER,
    "{record}",
    "Log records that a backend refused for good, or that were given up.",
    (_EXPORTER,),
)
ENQUEUE_FAILED_SPANS: Final = Own(
    "turnavoid.exporter.enqueue_failed.spans",
    Kind.COUNTER,
    "{span}",
    "Spans that a queue had no room or no disk for; their senders were told to come back.",
    (_EXPORTER,),
)
ENQUEUE_FAILED_RECORDS: Final = Own(
    "turnavoid.exporter.enqueue_failed.log_records",
    Kind.COUNTER,
    "{record}",
    "Log records that a queue had no room or no disk for; their senders were told to come back.",
    (_EXPORTER,),
)
QUEUE_SIZE: Final = Own(
    "turnavoid.exporter.queue.size",
    Kind.UP_DOWN,
    "{request}",
    "Requests that wait for a backend or are being sent.",
    (_EXPORTER,),
)
QUEUE_CAPACITY: Final = Own(
    "turnavoid.exporter.queue.capacity",
    Kind.UP_DOWN,
    "{request}",
    "Requests that may wait for a backend.",
    (_EXPORTER,),
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

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

REQUEST_DURATION: Final = Own(
    "turnavoid.receiver.request.duration",
    Kind.HISTOGRAM,
    "s",
    "Time from a request's body to its answer, most of which is the wait for its commit.",
    (_TRANSPORT,),
    _SECONDS,
)
BATCH_DURATION: Final = Own(
    "turnavoid.processor.batch.duration",
    Kind.HISTOGRAM,
    "s",
    "Time that a commit to the ledger took.",
    (),
    _SECONDS,
)
BATCH_SIZE: Final = Own(
    "turnavoid.processor.batch.size",
    Kind.HISTOGRAM,
    "{request}",
    "Requests that shared a commit.",
    (),
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
)
ROUND_DURATION: Final = Own(
    "turnavoid.processor.round.duration",
    Kind.HISTOGRAM,
    "s",
    "Time that a round of decisions took.",
    (),
    _SECONDS,
)
READY: Final = Own(
    "turnavoid.processor.ready",
    Kind.UP_DOWN,
    "1",
    "1 where exports are taken, 0 where senders are told to come back.",
    watched=True,
)
SENT_POINTS: Final = Own(
    "turnavoid.exporter.sent.metric_points",
    Kind.COUNTER,
    "{datapoint}",
    "Data points that a backend took.",
    (_EXPORTER,),
)
SEND_FAILED_POINTS: Final = Own(
    "turnavoid.exporter.send_failed.metric_points",
    Kind.COUNTER,
    "{datapoint}",
    "Data points of pushes that failed; the next push carries the totals anew.",
    (_EXPORTER,),
)
UPTIME: Final = Own(
    "turnavoid.process.uptime",
    Kind.COUNTER,
    "s",
    "Time since the processor started.",
    watched=True,
)
CPU_TIME: Final = Own(
    "turnavoid.process.cpu_seconds",
    Kind.COUNTER,
    "s",
    "Processor time of the whole process, user and system.",
    watched=True,
)
MEMORY: Final = Own(
    "turnavoid.process.memory.rss",
    Kind.UP_DOWN,
    "By",
    "Resident memory of the whole process.",
    watched=True,
)

_TYPES: Final = {Kind.COUNTER: "counter", Kind.UP_DOWN: "gauge", Kind.HISTOGRAM: "histogram"}
_UNITS: Final = {"s": "seconds", "By": "bytes"}
_SCOPE_LABELS: Final = {"otel_scope_name": SCOPE, "otel_scope_version": package_version()}


class Telemetry:
    """Counts, gauges and histograms; safe to use from any thread, and a Prometheus collector.

    ``started_ns`` is when every series began, in nanoseconds since the epoch.
    """

    def __init__(self, receiver: str = "otlp", processor: str = "turnavoid") -> None:
        """Begin every series whose labels are known.

        Args:
            receiver: Id of the receiver in the configuration.
            processor: Id of the processor in the configuration.
        """
        self.started_ns = time.time_ns()
        self._started_s = time.monotonic()
        self._components = {"receiver": receiver, "processor": processor}
        self._lock = threading.Lock()
        self._counts: dict[Own, dict[tuple[str, ...], float]] = {
            each: dict.fromkeys(_combinations(each), 0)
            for each in _INSTRUMENTS
            if each.kind is Kind.COUNTER and not each.watched
        }
        self._histograms: dict[Own, dict[tuple[str, ...], Buckets]] = {
            each: dict.fromkeys(_combinations(each), Buckets((0,) * (len(each.bounds) + 1), 0.0))
            for each in _INSTRUMENTS
            if each.kind is Kind.HISTOGRAM
        }
        self._gauges: dict[Own, dict[tuple[str, ...], Callable[[], float | None]]] = {}
        self.gauge(UPTIME, lambda: time.monotonic() - self._started_s)
        self.gauge(CPU_TIME, time.process_time)
        self.gauge(MEMORY, _resident_bytes)

    def begin(self, instrument: Own, *labels: str) -> None:
        """Let a counter exist at 0 for label values that only the configuration knows."""
        with self._lock:
            self._counts[instrument].setdefault(labels, 0)

    def count(self, instrument: Own, amount: int = 1, *labels: str) -> None:
        """Add to a counter; the label values stand in the order of its keys."""
        with self._lock:
            self._counts[instrument][labels] += amount

    def record(self, instrument: Own, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        at = bisect_left(instrument.bounds, value)
        with self._lock:
            seen = self._histograms[instrument][labels]
            counts = (*seen.counts[:at], seen.counts[at] + 1, *seen.counts[at + 1 :])
            self._histograms[instrument][labels] = Buckets(counts, seen.sum + value)

    def value(self, instrument: Own, *labels: str) -> float:
        """Return a count so far."""
        with self._lock:
            return self._counts[instrument][labels]

    def gauge(self, instrument: Own, read: Callable[[], float | None], *labels: str) -> None:
        """Ask ``read`` whenever the series is read; None is no value."""
        self._gauges.setdefault(instrument, {})[labels] = read

    def readings(self) -> Iterator[Reading]:
        """Yield every series as it stands, those of one instrument together."""
        kept: dict[Own, dict[tuple[str, ...], float | Buckets]] = {}
        with self._lock:
            for counted in (self._counts, self._histograms):
                kept |= {each: {**cells} for each, cells in counted.items()}
        for instrument, cells in kept.items():
            for labels, value in cells.items():
                yield self._reading(instrument, labels, value)
        for instrument, reads in self._gauges.items():
            for labels, read in reads.items():
                now = read()
                if now is not None:
                    yield self._reading(instrument, labels, now)

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples."""
        return (_family(instrument) for instrument in _INSTRUMENTS)

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has a series, with its samples."""
        families: dict[Own, Metric] = {}
        for reading in self.readings():
            if reading.instrument not in families:
                families[reading.instrument] = _family(reading.instrument)
            metric = families[reading.instrument]
            metric.samples.extend(_samples(metric.name, reading))
        return iter(families.values())

    def _reading(self, instrument: Own, values: tuple[str, ...], value: float | Buckets) -> Reading:
        component = instrument.name.split(".")[1]
        own = {key: label for (key, _), label in zip(instrument.labels, values, strict=True)}
        if component in self._components:
            own = {component: self._components[component], **own}
        return Reading(instrument, own, value)


def _combinations(instrument: Own) -> Iterator[tuple[str, ...]]:
    return product(*(values for _, values in instrument.labels))


def _samples(name: str, reading: Reading) -> Iterator[Sample]:
    labels, value = {**reading.labels, **_SCOPE_LABELS}, reading.value
    if isinstance(value, Buckets):
        limits = [*map(str, reading.instrument.bounds), "+Inf"]
        for limit, below in zip(limits, accumulate(value.counts), strict=True):
            yield Sample(f"{name}_bucket", {**labels, "le": limit}, below)
        yield Sample(f"{name}_count", labels, value.total)
        yield Sample(f"{name}_sum", labels, value.sum)
    else:
        counter = reading.instrument.kind is Kind.COUNTER
        yield Sample(f"{name}_total" if counter else name, labels, value)


def _family(instrument: Own) -> Metric:
    unit = _UNITS.get(instrument.unit, "")
    name = label_name(instrument.name)
    plain = not unit or name.endswith(f"_{unit}")
    return Metric(
        name if plain else f"{name}_{unit}",
        instrument.description,
        _TYPES[instrument.kind],
        unit,
    )


def _resident_bytes() -> int | None:
    try:
        return memory.resident_bytes()
    except OSError:  # this system does not say
        return None


_INSTRUMENTS: Final = tuple(value for value in globals().values() if isinstance(value, Own))
