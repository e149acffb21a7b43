"""The keys of forwarding, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.forwarding import queue_path
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import SECOND

PIPELINES = """
service:
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid], exporters: [otlp/a, otlphttp]}
    logs: {receivers: [otlp], processors: [turnavoid], exporters: [otlp/a]}
    metrics: {receivers: [turnavoid], exporters: [otlphttp]}
"""


def forwarding(otlp: str = "endpoint: a:4317", otlphttp: str = "endpoint: http://b"):
    text = f"exporters: {{otlp/a: {{{otlp}}}, otlphttp: {{{otlphttp}}}}}{PIPELINES}"
    return parse(text, env={})


def problem(*exporters: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        forwarding(*exporters)
    return str(refused.value)


def test_exporters_of_a_pipeline_take_its_signal():
    config = forwarding()

    assert {signal: list(each) for signal, each in config.forwarding.items()} == {
        "traces": ["otlp/a", "otlphttp"],
        "logs": ["otlp/a"],
    }
    assert list(config.exporters) == ["otlphttp"]


def verdicts_alone(pipeline: str):
    exporters = "exporters: {otlp/a: {endpoint: a:1}, otlp/b: {endpoint: b:1}, prometheus: }"
    forwarded = "traces: {receivers: [otlp], processors: [turnavoid], exporters: [otlp/a]}"
    pipelines = f"{{pipelines: {{{forwarded}, traces/verdicts: {pipeline}}}}}"
    return parse(f"{exporters}\nservice: {pipelines}", env={})


def test_exporters_of_a_pipeline_from_the_processor_take_verdicts_alone():
    config = verdicts_alone("{receivers: [turnavoid], exporters: [otlp/a, otlp/b]}")

    assert [list(each["traces"]) for each in (config.forwarding, config.announcing)] == [
        ["otlp/a"],
        ["otlp/a", "otlp/b"],
    ]
    assert list(config.sending["traces"]) == ["otlp/a", "otlp/b"]


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (
            "{receivers: [otlp, turnavoid], processors: [turnavoid], exporters: [otlp/b]}",
            (
                "receivers: name a receiver or the processor: "
                "what is forwarded has the verdicts with it"
            ),
        ),
        (
            "{receivers: [turnavoid], processors: [turnavoid], exporters: [otlp/b]}",
            "processors: verdicts are not processed; leave []",
        ),
        (
            "{receivers: [turnavoid]}",
            "exporters: must name one of exporters; exporters defines otlp/a, otlp/b, prometheus",
        ),
        (
            "{receivers: [turnavoid], exporters: [prometheus]}",
            "exporters[0]: prometheus takes metrics only",
        ),
    ],
)
def test_a_pipeline_of_verdicts_that_cannot_be(pipeline, said):
    with pytest.raises(ConfigurationError) as refused:
        verdicts_alone(pipeline)

    assert str(refused.value) == f"service.pipelines.traces/verdicts.{said}"


def test_without_a_service_nothing_is_forwarded():
    config = parse("exporters: {otlp: {endpoint: a:4317}}", env={})

    assert config.forwarding == {"traces": {}, "logs": {}}


def test_left_out_keys_are_the_collectors_but_nothing_is_given_up():
    exporter = forwarding().forwarding["traces"]["otlp/a"]
    queue, retry = exporter.sending_queue, exporter.retry_on_failure

    assert (queue.enabled, queue.num_consumers, queue.queue_size, queue.size_mib) == (
        True,
        10,
        10_000,
        1024,
    )
    assert queue.storage is None
    assert (retry.enabled, retry.initial_interval, retry.max_interval) == (
        True,
        5 * SECOND,
        30 * SECOND,
    )
    assert (retry.multiplier, retry.randomization_factor, retry.max_elapsed_time) == (1.5, 0.5, 0)


def test_every_key_is_read():
    exporter = forwarding(
        "endpoint: a:4317, sending_queue: {num_consumers: 2, queue_size: 5, size_mib: 7, "
        "storage: q}, retry_on_failure: {enabled: false, initial_interval: 1s, "
        "randomization_factor: 0, multiplier: 2, max_interval: 3s, max_elapsed_time: 5m}"
    ).forwarding["traces"]["otlp/a"]
    queue, retry = exporter.sending_queue, exporter.retry_on_failure

    assert (queue.num_consumers, queue.queue_size, queue.size_mib, queue.storage) == (2, 5, 7, "q")
    assert (retry.enabled, retry.initial_interval, retry.max_interval) == (
        False,
        SECOND,
        3 * SECOND,
    )
    assert (retry.multiplier, retry.randomization_factor) == (2, 0)
    assert retry.max_elapsed_time == 300 * SECOND


@pytest.mark.parametrize(
    ("otlp", "said"),
    [
        (
            "endpoint: a:1, sending_queue: {enabled: false}",
            (
                "exporters.otlp/a.sending_queue.enabled: traces and logs always wait in a queue: "
                "without it trouble of the backend loses them"
            ),
        ),
        (
            "endpoint: a:1, sending_queue: {queue_size: 0}",
            "exporters.otlp/a.sending_queue.queue_size: wants a whole number >= 1, got 0",
        ),
        (
            "endpoint: a:1, sending_queue: {batch: {}}",
            (
                "exporters.otlp/a.sending_queue.batch: unknown key; known: enabled, "
                "num_consumers, queue_size, size_mib, storage"
            ),
        ),
        (
            "endpoint: 'http://'",
            "exporters.otlp/a.endpoint: wants host:port or a URL with a host",
        ),
        (
            "endpoint: 'a:b'",
            "exporters.otlp/a.endpoint: wants host:port or a URL with a host",
        ),
    ],
)
def test_what_cannot_be_used_is_named(otlp, said):
    assert problem(otlp) == said


@pytest.mark.parametrize(
    "endpoint",
    [
        "localhost:4317",
        "127.0.0.1:4317",
        "'[::1]:4317'",
        "http://LocalHost:4318",
        "https://localhost:4317/x",
        "localhost",
    ],
)
def test_a_way_back_to_the_processor_itself_is_refused(endpoint):
    assert problem(f"endpoint: {endpoint}").startswith(
        "exporters.otlp/a.endpoint: is this processor's own localhost:431"
    )


@pytest.mark.parametrize("endpoint", ["localhost:14317", "backend:4317", "10.0.0.1:4318"])
def test_other_ports_and_other_hosts_are_fine(endpoint):
    assert forwarding(f"endpoint: {endpoint}").forwarding["logs"]


def test_over_http_a_way_back_is_refused_too():
    assert problem("endpoint: a:1", "endpoint: http://127.0.0.1:4318") == (
        "exporters.otlphttp.endpoint: is this processor's own localhost:4318: "
        "everything would go in circles"
    )


class TestQueuePath:
    def test_a_queue_lies_beside_a_sqlite_ledger(self):
        exporter = forwarding().forwarding["traces"]["otlp/a"]

        assert queue_path("otlp/a", exporter, "sqlite:////var/lib/turnavoid.db") == Path(
            "/var/lib/turnavoid.otlp-a.queue"
        )

    def test_or_where_storage_says(self):
        exporter = forwarding("endpoint: a:1, sending_queue: {storage: /q/a}").forwarding["traces"]

        assert queue_path("otlp/a", exporter["otlp/a"], "postgresql://db/x") == Path("/q/a")

    def test_beside_another_ledger_there_is_no_place(self):
        exporter = forwarding().forwarding["traces"]["otlp/a"]

        with pytest.raises(ConfigurationError) as refused:
            queue_path("otlp/a", exporter, "postgresql://db/x")

        assert str(refused.value) == (
            "exporters.otlp/a.sending_queue.storage: is required: "
            "the ledger is no file beside which the queue could lie"
        )
