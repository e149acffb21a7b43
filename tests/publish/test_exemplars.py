"""Exemplars: which run a counter last grew by, in OpenMetrics and over OTLP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.resources import Resource
from prometheus_client.openmetrics import parser as openmetrics

from otel_turnavoid.publish.metrics import metrics_data
from otel_turnavoid.publish.prometheus import PrometheusEndpoint
from otel_turnavoid.publish.totals import Exemplar, Totals
from otel_turnavoid.vocabulary import Metric

AT_NS = 1_700_000_000_500_000_000
ROOT = ("ab" * 16, "cd" * 8)
OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}


def shown(totals: Totals, pair: Any, at_ns: int = AT_NS) -> Totals:
    totals.add(pair)
    totals.exemplify(pair, at_ns)
    return totals


def exemplars(totals: Totals, instrument: Any) -> list[Exemplar]:
    return list(totals.snapshot().family(instrument).exemplars.values())


def scraped(totals: Totals) -> dict[str, Any]:
    async def get() -> str:
        app = PrometheusEndpoint(totals, Resource({}))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://scraped") as client:
            return (await client.get("/metrics", headers=OPENMETRICS)).text

    families = openmetrics.text_string_to_metric_families(asyncio.run(get()))
    samples = [sample for family in families for sample in family.samples]
    return {sample.name: sample.exemplar for sample in samples if sample.exemplar}


@pytest.mark.parametrize(
    ("turns", "effects", "instrument", "value"),
    [
        ((3, 1), ("order:42=cancelled",), Metric.TURNS_AVOIDED, 2),
        ((3, 1), (), Metric.TURNS_WITHHELD, 2),
        ((1, 4), ("order:42=cancelled",), Metric.TURNS_ADDED, 3),
    ],
)
def test_avoided_withheld_and_added_name_the_candidates_root(
    verdicts, turns, effects, instrument, value
) -> None:
    totals = shown(Totals(), verdicts.pair(*turns, effects=effects, roots=(ROOT,)))

    assert exemplars(totals, instrument) == [Exemplar(*ROOT, value, AT_NS)]


def test_no_other_account_names_one(verdicts) -> None:
    totals = shown(Totals(), verdicts.pair(3, 1, roots=(ROOT,)))
    named = {family.instrument.name for family in totals.snapshot().families if family.exemplars}

    assert named == {"turnavoid.model_turns.avoided"}


def test_the_latest_is_named(verdicts) -> None:
    totals = shown(Totals(), verdicts.pair(3, 1, roots=(ROOT,)))
    other = ("ef" * 16, "01" * 8)
    shown(totals, verdicts.pair(2, 1, roots=(other,)), AT_NS + 1)

    assert exemplars(totals, Metric.TURNS_AVOIDED) == [Exemplar(*other, 1, AT_NS + 1)]


def test_a_run_without_a_root_is_not_named(verdicts) -> None:
    assert exemplars(shown(Totals(), verdicts.pair(3, 1)), Metric.TURNS_AVOIDED) == []


def test_no_figure_depends_on_them(verdicts) -> None:
    pair = verdicts.pair(3, 1, roots=(ROOT,))
    plain = Totals()
    plain.add(pair)

    assert shown(Totals(), pair).save() == plain.save()


def test_openmetrics_shows_them_under_the_names_that_grafana_looks_for(verdicts) -> None:
    totals = shown(Totals(), verdicts.pair(3, 1, roots=(ROOT,)))
    found = scraped(totals)

    assert list(found) == ["turnavoid_model_turns_avoided_total"]
    [exemplar] = found.values()
    assert (exemplar.labels, exemplar.value, float(exemplar.timestamp)) == (
        {"trace_id": ROOT[0], "span_id": ROOT[1]},
        2.0,
        AT_NS / 1e9,
    )


def test_otlp_carries_them(verdicts) -> None:
    totals = shown(Totals(), verdicts.pair(3, 1, roots=(ROOT,)))
    data = metrics_data(totals.snapshot(), birth_ns=1, now_ns=2, resource=Resource({}))
    points = [
        point
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]

    assert [each for point in points for each in point.exemplars] == [
        SdkExemplar({}, 2, AT_NS, int(ROOT[1], 16), int(ROOT[0], 16))
    ]
