"""Exemplars in Prometheus: from a figure to the trace of the run that it last grew by."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import NamedTuple

import httpx
import pytest
from harness import verdict
from harness.jaeger import Jaeger
from harness.peer import Peer, until
from harness.prometheus import Prometheus
from harness.workload import Workload

pytestmark = pytest.mark.peers

STORED = "--enable-feature=exemplar-storage"
HOUR_S = 3600
COUNTERS = {
    "turnavoid_model_turns_avoided_total": (2.0, "exact-reuse-0"),
    "turnavoid_model_turns_withheld_total": (1.0, "exact-reuse-1"),
    "turnavoid_model_turns_added_total": (1.0, "exact-reuse-2"),
}
"""What a workload of four pairs adds to each, and the candidate that it adds it by."""


class Placed(NamedTuple):
    """A processor whose spans go to Jaeger, and whose accounts go to Prometheus."""

    jaeger: Jaeger
    processor: Peer
    prometheus: Prometheus
    entry: str
    """``host:port`` to send to."""

    def exemplars(self, name):
        """Trace, span and value of each exemplar of a counter."""
        now = time.time()
        answer = httpx.get(
            f"{self.prometheus.url}/api/v1/query_exemplars",
            params={"query": name, "start": str(now - HOUR_S), "end": str(now + HOUR_S)},
            timeout=60,
        )
        assert answer.status_code == httpx.codes.OK, answer.text
        found = [each for series in answer.json()["data"] for each in series["exemplars"]]
        return [
            (each["labels"]["trace_id"], each["labels"]["span_id"], float(each["value"]))
            for each in found
        ]

    def wait_for_exemplars(self, name, count=1):
        until(
            lambda: len(self.exemplars(name)) >= count,
            f"{count} exemplars of {name}",
            peers=[self.prometheus.peer, self.processor],
        )
        return self.exemplars(name)


@pytest.fixture(params=["scraped", "pushed"])
def placed(request, recipe):
    """The recipe with Jaeger, and its accounts in the recipe with Prometheus, either way."""
    chain, store = recipe("collector-chain"), recipe("prometheus")
    if request.param == "scraped":
        scraped = {"localhost:9464": chain.endpoints["TURNAVOID_PROMETHEUS"]}
        prometheus, pushes = store.prometheus(STORED, replace=scraped), None
    else:
        prometheus = store.prometheus(STORED)
        pushes = {
            "  prometheus:\n": "  otlp_http/prometheus:\n"
            f"    endpoint: {prometheus.url}/api/v1/otlp\n"
            "    interval: 1s\n"
            "  prometheus:\n",
            "[prometheus]": "[otlp_http/prometheus, prometheus]",
        }
    jaeger, processor = chain.jaeger(), chain.processor(replace=pushes)
    chain.collector()
    prometheus.wait_for_samples(1)
    return Placed(jaeger, processor, prometheus, chain.endpoints["COLLECTOR_HTTP"])


def root_of(run_id):
    digests = sha256(run_id.encode()), sha256(f"{run_id}/0".encode())
    return digests[0].hexdigest()[:32], digests[1].hexdigest()[:16]


def test_each_figure_leads_to_the_candidates_trace_in_jaeger(placed):
    Workload(4).send(placed.entry)

    for name, (grown, run_id) in COUNTERS.items():
        assert placed.wait_for_exemplars(name) == [(*root_of(run_id), grown)]
        trace_id, span_id = root_of(run_id)
        until(lambda trace_id=trace_id: placed.jaeger.trace(trace_id), f"the trace of {run_id}")
        assert (trace_id, span_id) in verdict.roots(placed.jaeger, trace_id)


def test_from_that_trace_a_search_leads_to_the_verdict(placed):
    Workload(4).send(placed.entry)
    ((trace_id, _, _),) = placed.wait_for_exemplars("turnavoid_model_turns_withheld_total")

    asked = {"turnavoid.verdict.candidate.trace_id": trace_id}
    (found,) = verdict.wait_for(placed.jaeger, 1, asked)
    assert found.figures["causes"] == ["effects-suppressed"]


def test_later_events_are_added_and_a_restart_keeps_what_prometheus_has(placed):
    name = "turnavoid_model_turns_avoided_total"
    Workload(4).send(placed.entry)
    placed.wait_for_exemplars(name)

    placed.processor.kill()
    placed.processor.start()
    Workload(4, first=4).send(placed.entry)

    assert placed.wait_for_exemplars(name, 2) == [
        (*root_of("exact-reuse-0"), 2.0),
        (*root_of("exact-reuse-4"), 2.0),
    ]
