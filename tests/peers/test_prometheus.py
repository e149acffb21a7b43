"""The accounts in Prometheus: scraped and pushed give the same series, which never jump."""

from __future__ import annotations

import time

import pytest
from harness.prometheus import ACCOUNTS
from harness.workload import Workload, implied

pytestmark = pytest.mark.peers

WAYS = {"scraped": {}, "pushed": {"interval: 15s": "interval: 1s"}}
"""Configuration file of the processor, and what a test replaces in it."""


@pytest.fixture
def observed(recipe):
    """The recipe, a Prometheus, and a function that starts the processor one way or the other."""
    placed = recipe("prometheus")

    def start(way):
        return placed.processor(placed.ledger(), config=f"{way}.yaml", replace=WAYS[way])

    return placed, start


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("flags", [(), ("--enable-feature=created-timestamp-zero-ingestion",)])
def test_increase_sees_the_first_event_and_no_restart(observed, way, flags):
    placed, start = observed
    prometheus, processor = placed.prometheus(*flags), start(way)
    prometheus.wait_for_samples(3)
    assert prometheus.increases(implied(0)) == implied(0)

    Workload(4).send(placed.endpoints["TURNAVOID_HTTP"])
    prometheus.wait_for_pairs(4)
    assert prometheus.increases(implied(4)) == implied(4)

    processor.kill()
    processor.start()
    Workload(4, first=4).send(placed.endpoints["TURNAVOID_HTTP"])
    prometheus.wait_for_pairs(8)
    assert prometheus.increases(implied(8)) == implied(8)

    assert processor.stop() == 0
    restarted = time.time()
    processor.start()
    prometheus.wait_for_sample_after(restarted + 3)
    assert prometheus.increases(implied(8)) == implied(8)
    assert prometheus.resets() == 0


@pytest.mark.parametrize("way", WAYS)
def test_the_usual_increase_counts_the_first_event_too(observed, way):
    """It extrapolates to the ends of its range, so it is exact only when rounded."""
    placed, start = observed
    prometheus, processor = placed.prometheus(), start(way)
    prometheus.wait_for_samples(3)

    Workload(4).send(placed.endpoints["TURNAVOID_HTTP"])
    prometheus.wait_for_pairs(4)
    prometheus.wait_for_samples(12)

    assert processor.running
    found = prometheus.increases(implied(4), over="[1h]")
    assert {name: round(value) for name, value in found.items()} == implied(4)


def test_scraped_and_pushed_series_are_the_same(observed):
    placed, start = observed
    prometheus, processor = placed.prometheus(), start("scraped")
    Workload(8).send(placed.endpoints["TURNAVOID_HTTP"])
    prometheus.wait_for_pairs(8)
    scraped = prometheus.query(f"{{{ACCOUNTS}}}")

    processor.stop()
    stopped = time.time()
    start("pushed")
    prometheus.wait_for_sample_after(stopped)
    pushed = prometheus.query(f"{{{ACCOUNTS}}}")

    assert len(scraped) > 300
    assert pushed == scraped


@pytest.mark.parametrize("way", WAYS)
def test_the_job_is_the_service_and_the_instance_is_the_share_of_the_ledger(observed, way):
    placed, start = observed
    prometheus, processor = placed.prometheus(), start(way)
    prometheus.wait_for_samples(1)
    identity = prometheus.query(f"group by (job, instance) ({{{ACCOUNTS}}})")
    assert len(identity) == 1
    assert "job='otel_turnavoid'" in next(iter(identity))
    described = "group by (job, instance) (target_info)"
    assert prometheus.query(described) == identity

    processor.stop()
    processor.start()
    prometheus.until(f"count(count by (job, instance) ({{{ACCOUNTS}}}))", 1)
    assert prometheus.query(f"group by (job, instance) ({{{ACCOUNTS}}})") == identity


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        (
            "UnderscoreEscapingWithSuffixes",
            ["turnavoid_model_turns_avoided_total", "turnavoid_saved_duration_seconds"],
        ),
        (
            "UnderscoreEscapingWithoutSuffixes",
            ["turnavoid_model_turns_avoided", "turnavoid_saved_duration"],
        ),
        (
            "NoUTF8EscapingWithSuffixes",
            ["turnavoid.model_turns.avoided_total", "turnavoid.saved.duration_seconds"],
        ),
        ("NoTranslation", ["turnavoid.model_turns.avoided", "turnavoid.saved.duration"]),
    ],
)
def test_pushed_names_follow_the_translation_strategy(observed, strategy, names):
    placed, start = observed
    prometheus = placed.prometheus(replace={"UnderscoreEscapingWithSuffixes": strategy})
    start("pushed")

    for name in names:
        prometheus.until(f'count({{__name__="{name}"}}) > bool 0', 1)
