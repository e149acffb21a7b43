"""Real programs beside the processor, each on free ports and in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.peer import Peers
from harness.recipe import Recipe
from harness.workload import Workload


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[Peers]:
    running = Peers(tmp_path)
    yield running
    running.end()


@pytest.fixture
def recipe(peers: Peers) -> Callable[[str], Recipe]:
    return lambda name, folder=None: Recipe(name, peers, folder)


@pytest.fixture
def directly(recipe: Callable[[str], Recipe]) -> Callable[..., dict[str, Any]]:
    """Send workloads straight to a processor and return its accounts: what any way must give."""

    def send(*workloads: Workload) -> dict[str, Any]:
        direct = recipe("direct")
        ledger = direct.ledger()
        processor = direct.processor(ledger)
        for each in workloads:
            each.send(direct.endpoints["TURNAVOID_HTTP"])
        ledger.wait_for(sum(each.pairs for each in workloads), peers=[processor])
        assert processor.stop() == 0
        return ledger.accounts()

    return send
