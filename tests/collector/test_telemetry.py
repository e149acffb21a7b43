"""What the processor says about itself, scraped and pushed; its page lists every series.

Run as a program (``make docs``), this file writes the table of ``docs/operations.md`` anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Histogram, MetricExportResult, Sum
from prometheus_client.core import CollectorRegistry
from prometheus_client.exposition import generate_latest

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.exporters import Counted, Exporters
from otel_turnavoid.collector.journal import Part
from otel_turnavoid.collector.own_metrics import own_metrics
from otel_turnavoid.collector.telemetry import SCOPE, Buckets, Own, Telemetry
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.vocabulary import Kind

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
BLOCK = re.compile(r"(?<=<!-- series -->\n).*?(?=<!-- /series -->)", re.DOTALL)
KINDS = {Kind.COUNTER: "counter", Kind.UP_DOWN: "gauge", Kind.HISTOGRAM: "histogram"}
BIRTH_NS = 1_790_000_000_000_000_000

COLLECTORS = {
    *(
        f"{component}_{fate}_{items}"
        for component, fates in (
            ("receiver", ("accepted", "refused")),
            ("exporter", ("sent", "send_failed", "enqueue_failed")),
        )
        for fate in fates
        for items in ("spans", "log_records", "metric_points")
    ),
    *("receiver_requests", "exporter_queue_size", "exporter_queue_capacity"),
    *("process_uptime", "process_cpu_seconds", "process_memory_rss"),
}
"""What the Collector calls ``otelcol_…``: receiverhelper, exporterhelper, service telemetry."""


def instruments() -> list[Own]:
    return sorted(
        (each for each in vars(telemetry).values() if isinstance(each, Own)),
        key=lambda each: each.name,
    )


def series_table() -> str:
    """Return every instrument as a Markdown table."""
    lines = ["| series | | kind, unit | labels | says |", "|---|---|---|---|---|"]
    for each in instruments():
        component = each.name.split(".")[1]
        labels = [component] if component in ("receiver", "processor") else []
        labels += [key for key, _ in each.labels]
        known = "●" if label_name(each.name).removeprefix("turnavoid_") in COLLECTORS else ""
        shown = ", ".join(f"`{key}`" for key in labels)
        kind = f"{KINDS[each.kind]}, {each.unit}"
        lines.append(f"| `{each.name}` | {known} | {kind} | {shown} | {each.description} |")
    return "\n".join(lines) + "\n"


def scraped(own: Telemetry) -> list[str]:
    registry = CollectorRegistry()
    registry.register(own)
    return generate_latest(registry).decode().splitlines()


def series(own: Telemetry, name: str) -> list[str]:
    """Return the lines of one name without the labels of the scope."""
    found = [line for line in scraped(own) if re.match(rf"{name}[{{ ]", line)]
    bare = (re.sub(r'otel_scope_[a-z]+="[^"]*",?', "", line) for line in found)
    return [line.replace(",}", "}") for line in bare]


def pushed(own: Telemetry) -> dict[str, object]:
    """Return the data of every metric by name."""
    scope = own_metrics(own.readings(), started_ns=own.started_ns, now_ns=own.started_ns + 9)
    assert scope.scope.name == SCOPE
    names = [metric.name for metric in scope.metrics]
    assert len(set(names)) == len(names)
    return {metric.name: metric.data for metric in scope.metrics}


@pytest.fixture
def own() -> Telemetry:
    return Telemetry("otlp/agents", "turnavoid")


def test_the_operators_page_lists_every_series():
    assert BLOCK.search(PAGE.read_text())[0] == series_table(), "run: make docs"


def test_the_rule_of_the_page_renames_what_the_collector_has():
    rule = re.compile(re.search(r"regex: (.+)", PAGE.read_text())[1])
    own = Telemetry()
    for each in instruments():
        for key, _ in each.labels:
            if key == "exporter" and each.kind is Kind.COUNTER:
                own.begin(each, "otlp")
        if each.kind is Kind.UP_DOWN:
            own.gauge(each, lambda: 1, *(key for key, _ in each.labels))
    names = {re.split(r"[{ ]", line)[0] for line in scraped(own) if not line.startswith("#")}

    known = tuple(
        label_name(each.name)
        for each in instruments()
        if label_name(each.name).removeprefix("turnavoid_") in COLLECTORS
    )
    assert {name for name in names if rule.fullmatch(name)} == {
        name for name in names if name.startswith(known)
    }


def test_series_carry_the_ids_of_their_components(own):
    own.count(telemetry.ACCEPTED_SPANS, 3, "grpc")

    assert series(own, "turnavoid_receiver_accepted_spans_total") == [
        'turnavoid_receiver_accepted_spans_total{receiver="otlp/agents",transport="grpc"} 3.0',
        'turnavoid_receiver_accepted_spans_total{receiver="otlp/agents",transport="http"} 0.0',
    ]
    assert series(own, "turnavoid_processor_duplicates_total") == [
        'turnavoid_processor_duplicates_total{processor="turnavoid"} 0.0'
    ]


def test_what_the_process_uses_is_shown(own):
    assert len(series(own, "turnavoid_process_uptime_seconds_total")) == 1
    assert len(series(own, "turnavoid_process_cpu_seconds_total")) == 1
    assert float(series(own, "turnavoid_process_memory_rss_bytes")[0].split()[-1]) > 1 << 20


def test_a_histogram_counts_values_up_to_and_with_each_limit(own):
    for size in (1, 2, 2, 3, 5000):
        own.record(telemetry.BATCH_SIZE, size)

    lines = series(own, "turnavoid_processor_batch_size_(bucket|sum|count)")
    shown = [re.sub(r".*le=\"([^\"]+)\".*} (.*)", r"\1: \2", line) for line in lines]
    assert shown[:3] == ["1: 1.0", "2: 3.0", "4: 4.0"]
    assert shown[-3:-1] == [
        "+Inf: 5.0",
        'turnavoid_processor_batch_size_count{processor="turnavoid"} 5.0',
    ]
    assert shown[-1] == 'turnavoid_processor_batch_size_sum{processor="turnavoid"} 5008.0'


def test_pushed_are_the_same_series_from_the_start_of_the_process(own):
    own.count(telemetry.ACCEPTED_SPANS, 3, "grpc")
    own.record(telemetry.BATCH_DURATION, 0.02)
    own.gauge(telemetry.DECISION_LAG, lambda: 1.5)
    data = pushed(own)

    spans = data["turnavoid.receiver.accepted.spans"]
    assert isinstance(spans, Sum)
    assert spans.is_monotonic
    assert [
        (point.attributes, point.value, point.start_time_unix_nano, point.time_unix_nano)
        for point in spans.data_points
    ] == [
        ({"receiver": "otlp/agents", "transport": "grpc"}, 3, own.started_ns, own.started_ns + 9),
        ({"receiver": "otlp/agents", "transport": "http"}, 0, own.started_ns, own.started_ns + 9),
    ]
    duration = data["turnavoid.processor.batch.duration"]
    assert isinstance(duration, Histogram)
    [point] = duration.data_points
    assert (point.count, point.sum) == (1, 0.02)
    assert point.bucket_counts == (0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    lag = data["turnavoid.processor.decision.lag"]
    assert isinstance(lag, Gauge)
    assert [point.value for point in lag.data_points] == [1.5]
    assert isinstance(data["turnavoid.process.uptime"], Sum)


def test_pushed_it_goes_with_the_share_that_is_decided_for_and_with_no_other(own):
    exporters = Exporters(BIRTH_NS, lambda: (Part(2, Totals()), Part(1, Totals())), own)

    scopes = [
        [scope.scope.name for scope in resource.scope_metrics]
        for resource in exporters._read().resource_metrics
    ]
    assert scopes == [[SCOPE], []]


@pytest.mark.parametrize(
    ("result", "sent", "failed"),
    [(MetricExportResult.SUCCESS, 2, 0), (MetricExportResult.FAILURE, 0, 2), (OSError(), 0, 2)],
)
def test_data_points_are_counted_as_the_backend_takes_them(own, result, sent, failed):
    class Backend:
        def export(self, *_args, **_options):
            if isinstance(result, Exception):
                raise result
            return result

    counted = Counted(Backend(), own, "otlp")
    exporters = Exporters(BIRTH_NS, lambda: (Part(1, Totals()),), own)
    data = exporters._read()
    data.resource_metrics[0].scope_metrics[0].metrics[:] = [
        metric
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "turnavoid.receiver.accepted.spans"
    ]
    try:
        counted.export(data)
    except OSError as error:
        assert error is result  # noqa: PT017 - raised on purpose, as the pusher says it

    assert own.value(telemetry.SENT_POINTS, "otlp") == sent
    assert own.value(telemetry.SEND_FAILED_POINTS, "otlp") == failed


def test_a_value_on_a_limit_is_within_it():
    own = Telemetry()
    own.record(telemetry.BATCH_DURATION, 0.005)

    [reading] = [each for each in own.readings() if each.instrument is telemetry.BATCH_DURATION]
    assert reading.value == Buckets((1, *[0] * 11), 0.005)


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(BLOCK.sub(lambda _: series_table(), text))
