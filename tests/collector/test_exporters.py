"""Each share of the ledger is published as series of its own."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from otel_turnavoid.collector.exporters import Exporters
from otel_turnavoid.collector.journal import Part
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.judge.accounts import Posting
from otel_turnavoid.publish.metrics import ledger_instance_id
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.vocabulary import Metric

BIRTH_NS = 1_790_000_000_000_000_000
LABELS = (("turnavoid.arm", "exact-reuse"), ("turnavoid.evidence", "declared"))


def part(share: int, turns: int) -> Part:
    totals = Totals()
    totals.add_posting(Posting(Metric.TURNS_ADDED, LABELS, turns))
    return Part(share, totals)


def exporters(*parts: Part) -> Exporters:
    return Exporters(BIRTH_NS, lambda: parts, Telemetry())


def test_pushed_each_share_is_a_resource():
    data = exporters(part(2, 5), part(1, 3))._read()

    assert [
        (
            resource.resource.attributes["service.instance.id"],
            resource.scope_metrics[0].metrics[0].data.data_points[0].value,
        )
        for resource in data.resource_metrics
    ] == [(ledger_instance_id(BIRTH_NS, 2), 5), (ledger_instance_id(BIRTH_NS, 1), 3)]


def test_scraped_each_share_has_a_label_and_each_family_stands_once():
    endpoint = exporters(part(2, 5), part(1, 3)).scraped()

    lines = generate_latest(endpoint.registry).decode().splitlines()
    accounts = [line for line in lines if "turnavoid_model_turns_added_total" in line]
    assert len(accounts) == 4
    assert f'service_instance_id="{ledger_instance_id(BIRTH_NS, 2)}"' in accounts[2]
    assert accounts[2].endswith(" 5.0")
    assert f'service_instance_id="{ledger_instance_id(BIRTH_NS, 1)}"' in accounts[3]
    assert accounts[3].endswith(" 3.0")


def test_nothing_is_published_where_nothing_may_be():
    assert exporters()._read().resource_metrics == []
    lines = generate_latest(exporters().scraped().registry).decode()
    assert "turnavoid_model_turns" not in lines


def test_the_first_share_is_known_by_the_ledger_alone_and_no_two_are_the_same():
    ids = {ledger_instance_id(BIRTH_NS, share) for share in range(1, 9)}

    assert len(ids) == 8
    assert ledger_instance_id(BIRTH_NS) == ledger_instance_id(BIRTH_NS, 1)
    assert ledger_instance_id(BIRTH_NS + 1) not in ids
