"""SDK -> processor."""

from __future__ import annotations

import pytest
from harness.workload import Workload

pytestmark = pytest.mark.peers


def test_the_accounts_are_what_the_runs_imply(recipe, directly):
    accounts = directly(Workload(8))

    figures = ("potential", "avoided", "withheld", "added")
    assert [
        [pair["candidate"], pair["causes"], *(pair[figure] for figure in figures)]
        for pair in sorted(accounts["pairs"], key=lambda pair: pair["candidate"])
    ] == [
        ["exact-reuse-0", [], 2, 2, 0, 0],
        ["exact-reuse-1", ["effects-suppressed"], 1, 0, 1, 0],
        ["exact-reuse-2", [], 0, 0, 0, 1],
        ["exact-reuse-3", [], 0, 0, 0, 0],
        ["exact-reuse-4", [], 2, 2, 0, 0],
        ["exact-reuse-5", ["effects-suppressed"], 1, 0, 1, 0],
        ["exact-reuse-6", [], 0, 0, 0, 1],
        ["exact-reuse-7", [], 0, 0, 0, 0],
    ]


def test_a_sender_that_repeats_everything_changes_nothing(recipe, directly):
    direct = recipe("direct-again", folder="direct")
    sent = Workload()
    processor = direct.processor()

    sent.send(direct.endpoints["TURNAVOID_HTTP"])
    sent.send(direct.endpoints["TURNAVOID_HTTP"])
    direct.ledger().wait_for(sent.pairs, peers=[processor])

    assert direct.ledger().accounts() == directly(sent)
