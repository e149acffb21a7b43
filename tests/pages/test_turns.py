"""Series stand under each other, are never added, and are no more than a page holds."""

from __future__ import annotations

import re

from otel_turnavoid.judge.accounts import Posting
from otel_turnavoid.pages.by_series import BySeries, Name
from otel_turnavoid.pages.turns import causes, turns
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.vocabulary import Attr, Metric, WithheldCause


def labels(variant: str = "", **more: str) -> tuple[tuple[str, str], ...]:
    said = {Attr.ARM: "exact-reuse", Attr.EVIDENCE: "declared", **more}
    return tuple(sorted((said | ({Attr.VARIANT: variant} if variant else {})).items()))


def by_series(*postings: Posting, limit: int = 2000) -> BySeries:
    totals = Totals(limit=limit)
    for posting in postings:
        totals.add_posting(posting)
    return BySeries(totals.snapshot())


def test_figures_of_one_series_are_put_together_and_of_two_are_not():
    found = by_series(
        Posting(Metric.TURNS_AVOIDED, labels(**{Attr.MECHANISM: "exact-reuse"}), 2),
        Posting(Metric.TURNS_AVOIDED, labels(**{Attr.MECHANISM: "unknown"}), 3),
        Posting(Metric.TURNS_AVOIDED, labels("v2", **{Attr.MECHANISM: "unknown"}), 7),
    )

    plain, other = found.names(Metric.TURNS_AVOIDED)
    assert (plain.variant, other.variant) == ("", "v2")
    assert found.count(Metric.TURNS_AVOIDED, plain) == 5
    assert found.count(Metric.TURNS_AVOIDED, other) == 7
    assert found.count(Metric.TURNS_AVOIDED, plain, (Attr.MECHANISM, "unknown")) == 3


def test_arms_come_in_the_order_of_the_vocabulary():
    arms = ("fused-batch", "exact-reuse", "control")
    found = by_series(
        *(Posting(Metric.TURNS_COMMITTED, labels(**{Attr.ARM: arm}), 1) for arm in arms)
    )

    assert [name.arm for name in found.names(Metric.TURNS_COMMITTED)] == list(reversed(arms))


def test_what_an_instrument_had_no_room_for_is_not_lost():
    postings = (Posting(Metric.PAIRS_DECIDED, labels(f"v{each}"), 1) for each in range(5))
    found = by_series(*postings, limit=3)

    names = found.names(Metric.PAIRS_DECIDED)
    assert names[-1] == Name("further variants", "", "", "")
    assert sum(found.count(Metric.PAIRS_DECIDED, name) for name in names) == 5


def test_a_page_shows_some_tens_of_series_and_says_how_many_more_there_are():
    cause = {Attr.WITHHELD_CAUSE: WithheldCause.SAMPLED.value}
    found = by_series(
        *(Posting(Metric.PAIRS_DECIDED, labels(f"v{each:03}"), 1) for each in range(120)),
        *(Posting(Metric.TURNS_WITHHELD, labels(f"v{each:03}", **cause), 1) for each in range(120)),
    )

    for page in (turns(found), causes(found)):
        assert len(re.findall(r"<tr", page)) == 1 + 50
        assert "… and 70 more" in page
