"""Totals as OpenTelemetry metrics: the whole export, scope by scope."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
from opentelemetry.sdk.metrics.export import Histogram, MetricsData, Sum
from opentelemetry.sdk.resources import Resource

from otel_turnavoid.judge.accounts import Posting, known
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.publish.metrics import ledger_instance_id, metrics_data, service_resource
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.vocabulary import INSTRUMENTS, Account, Kind, Metric

BIRTH_NS = 1_700_000_000_000_000_000
NOW_NS = BIRTH_NS + 1_000
VERSION = version("otel-turnavoid")

DECLARED = (("turnavoid.evidence", "declared"),)
REUSE = (("turnavoid.arm", "exact-reuse"), *DECLARED)
NET = (("turnavoid.arm", "exact-reuse"), ("turnavoid.basis", "net"), *DECLARED)


def export(totals: Totals, resource: Resource | None = None) -> MetricsData:
    return metrics_data(
        totals.snapshot(),
        birth_ns=BIRTH_NS,
        now_ns=NOW_NS,
        resource=resource or Resource({"service.name": "turns"}),
    )


def metrics_of(totals: Totals) -> list:
    return [
        metric
        for scope in export(totals).resource_metrics[0].scope_metrics
        for metric in scope.metrics
    ]


@pytest.fixture
def started() -> Totals:
    """Totals with a series of every instrument."""
    histograms = (Posting(instrument, REUSE, 0) for instrument in INSTRUMENTS if instrument.bounds)
    return Totals([*known(Settings()), *histograms])


def test_an_export_is_one_scope_per_account_with_the_figures_of_the_totals() -> None:
    totals = Totals()
    totals.add_posting(Posting(Metric.TURNS_ADDED, REUSE, 3))
    totals.add_posting(Posting(Metric.TOOL_BATCH_SIZE, REUSE, 2))
    totals.add_posting(Posting(Metric.TOOL_BATCH_SIZE, REUSE, 40))
    totals.add_posting(Posting(Metric.SAVED_DURATION, NET, -0.25))

    assert json.loads(export(totals).to_json()) == {
        "resource_metrics": [
            {
                "resource": {"attributes": {"service.name": "turns"}, "schema_url": ""},
                "schema_url": "",
                "scope_metrics": [
                    scope(
                        "otel_turnavoid.turns",
                        {
                            "name": "turnavoid.model_turns.added",
                            "description": Metric.TURNS_ADDED.description,
                            "unit": "{turn}",
                            "data": {
                                "aggregation_temporality": 2,
                                "is_monotonic": True,
                                "data_points": [{**point(dict(REUSE)), "value": 3}],
                            },
                        },
                    ),
                    scope(
                        "otel_turnavoid.tools",
                        {
                            "name": "turnavoid.tool_batch.size",
                            "description": Metric.TOOL_BATCH_SIZE.description,
                            "unit": "{call}",
                            "data": {
                                "aggregation_temporality": 2,
                                "data_points": [
                                    {
                                        **point(dict(REUSE)),
                                        "count": 2,
                                        "sum": 42,
                                        "bucket_counts": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                                        "explicit_bounds": [1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
                                        "min": None,
                                        "max": None,
                                    }
                                ],
                            },
                        },
                    ),
                    scope(
                        "otel_turnavoid.work",
                        {
                            "name": "turnavoid.saved.duration",
                            "description": Metric.SAVED_DURATION.description,
                            "unit": "s",
                            "data": {
                                "aggregation_temporality": 2,
                                "is_monotonic": False,
                                "data_points": [{**point(dict(NET)), "value": -0.25}],
                            },
                        },
                    ),
                ],
            }
        ]
    }


def scope(name: str, *metrics: dict) -> dict:
    return {
        "scope": {"name": name, "version": VERSION, "schema_url": "", "attributes": None},
        "metrics": list(metrics),
        "schema_url": "",
    }


def point(attributes: dict) -> dict:
    return {
        "attributes": attributes,
        "start_time_unix_nano": BIRTH_NS,
        "time_unix_nano": NOW_NS,
        "exemplars": [],
    }


def test_every_account_has_its_scope_and_every_instrument_stands_in_it(started: Totals) -> None:
    scopes = export(started).resource_metrics[0].scope_metrics

    assert {each.scope.name: [metric.name for metric in each.metrics] for each in scopes} == {
        account.scope: [each.name for each in INSTRUMENTS if each.account is account]
        for account in Account
    }


def test_names_are_unique_and_ours(started: Totals) -> None:
    names = [metric.name for metric in metrics_of(started)]

    assert len(set(names)) == len(names)
    assert [name for name in names if not name.startswith("turnavoid.")] == []


def test_no_name_ends_in_total_or_in_its_unit(started: Totals) -> None:
    names = [metric.name for metric in metrics_of(started)]

    assert [name for name in names if name.endswith(("total", "seconds", "_s", "usd"))] == []


def test_only_counters_are_monotonic_and_all_is_cumulative(started: Totals) -> None:
    shapes = {
        metric.name: (
            type(metric.data),
            getattr(metric.data, "is_monotonic", None),
            metric.data.aggregation_temporality.name,
        )
        for metric in metrics_of(started)
    }

    expected = {
        Kind.COUNTER: (Sum, True, "CUMULATIVE"),
        Kind.UP_DOWN: (Sum, False, "CUMULATIVE"),
        Kind.HISTOGRAM: (Histogram, None, "CUMULATIVE"),
    }
    assert shapes == {each.name: expected[each.kind] for each in INSTRUMENTS}


def test_every_point_starts_at_the_birth_of_the_ledger(started: Totals) -> None:
    times = {
        (point.start_time_unix_nano, point.time_unix_nano)
        for metric in metrics_of(started)
        for point in metric.data.data_points
    }

    assert times == {(BIRTH_NS, NOW_NS)}


def test_the_overflow_series_carries_its_boolean_attribute_alone() -> None:
    totals = Totals(limit=1)
    totals.add_posting(Posting(Metric.NULL_PAIRS, DECLARED, 1))

    points = metrics_of(totals)[0].data.data_points

    assert [(point.attributes, point.value) for point in points] == [
        ({"otel.metric.overflow": True}, 1)
    ]


def test_an_instrument_without_a_series_is_left_out() -> None:
    assert export(Totals()).resource_metrics[0].scope_metrics == []


def test_the_resource_names_the_service_its_version_and_the_instance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)

    attributes = service_resource(
        "i1", attributes={"deployment.environment.name": "test"}
    ).attributes

    assert {key: attributes[key] for key in attributes if not key.startswith("telemetry.")} == {
        "service.name": "otel_turnavoid",
        "service.version": VERSION,
        "service.instance.id": "i1",
        "deployment.environment.name": "test",
    }


@pytest.mark.parametrize(("given", "name"), [(None, "from-environment"), ("given", "given")])
def test_a_service_name_is_taken_from_the_argument_then_the_environment(
    monkeypatch: pytest.MonkeyPatch, given: str | None, name: str
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-environment")

    assert service_resource("i1", service_name=given).attributes["service.name"] == name


def test_the_instance_id_belongs_to_the_ledger() -> None:
    assert ledger_instance_id(BIRTH_NS) == ledger_instance_id(BIRTH_NS)
    assert ledger_instance_id(BIRTH_NS) != ledger_instance_id(BIRTH_NS + 1)
