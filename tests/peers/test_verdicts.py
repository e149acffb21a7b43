"""Verdicts in Jaeger: found by a search, said whole, and leading to both runs."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

import pytest
from harness import verdict
from harness.jaeger import Jaeger
from harness.peer import Peer
from harness.workload import Workload

from otel_turnavoid.digest import input_digest

pytestmark = pytest.mark.peers

AVOIDED = {"avoided": 2, "withheld": 0, "added": 0, "causes": []}
WITHHELD = {"avoided": 0, "withheld": 1, "added": 0, "causes": ["effects-suppressed"]}
ADDED = {"avoided": 0, "withheld": 0, "added": 1, "causes": []}
EQUAL = {"avoided": 0, "withheld": 0, "added": 0, "causes": []}
CASES = (AVOIDED, WITHHELD, ADDED, EQUAL)
"""Figures of the pairs of a workload, in turn."""


def figures(first, pairs):
    """What a workload's verdicts say, by candidate."""
    numbers = range(first, first + pairs)
    said = [{"candidate.run_id": f"exact-reuse-{each}", **CASES[each % 4]} for each in numbers]
    return sorted(said, key=lambda each: each["candidate.run_id"])


def trace_of(run_id):
    return sha256(run_id.encode()).hexdigest()[:32]


def root_of(run_id):
    return (trace_of(run_id), sha256(f"{run_id}/0".encode()).hexdigest()[:16])


class Decided(NamedTuple):
    """A processor that has decided a workload of four pairs, with Jaeger behind it."""

    jaeger: Jaeger
    processor: Peer
    sent: Workload
    found: list[verdict.Verdict]


@pytest.fixture
def chain(recipe):
    return recipe("collector-chain")


@pytest.fixture
def decided(chain):
    jaeger, processor, _ = chain.jaeger(), chain.processor(), chain.collector()
    sent = Workload(4)
    sent.send(chain.endpoints["COLLECTOR_HTTP"])
    return Decided(jaeger, processor, sent, verdict.wait_for(jaeger, 4))


def test_every_decided_pair_is_found_in_jaeger_with_nothing_to_warn_of(decided):
    assert [each.figures for each in decided.found] == figures(0, 4)
    assert [(each.warnings, each.duration_us) for each in decided.found] == [([], 1)] * 4


def test_a_search_by_run_or_trace_finds_the_verdict_of_either_side(decided):
    asked = {
        "turnavoid.verdict.candidate.run_id": "exact-reuse-1",
        "turnavoid.verdict.control.run_id": "control-1",
        "turnavoid.verdict.candidate.trace_id": trace_of("exact-reuse-1"),
        "turnavoid.verdict.control.trace_id": trace_of("control-1"),
        "turnavoid.withheld.cause": "effects-suppressed",
    }

    for key, value in asked.items():
        assert verdict.find(decided.jaeger, {key: value}) == [decided.found[1]], key


def test_a_withheld_verdict_says_the_whole_decision(decided):
    tags = dict(decided.found[1].tags)

    assert tags.pop("turnavoid.verdict.decision") > 0
    assert tags == {
        "gen_ai.agent.name": "orders",
        "turnavoid.arm": "exact-reuse",
        "turnavoid.evidence": "declared",
        "turnavoid.mechanism": "exact-reuse",
        "turnavoid.lifecycle": "realized",
        "turnavoid.reason": "exact-match",
        "turnavoid.input.digest": input_digest("Cancel order 1"),
        "turnavoid.turn.index": 0,
        "turnavoid.observer.id": "orders-db/v1",
        "turnavoid.verdict.potential": 1,
        "turnavoid.verdict.avoided": 0,
        "turnavoid.verdict.withheld": 1,
        "turnavoid.verdict.added": 0,
        "turnavoid.verdict.causes": ["effects-suppressed"],
        "turnavoid.withheld.cause": "effects-suppressed",
        "turnavoid.verdict.effects.preserved": 1,
        "turnavoid.verdict.effects.suppressed": 1,
        "turnavoid.verdict.control.run_id": "control-1",
        "turnavoid.verdict.control.trace_id": trace_of("control-1"),
        "turnavoid.verdict.control.turns": 4,
        "turnavoid.verdict.control.effects": ["mail=sent", "order=cancelled"],
        "turnavoid.verdict.candidate.run_id": "exact-reuse-1",
        "turnavoid.verdict.candidate.trace_id": trace_of("exact-reuse-1"),
        "turnavoid.verdict.candidate.turns": 3,
        "turnavoid.verdict.candidate.effects": ["order=cancelled"],
    }


def test_its_links_lead_to_the_roots_of_both_traces_the_control_first(decided):
    decided.jaeger.wait_for(decided.sent.traces())

    for number, each in enumerate(decided.found):
        control, candidate = f"control-{number}", f"exact-reuse-{number}"
        assert each.references == [root_of(control), root_of(candidate)]
        assert verdict.roots(decided.jaeger, trace_of(control)) == [root_of(control)]
        assert verdict.roots(decided.jaeger, trace_of(candidate)) == [root_of(candidate)]


def test_links_say_which_side_they_lead_to(decided):
    said = [verdict.link_sides(decided.jaeger, each.trace_id) for each in decided.found]

    assert said == [["control", "candidate"]] * 4


def test_a_processor_that_is_killed_or_stopped_and_started_again_doubles_no_verdict(chain, decided):
    decided.processor.kill()
    decided.processor.start()
    Workload(4, first=4).send(chain.endpoints["COLLECTOR_HTTP"])
    verdict.wait_for(decided.jaeger, 8)
    assert decided.processor.stop() == 0
    decided.processor.start()
    Workload(4, first=8).send(chain.endpoints["COLLECTOR_HTTP"])
    found = verdict.wait_for(decided.jaeger, 12)

    assert [each.figures for each in found] == figures(0, 12)
    assert [each for each in found if each in decided.found] == decided.found


def test_verdicts_made_while_jaeger_is_away_come_when_it_is_back(chain):
    processor, collector = chain.processor(), chain.collector()
    Workload(4).send(chain.endpoints["COLLECTOR_HTTP"])
    chain.ledger().wait_for(4, peers=[processor, collector])

    processor.kill()
    processor.start()
    jaeger = chain.jaeger()

    assert [each.figures for each in verdict.wait_for(jaeger, 4)] == figures(0, 4)


def test_side_by_side_jaeger_has_the_spans_and_the_verdicts(recipe):
    fanning = recipe("side-by-side")
    jaeger, _, _ = fanning.jaeger(), fanning.processor(), fanning.collector()
    sent = Workload(4)
    sent.send(fanning.endpoints["COLLECTOR_HTTP"])

    assert [each.figures for each in verdict.wait_for(jaeger, 4)] == figures(0, 4)
    jaeger.wait_for(sent.traces())
