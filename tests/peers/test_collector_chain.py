"""SDK -> Collector -> processor -> Jaeger."""

from __future__ import annotations

import pytest
from harness.workload import Workload

pytestmark = pytest.mark.peers


def test_the_accounts_are_those_of_the_spans_sent_directly_and_jaeger_has_every_span(
    recipe, directly
):
    chain = recipe("collector-chain")
    sent = Workload()
    jaeger, processor, collector = chain.jaeger(), chain.processor(), chain.collector()

    sent.send(chain.endpoints["COLLECTOR_HTTP"])
    chain.ledger().wait_for(sent.pairs, peers=[processor, collector])

    assert chain.ledger().accounts() == directly(sent)
    jaeger.wait_for(sent.traces())


def test_nothing_is_lost_when_the_processor_and_the_collector_are_killed_and_jaeger_is_away(
    recipe, directly
):
    chain = recipe("collector-chain")
    before, meanwhile, after = Workload(4), Workload(4, first=4), Workload(4, first=8)
    processor, collector = chain.processor(), chain.collector()

    before.send(chain.endpoints["COLLECTOR_HTTP"])
    chain.ledger().wait_for(4, peers=[processor, collector])
    processor.kill()
    meanwhile.send(chain.endpoints["COLLECTOR_HTTP"])
    collector.kill()
    collector.start()
    processor.start()
    after.send(chain.endpoints["COLLECTOR_HTTP"])
    chain.ledger().wait_for(12, peers=[processor, collector])
    processor.kill()
    processor.start()
    jaeger = chain.jaeger()

    assert chain.ledger().accounts() == directly(before, meanwhile, after)
    jaeger.wait_for(before.traces() | meanwhile.traces() | after.traces())
