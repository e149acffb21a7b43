"""Several processors on one ledger: each verdict once, and series whose sum is the ledger."""

from __future__ import annotations

import random
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.judge.accounts import contradiction, known
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.publish.prometheus import TotalsCollector
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.store import Ledger

SEED = 20_261_130
PROCESSORS = 3
TASKS = 60
LEASE_S = 8
"""A process that the machine stops for some seconds is not taken for dead."""
INSTANCE = "service_instance_id"

CONFIG = f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:0"}}}}}}}}
processors: {{turnavoid: {{settle: 50ms, decision_wait: 600s}}}}
exporters: {{prometheus: {{endpoint: "127.0.0.1:0"}}}}
extensions: {{ledger: {{lease: {LEASE_S}s}}}}
"""

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Value by sample name and labels."""


def scraped(url: str) -> Figures:
    """Return the accounts that one processor shows, without its own telemetry."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if INSTANCE in sample.labels and sample.name != "target_info"
    }


def summed(shown: list[Figures]) -> Figures:
    """Return the sums over ``service_instance_id``."""
    sums: Figures = defaultdict(float)
    for figures in shown:
        for (name, labels), value in figures.items():
            sums[name, tuple(each for each in labels if each[0] != INSTANCE)] += value
    return dict(sums)


def instances(figures: Figures) -> set[str]:
    return {dict(labels)[INSTANCE] for _, labels in figures}


def whole_ledger(url: str) -> Figures:
    """Return the figures of the whole journal, as one process would show them."""
    totals = Totals(known(Settings()))
    with Ledger.open(url, create=False) as ledger:
        for _, decision in ledger.decisions():
            totals.add(decision)
        for pair in ledger.contradicted().values():
            totals.add_posting(contradiction(pair))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in TotalsCollector(totals).collect()
        for sample in family.samples
    }


def decided_pairs(url: str) -> list[str]:
    with Ledger.open(url, create=False) as ledger:
        return [
            made.candidate.run_id for _, made in ledger.decisions() if isinstance(made, PairDecided)
        ]


def test_one_of_several_is_killed_and_the_others_go_on(
    scene: Any, until: Callable[[Callable[[], Any]], Any]
) -> None:
    rng = random.Random(SEED)
    scene.configure(CONFIG)
    load = scene.load(TASKS, rng)
    requests = list(load.waiting)
    lives = [scene.start() for _ in range(PROCESSORS)]
    addresses = [life.up() for life in lives]
    shares = {life.pid: instances(scraped(life.metrics)) for life in lives}
    assert [len(each) for each in shares.values()] == [1] * PROCESSORS
    assert len(set.union(*shares.values())) == PROCESSORS

    load.start(*addresses)
    until(lambda: len(load.acknowledged) > len(requests) // 2)
    victim = until(lambda: next((life for life in lives if deciding(life.metrics)), None))
    victim.kill()
    load.stop()
    killed_at = time.monotonic()
    rest = [life for life in lives if life is not victim]
    load.finish(*(addresses[lives.index(life)] for life in rest))

    until(lambda: len(decided_pairs(scene.url)) == TASKS)
    # What the dead one decided is kept published by one of the others, as it was.
    everybodys = set.union(*shares.values())
    until(lambda: set.union(*(instances(scraped(life.metrics)) for life in rest)) == everybodys)
    assert time.monotonic() - killed_at >= LEASE_S
    until(lambda: at_rest(scene.url, rest))
    assert sorted(decided_pairs(scene.url)) == sorted(f"k{task}" for task in range(TASKS))

    again = scene.start()
    again.up()
    # It takes the share back that nobody works for, when its keeper has stopped showing it.
    until(lambda: instances(scraped(again.metrics)) == shares[victim.pid])
    until(lambda: at_rest(scene.url, [again, *rest]))
    until(lambda: {len(instances(scraped(life.metrics))) for life in [again, *rest]} == {1})

    for life in [again, *rest]:
        life.end()
    scene.check(TASKS, requests)


def deciding(url: str) -> set[str]:
    """Return the shares for which any pair was decided."""
    return {
        dict(labels)[INSTANCE]
        for (name, labels), value in scraped(url).items()
        if name == "turnavoid_pairs_decided_total" and value
    }


def at_rest(url: str, lives: list[Any]) -> bool:
    """Whether the sums are the ledger; no share may be shown by two, whenever one looks."""
    shown = [scraped(life.metrics) for life in lives]
    seen = [instance for figures in shown for instance in instances(figures)]
    assert len(seen) == len(set(seen))
    return summed(shown) == pytest.approx(whole_ledger(url))


def test_no_series_ever_falls_while_processors_come_and_go(
    scene: Any, until: Callable[[Callable[[], Any]], Any]
) -> None:
    rng = random.Random(SEED + 1)
    scene.configure(CONFIG)
    load = scene.load(TASKS, rng)
    requests = list(load.waiting)
    highest: Figures = {}

    def look(lives: list[Any]) -> None:
        for life in lives:
            for key, value in scraped(life.metrics).items():
                if key[0].endswith(("_total", "_count")):
                    assert value >= highest.get(key, 0), key
                    highest[key] = value

    lives = [scene.start(), scene.start()]
    addresses = [life.up() for life in lives]
    for turn in range(4):
        load.start(*addresses)
        enough = len(requests) * (turn + 1) // 5
        until(lambda enough=enough, lives=lives: (look(lives), len(load.acknowledged) > enough)[1])
        gone = turn % 2
        lives[gone].kill() if turn < 2 else lives[gone].end()
        load.stop()
        lives[gone] = scene.start()
        addresses[gone] = lives[gone].up()
        look(lives)
    load.finish(*addresses)
    until(lambda: len(decided_pairs(scene.url)) == TASKS)
    until(lambda: (look(lives), at_rest(scene.url, lives))[1])
    # Who starts takes over what was left: there are no more shares than there were processors.
    assert len({dict(labels)[INSTANCE] for _, labels in highest}) == len(lives)
    for life in lives:
        life.end()
    scene.check(TASKS, requests)
