"""The largest pairs: by each kind, the same for any order."""

from __future__ import annotations

import io
import random
from pathlib import Path

import msgspec

from otel_turnavoid.ledger import decode, fold, replay
from otel_turnavoid.publish.largest import ADDED, AVOIDED, WITHHELD, Watch, largest

WITNESS = Path(__file__).parents[2] / "examples" / "witness.jsonl"


def test_pairs_are_sorted_by_kind_and_size_and_those_without_a_difference_left_out(
    verdicts,
) -> None:
    small, big = verdicts.pair(3, 2), verdicts.pair(9, 2)
    lost, more = verdicts.pair(9, 1, effects=()), verdicts.pair(2, 4)
    same = verdicts.pair(3, 3)

    found = largest([small, lost, same, more, big])

    assert [(each.kind, each.pairs) for each in found] == [
        (AVOIDED, (big, small)),
        (WITHHELD, (lost,)),
        (ADDED, (more,)),
    ]


def test_equal_ones_are_chosen_by_run_id_whatever_the_order(verdicts) -> None:
    pairs = [verdicts.pair(5, 2) for _ in range(8)]
    shuffled = random.Random(3).sample(pairs, len(pairs))

    assert largest(shuffled) == largest(pairs)
    assert len(largest(pairs)[0].pairs) == 3


def test_watched_rows_pass_unchanged() -> None:
    rows = list(decode(io.BytesIO(WITNESS.read_bytes())))

    assert list(Watch().through(iter(rows))) == rows


def test_watched_rows_earn_what_the_fold_gives_them() -> None:
    for strict in (False, True):
        watch = Watch(strict=strict, most=100)
        with WITNESS.open("rb") as stream:
            report = replay(stream, strict=strict, through=watch.through)

        rows = [row for each in watch.largest() for row in each.rows]
        assert sum(row.avoided for row in rows) == sum(
            arm.realized_turns_avoided for arm in report.arms
        )
        assert sum(row.withheld for row in rows) == sum(arm.withheld_turns for arm in report.arms)
        assert sum(row.added for row in rows) == sum(arm.turns_added for arm in report.arms)


def test_a_strict_watch_gives_no_credit_where_no_effect_was_required() -> None:
    body = WITNESS.read_bytes().replace(b'["answer:return-window"]', b"[]")
    rows = list(decode(io.BytesIO(body)))
    watch = Watch(strict=True, most=100)
    report = fold(watch.through(iter(rows)), strict=True)

    withheld = {each.kind: each.rows for each in watch.largest()}[WITHHELD]
    assert sum(row.withheld for row in withheld) == sum(arm.withheld_turns for arm in report.arms)
    assert msgspec.to_builtins(withheld[0].row)["lifecycle"] == "counterfactual_only"
