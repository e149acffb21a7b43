"""The Prometheus endpoint: names, the whole text, and what a scraper may ask."""

from __future__ import annotations

import asyncio
import re
from importlib.metadata import version

import httpx
import pytest
from opentelemetry.sdk.resources import Resource
from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from prometheus_client.core import DuplicateTimeseries
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.judge.accounts import Posting, known
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.publish.prometheus import (
    UNIT_WORDS,
    PrometheusEndpoint,
    label_name,
    sample_names,
)
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.vocabulary import INSTRUMENTS, Metric

VERSION = version("otel-turnavoid")
DECLARED = (("turnavoid.evidence", "declared"),)
REUSE = (("turnavoid.arm", "exact-reuse"), *DECLARED)
NET = (("turnavoid.arm", "exact-reuse"), ("turnavoid.basis", "net"), *DECLARED)
RESOURCE = Resource({"service.name": "turns", "service.instance.id": "i1"})

ARMED = f'otel_scope_version="{VERSION}",turnavoid_arm="exact-reuse"'
TEXT = f"""\
# HELP target_info Target metadata
# TYPE target_info gauge
target_info{{service_instance_id="i1",service_name="turns"}} 1.0
# HELP turnavoid_model_turns_added_total {Metric.TURNS_ADDED.description}
# TYPE turnavoid_model_turns_added_total counter
turnavoid_model_turns_added_total{{otel_scope_name="otel_turnavoid.turns",{ARMED},\
turnavoid_evidence="declared"}} 3.0
# HELP turnavoid_saved_duration_seconds {Metric.SAVED_DURATION.description}
# TYPE turnavoid_saved_duration_seconds gauge
turnavoid_saved_duration_seconds{{otel_scope_name="otel_turnavoid.work",{ARMED},\
turnavoid_basis="net",turnavoid_evidence="declared"}} -0.25
"""
OPENMETRICS = f"""\
# HELP target Target metadata
# TYPE target info
target_info{{service_instance_id="i1",service_name="turns"}} 1.0
# HELP turnavoid_model_turns_added {Metric.TURNS_ADDED.description}
# TYPE turnavoid_model_turns_added counter
turnavoid_model_turns_added_total{{otel_scope_name="otel_turnavoid.turns",{ARMED},\
turnavoid_evidence="declared"}} 3.0
# HELP turnavoid_saved_duration_seconds {Metric.SAVED_DURATION.description}
# TYPE turnavoid_saved_duration_seconds gauge
# UNIT turnavoid_saved_duration_seconds seconds
turnavoid_saved_duration_seconds{{otel_scope_name="otel_turnavoid.work",{ARMED},\
turnavoid_basis="net",turnavoid_evidence="declared"}} -0.25
# EOF
"""


def endpoint(*found: Posting) -> PrometheusEndpoint:
    totals = Totals()
    totals.add_postings(found)
    return PrometheusEndpoint(totals, RESOURCE)


@pytest.fixture
def small() -> PrometheusEndpoint:
    return endpoint(
        Posting(Metric.TURNS_ADDED, REUSE, 3), Posting(Metric.SAVED_DURATION, NET, -0.25)
    )


def ask(
    app: PrometheusEndpoint, path: str = "/metrics", *, method: str = "GET", **headers: str
) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        base = {"accept-encoding": "identity"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, headers={**base, **given})

    return asyncio.run(send())


@pytest.mark.parametrize(
    ("instrument", "names"),
    [
        (Metric.TURNS_AVOIDED, ("turnavoid_model_turns_avoided_total",)),
        (Metric.NULL_PAIRS, ("turnavoid_null_pairs_total",)),
        (Metric.WORK_DURATION, ("turnavoid_work_duration_seconds_total",)),
        (Metric.WORK_COST, ("turnavoid_work_cost_total",)),
        (Metric.SAVED_DURATION, ("turnavoid_saved_duration_seconds",)),
        (Metric.SAVED_COST, ("turnavoid_saved_cost",)),
        (
            Metric.TOOL_BATCH_SIZE,
            (
                "turnavoid_tool_batch_size_bucket",
                "turnavoid_tool_batch_size_sum",
                "turnavoid_tool_batch_size_count",
            ),
        ),
    ],
)
def test_names_are_escaped_and_get_the_suffix_of_their_unit_and_kind(
    instrument: object, names: tuple[str, ...]
) -> None:
    assert sample_names(instrument) == names


def test_every_instrument_has_names_of_its_own() -> None:
    names = [name for instrument in INSTRUMENTS for name in sample_names(instrument)]

    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch("[a-z][a-z_]*[a-z]", name)] == []


def test_every_unit_is_a_known_word_or_stands_in_braces() -> None:
    assert {each.unit for each in INSTRUMENTS if not each.unit.startswith("{")} == set(UNIT_WORDS)


def test_a_unit_that_a_name_already_ends_in_is_not_repeated() -> None:
    assert sample_names(Metric.WORK_DURATION._replace(name="turnavoid.work.seconds")) == (
        "turnavoid_work_seconds_total",
    )


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("turnavoid.arm", "turnavoid_arm"),
        ("gen_ai.agent.name", "gen_ai_agent_name"),
        ("a..b_-c", "a_b_c"),
    ],
)
def test_what_a_label_name_cannot_hold_becomes_one_underscore(key: str, name: str) -> None:
    assert label_name(key) == name


def test_no_two_keys_of_an_instrument_become_one_label() -> None:
    for instrument in INSTRUMENTS:
        assert len({label_name(key) for key in instrument.labels}) == len(instrument.labels)


@pytest.mark.parametrize("path", ["/metrics", "/"])
@pytest.mark.parametrize("accept", ["*/*", "text/plain;version=0.0.4", "text/html"])
def test_the_text_format_is_served(small: PrometheusEndpoint, path: str, accept: str) -> None:
    response = ask(small, path, accept=accept)

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.text == TEXT


def test_openmetrics_is_served_to_those_who_accept_it(small: PrometheusEndpoint) -> None:
    response = ask(small, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")

    assert response.headers["content-type"] == (
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
    )
    assert response.text == OPENMETRICS


def test_names_stay_escaped_for_scrapers_that_accept_utf_8(small: PrometheusEndpoint) -> None:
    accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8"

    assert ask(small, accept=accept).text == OPENMETRICS


def test_a_histogram_is_exposed_with_cumulated_buckets() -> None:
    app = endpoint(*(Posting(Metric.TOOL_BATCH_DEPTH, REUSE, depth) for depth in (1, 1, 3, 40)))

    labels = f'otel_scope_name="otel_turnavoid.tools",{ARMED},turnavoid_evidence="declared"'
    name = "turnavoid_tool_batch_depth"
    below = {"1.0": 2, "2.0": 2, "3.0": 3, "4.0": 3, "6.0": 3, "8.0": 3, "12.0": 3, "16.0": 3}
    below |= {"24.0": 3, "32.0": 3, "+Inf": 4}
    assert ask(app).text.splitlines()[3:] == [
        f"# HELP {name} {Metric.TOOL_BATCH_DEPTH.description}",
        f"# TYPE {name} histogram",
        *(f'{name}_bucket{{le="{limit}",{labels}}} {count}.0' for limit, count in below.items()),
        f"{name}_count{{{labels}}} 4.0",
        f"{name}_sum{{{labels}}} 45.0",
    ]


def test_label_values_are_escaped() -> None:
    labels = (*REUSE, ("turnavoid.variant", 'a "b"\\\nc'))

    text = ask(endpoint(Posting(Metric.TURNS_ADDED, labels, 1))).text

    assert r'turnavoid_variant="a \"b\"\\\nc"' in text


def test_both_formats_of_all_known_series_are_read_back_with_the_same_samples() -> None:
    histograms = (Posting(each, REUSE, 0) for each in INSTRUMENTS if each.bounds)
    app = PrometheusEndpoint(Totals([*known(Settings()), *histograms]), RESOURCE)

    plain = text_string_to_metric_families(ask(app).text)
    rich = openmetrics.text_string_to_metric_families(
        ask(app, accept="application/openmetrics-text;version=1.0.0").text
    )

    samples = [sample for family in plain for sample in family.samples]
    assert samples == [sample for family in rich for sample in family.samples]
    assert {sample.name for sample in samples} == {
        "target_info",
        *(name for instrument in INSTRUMENTS for name in sample_names(instrument)),
    }
    assert {sample.timestamp for sample in samples} == {None}
    assert {sample.value for sample in samples if sample.name != "target_info"} == {0.0}


def test_a_scrape_may_ask_for_names(small: PrometheusEndpoint) -> None:
    text = ask(small, "/metrics?name[]=turnavoid_model_turns_added_total").text

    assert text == "\n".join(TEXT.splitlines()[3:6]) + "\n"


def test_a_scrape_may_be_compressed(small: PrometheusEndpoint) -> None:
    response = ask(small, accept_encoding="gzip")

    assert response.headers["content-encoding"] == "gzip"
    assert response.text == TEXT


def test_head_answers_without_a_body(small: PrometheusEndpoint) -> None:
    response = ask(small, method="HEAD")

    assert (response.status_code, response.content) == (200, b"")


def test_another_path_is_not_found(small: PrometheusEndpoint) -> None:
    response = ask(small, "/favicon.ico")

    assert response.status_code == 404
    assert response.text == "404 Not Found; the metrics are at /metrics\n"


def test_another_method_is_not_allowed(small: PrometheusEndpoint) -> None:
    response = ask(small, method="POST")

    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD"
    assert response.text == "405 Method Not Allowed; use GET\n"


def test_a_websocket_is_refused(small: PrometheusEndpoint) -> None:
    with pytest.raises(
        ValueError, match=r"^the Prometheus endpoint speaks HTTP only \(got websocket\)$"
    ):
        asyncio.run(small({"type": "websocket"}, None, None))


def test_a_server_may_start_and_stop_it(small: PrometheusEndpoint) -> None:
    asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    answered = []

    async def receive() -> dict:
        return next(asked)

    async def send(message: dict) -> None:
        answered.append(message)

    asyncio.run(small({"type": "lifespan"}, receive, send))

    assert answered == [
        {"type": "lifespan.startup.complete"},
        {"type": "lifespan.shutdown.complete"},
    ]


def test_a_scrape_shows_what_was_added_since_the_last() -> None:
    totals = Totals([Posting(Metric.NULL_PAIRS, DECLARED, 0)])
    app = PrometheusEndpoint(totals, RESOURCE)
    first = ask(app).text.splitlines()[-1]

    totals.add_posting(Posting(Metric.NULL_PAIRS, DECLARED, 1))

    assert (first[-3:], ask(app).text.splitlines()[-1][-3:]) == ("0.0", "1.0")


def test_other_collectors_may_share_the_registry(small: PrometheusEndpoint) -> None:
    Gauge("queue_length", "Own telemetry.", registry=small.registry)

    assert ask(small).text == TEXT + (
        "# HELP queue_length Own telemetry.\n# TYPE queue_length gauge\nqueue_length 0.0\n"
    )


def test_no_other_collector_can_take_a_name_of_ours(small: PrometheusEndpoint) -> None:
    with pytest.raises(DuplicateTimeseries):
        Gauge("turnavoid_null_pairs_total", "Not ours.", registry=small.registry)


def test_the_registry_is_not_the_global_one(small: PrometheusEndpoint) -> None:
    assert isinstance(small.registry, CollectorRegistry)
    assert small.registry is not REGISTRY
