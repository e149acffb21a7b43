"""A Collector that feeds Jaeger and the processor side by side."""

from __future__ import annotations

import pytest
from harness.workload import Workload

pytestmark = pytest.mark.peers


def test_the_accounts_are_those_of_the_spans_sent_directly_and_jaeger_has_every_span(
    recipe, directly
):
    fanning = recipe("side-by-side")
    sent = Workload()
    jaeger, processor, collector = fanning.jaeger(), fanning.processor(), fanning.collector()

    sent.send(fanning.endpoints["COLLECTOR_HTTP"])
    fanning.ledger().wait_for(sent.pairs, peers=[processor, collector])

    assert fanning.ledger().accounts() == directly(sent)
    jaeger.wait_for(sent.traces())


def test_without_jaeger_the_accounts_are_the_same(recipe, directly):
    fanning = recipe("side-by-side")
    sent = Workload()
    processor, collector = fanning.processor(), fanning.collector()

    sent.send(fanning.endpoints["COLLECTOR_HTTP"])
    fanning.ledger().wait_for(sent.pairs, peers=[processor, collector])

    assert fanning.ledger().accounts() == directly(sent)


def test_without_the_processor_jaeger_has_every_span_and_the_processor_gets_them_later(
    recipe, directly
):
    fanning = recipe("side-by-side")
    sent = Workload()
    jaeger, collector = fanning.jaeger(), fanning.collector()

    sent.send(fanning.endpoints["COLLECTOR_HTTP"])
    jaeger.wait_for(sent.traces())
    processor = fanning.processor()
    fanning.ledger().wait_for(sent.pairs, peers=[processor, collector])

    assert fanning.ledger().accounts() == directly(sent)
