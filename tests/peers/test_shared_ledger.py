"""Several processors on one PostgreSQL ledger, behind the load-balancing exporter."""

from __future__ import annotations

import pytest
from harness.ledger import Ledger
from harness.workload import Workload, implied

pytestmark = [pytest.mark.peers, pytest.mark.postgresql]


def test_the_accounts_are_those_of_one_processor_whichever_way_spans_went(
    recipe, directly, postgresql_url
):
    shared, ledger, sent = recipe("shared-ledger"), Ledger(postgresql_url), Workload(16)
    peers = [shared.one_of(1, ledger), shared.one_of(2, ledger), shared.collector()]

    sent.send(shared.endpoints["COLLECTOR_HTTP"])
    ledger.wait_for(sent.pairs, peers=peers)

    assert ledger.accounts() == directly(sent)


def test_nothing_is_lost_when_one_of_them_is_killed(recipe, directly, postgresql_url):
    shared, ledger = recipe("shared-ledger"), Ledger(postgresql_url)
    before, after = Workload(8), Workload(8, first=8)
    first, second = shared.one_of(1, ledger), shared.one_of(2, ledger)
    collector = shared.collector()

    before.send(shared.endpoints["COLLECTOR_HTTP"])
    first.kill()
    after.send(shared.endpoints["COLLECTOR_HTTP"])
    first.start()
    ledger.wait_for(16, peers=[first, second, collector])

    assert ledger.accounts() == directly(before, after)


def test_the_sum_over_the_processors_sees_every_event_once_and_no_restart(recipe, postgresql_url):
    shared, ledger = recipe("shared-ledger"), Ledger(postgresql_url)
    first, second = shared.one_of(1, ledger), shared.one_of(2, ledger)
    collector = shared.collector()
    targets = f"localhost:{first.ports[-1]}, localhost:{second.ports[-1]}"
    prometheus = recipe("prometheus").prometheus(replace={"localhost:9464": targets})
    prometheus.wait_for_samples(3)

    Workload(8).send(shared.endpoints["COLLECTOR_HTTP"])
    ledger.wait_for(8, peers=[first, second, collector])
    prometheus.wait_for_pairs(8)
    assert prometheus.increases(implied(8)) == implied(8)

    assert second.stop() == 0
    second.start()
    first.kill()
    first.start()
    Workload(8, first=8).send(shared.endpoints["COLLECTOR_HTTP"])
    ledger.wait_for(16, peers=[first, second, collector])
    prometheus.wait_for_pairs(16)
    assert prometheus.increases(implied(16)) == implied(16)
    assert prometheus.resets() == 0
