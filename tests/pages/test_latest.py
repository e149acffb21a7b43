"""Looking for the latest pairs reads no more than it may."""

from __future__ import annotations

import pytest

from otel_turnavoid.pages.asked import Asked
from otel_turnavoid.pages.latest import latest
from otel_turnavoid.vocabulary import Arm


@pytest.fixture
def many(empty):
    """Twelve pairs; the one of an early fused-batch is rare."""
    empty.run("c-rare", turns=3, task="rare")
    empty.run("k-rare", "fused-batch", 2, task="rare")
    empty.decide()
    for number in range(11):
        empty.run(f"c{number}", turns=3, task=number)
        empty.run(f"k{number}", "exact-reuse", 2, task=number)
    empty.decide()
    return empty


RARE = Asked(arm=Arm.FUSED_BATCH)


def test_a_rare_pair_is_found_within_what_may_be_read(many):
    found = latest(many.ledger, RARE, shown=5, most=12)

    assert [record.number for record in found.records] == [many.number("k-rare")]
    assert found.looked_at == 12


def test_what_is_too_far_back_is_left_for_the_next_page(many):
    first = latest(many.ledger, RARE, shown=5, most=7)
    second = latest(many.ledger, RARE._replace(before=first.before), shown=5, most=7)

    assert (first.records, first.looked_at) == ((), 7)
    assert [record.number for record in second.records] == [many.number("k-rare")]
    assert (second.before, second.looked_at) == (None, 5)


def test_without_a_choice_no_more_is_read_than_shown(many, monkeypatch):
    asked = []
    read = many.ledger.latest_pairs

    def counted(self, before=None, *, most):
        asked.append(most)
        return read(before, most=most)

    monkeypatch.setattr(type(many.ledger), "latest_pairs", counted)
    found = latest(many.ledger, Asked(), shown=5)

    assert (len(found.records), asked) == (5, [6])


def test_pages_together_are_all_pairs_once(many):
    numbers, asked = [], Asked()
    while True:
        found = latest(many.ledger, asked, shown=5)
        numbers += [record.number for record in found.records]
        if found.before is None:
            break
        asked = asked._replace(before=found.before)

    assert numbers == sorted(set(numbers), reverse=True)
    assert len(numbers) == 12


@pytest.mark.parametrize("shown", [3, 4, 6, 12])
def test_the_last_page_says_that_it_is_the_last(many, shown):
    asked, pages = Asked(), 0
    while (found := latest(many.ledger, asked, shown=shown)).before is not None:
        asked, pages = asked._replace(before=found.before), pages + 1

    assert pages == 12 // shown - 1
