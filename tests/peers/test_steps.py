"""The steps in the recipes' own words: each README's commands for agents and observers, run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness.ledger import Ledger
from harness.peer import ROOT

pytestmark = pytest.mark.peers

FOUR_TO_THREE = {"control_turns": 4, "candidate_turns": 3, "avoided": 1, "withheld": 0}
THREE_TO_TWO = {"control_turns": 3, "candidate_turns": 2, "avoided": 1, "withheld": 0}


def follow(recipe, entry=""):
    """Run the steps of the README in a new folder, with ``entry`` in place of localhost:4318."""
    readme = (recipe.folder / "README.md").read_text()
    (steps,) = re.findall(r"^```sh agents\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    folder = recipe.scratch / "steps"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    environment = {key: value for key, value in os.environ.items() if "OTEL_" not in key}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", steps.replace("localhost:4318", entry)],
        cwd=folder,
        env=environment,
        check=True,
    )
    return folder


def figures(*ledgers):
    pairs = [pair for ledger in ledgers for pair in ledger.lines("pairs")]
    return [{key: pair[key] for key in FOUR_TO_THREE} for pair in pairs]


def test_direct(recipe):
    direct = recipe("direct")
    processor = direct.processor()

    follow(direct, direct.endpoints["TURNAVOID_HTTP"])
    direct.ledger().wait_for(1, peers=[processor])

    assert figures(direct.ledger()) == [FOUR_TO_THREE]


@pytest.mark.parametrize("name", ["collector-chain", "side-by-side"])
def test_with_a_collector_and_jaeger(recipe, name):
    chain = recipe(name)
    jaeger, processor, collector = chain.jaeger(), chain.processor(), chain.collector()

    follow(chain, chain.endpoints["COLLECTOR_HTTP"])
    chain.ledger().wait_for(1, peers=[processor, collector])

    assert figures(chain.ledger()) == [FOUR_TO_THREE]
    assert "orders-agent" in jaeger.services()


def test_load_balanced(recipe):
    balanced = recipe("load-balanced")
    first, second = balanced.one_of(1), balanced.one_of(2)
    collector = balanced.collector()
    ledgers = [balanced.ledger("processor-1"), balanced.ledger("processor-2")]

    follow(balanced, balanced.endpoints["COLLECTOR_HTTP"])
    balanced.until_decided(ledgers, 1, peers=[first, second, collector])

    assert figures(*ledgers) == [FOUR_TO_THREE]


@pytest.mark.postgresql
def test_shared_ledger(recipe, postgresql_url):
    shared, ledger = recipe("shared-ledger"), Ledger(postgresql_url)
    first, second = shared.one_of(1, ledger), shared.one_of(2, ledger)
    collector = shared.collector()

    follow(shared, shared.endpoints["COLLECTOR_HTTP"])
    ledger.wait_for(1, peers=[first, second, collector])

    assert figures(ledger) == [FOUR_TO_THREE]


def test_in_process(recipe):
    folder = follow(recipe("in-process"))

    assert figures(Ledger(f"sqlite:///{folder / 'turnavoid.db'}")) == [THREE_TO_TWO]


@pytest.mark.parametrize("way", ["scraped", "pushed"])
def test_prometheus(recipe, way):
    placed = recipe("prometheus")
    prometheus = placed.prometheus()
    faster = {"interval: 15s": "interval: 1s"} if way == "pushed" else {}
    placed.processor(config=f"{way}.yaml", replace=faster)
    prometheus.until("sum(turnavoid_model_turns_avoided_total)", 0)

    follow(placed, placed.endpoints["TURNAVOID_HTTP"])

    prometheus.until("sum(turnavoid_model_turns_avoided_total)", 1)
    prometheus.until('sum(turnavoid_model_turns_avoided_total{turnavoid_arm="fused-batch"})', 1)
