"""Several processors behind the load-balancing exporter, each with a ledger of its own."""

from __future__ import annotations

import pytest
from harness.workload import Workload

pytestmark = pytest.mark.peers

LINES = ("pairs", "runs")


def together(ledgers):
    """The lines of several ledgers as if they were one."""
    return {
        command: sorted((line for ledger in ledgers for line in ledger.lines(command)), key=str)
        for command in LINES
    }


def lines(accounts):
    return {command: accounts[command] for command in LINES}


def test_pairs_meet_and_the_accounts_together_are_those_of_one_processor(recipe, directly):
    balanced, sent = recipe("load-balanced"), Workload(16, digest_on_resource=True)
    ledgers = [balanced.ledger("processor-1"), balanced.ledger("processor-2")]
    peers = [balanced.one_of(1), balanced.one_of(2), balanced.collector()]

    sent.send(balanced.endpoints["COLLECTOR_HTTP"])
    balanced.until_decided(ledgers, sent.pairs, peers=peers)

    assert together(ledgers) == lines(directly(sent))
    assert all(ledger.lines("pairs") for ledger in ledgers)


def test_a_processor_that_is_away_gets_its_runs_when_it_is_back(recipe, directly):
    balanced, sent = recipe("load-balanced"), Workload(16, digest_on_resource=True)
    ledgers = [balanced.ledger("processor-1"), balanced.ledger("processor-2")]
    first, collector = balanced.one_of(1), balanced.collector()

    sent.send(balanced.endpoints["COLLECTOR_HTTP"])
    ledgers[0].wait_for(1, peers=[first, collector])
    second = balanced.one_of(2)
    balanced.until_decided(ledgers, sent.pairs, peers=[first, second, collector])

    assert together(ledgers) == lines(directly(sent))
