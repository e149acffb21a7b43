"""Accounts of the whole ledger, counted once and then as it grows."""

from __future__ import annotations

from otel_turnavoid.pages.counting import Counting
from otel_turnavoid.publish.totals import Totals


def fold(ledger):
    totals = Totals()
    for _, decision in ledger.decisions():
        totals.add(decision)
    return totals.snapshot()


def test_counting_in_steps_is_counting_at_once(shop):
    counting = Counting(shop.ledger)
    counting.read_on()
    shop.run("c-late", turns=6, task="late")
    shop.run("k-late", "exact-reuse", 1, task="late")
    shop.decide()
    counting.read_on()
    counting.read_on()

    found = counting.counted()
    assert found.snapshot == fold(shop.ledger)
    assert found.decisions == found.of == shop.ledger.last_decision()
    assert found.whole


def test_before_counting_nothing_is_counted_and_nothing_lacks(shop):
    found = Counting(shop.ledger).counted()

    assert (found.decisions, found.of, found.contradicted) == (0, 0, 0)


def test_what_is_closed_counts_no_further(shop):
    counting = Counting(shop.ledger)
    counting.close()
    counting.read_on()

    found = counting.counted()
    assert (found.decisions, found.whole) == (0, False)
