"""Which runs are compared, and when that earns credit (``A…``: shared/pitfalls.md)."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from otel_turnavoid import input_digest
from otel_turnavoid.digest import canonical
from otel_turnavoid.testing import run_spans


def pair(bench, **options) -> list[tuple[int, int, int, str]]:
    """Send a control of three turns and a candidate of one, each with its own of the options."""
    for run_id, arm, turns in (("c", "control", 3), ("k", "fused-batch", 1)):
        own = {name: values[run_id == "k"] for name, values in options.items()}
        bench.traces(run_spans(run_id=run_id, arm=arm, turns=turns, **own))
    bench.observed("c", "k")
    return bench.pairs()


def test_a62_inputs_that_differ_behind_2000_characters_are_two_inputs(bench) -> None:
    start = "x" * 2000

    assert pair(bench, task=(start + "a", start + "b")) == []
    assert bench.outcomes() == {"c": "unpaired", "k": "unpaired"}


def test_a62_a_digest_that_a_limit_cut_is_refused(bench) -> None:
    """Both arms' are cut alike, to 32 characters."""
    cut = input_digest("the task")[:32]

    assert pair(bench, digest=(cut, cut)) == []
    assert {run.rejections for run in bench.runs().values()} == {("digest",)}
    assert bench.outcomes() == {"c": "rejected", "k": "rejected"}


def test_a64_clocks_and_the_order_of_keys_do_not_part_equal_inputs(bench) -> None:
    one = input_digest({"order": 42, "sent_at": "09:00"}, volatile=["input.sent_at"])
    other = input_digest({"sent_at": "17:30", "order": 42}, volatile=["input.sent_at"])

    assert pair(bench, digest=(one, other)) == [(2, 0, 0, "")]


def test_a64_another_version_of_the_form_is_another_input(bench) -> None:
    form = {"v": 2, "input": "the task", "state": None}
    newer = "sha256:" + sha256(canonical(form)).hexdigest()

    assert pair(bench, digest=(input_digest("the task"), newer)) == []


def test_a67_runs_without_a_partner_stand_beside_those_with_one(bench) -> None:
    """Ten controls, seven candidates."""
    for number in range(10):
        bench.traces(run_spans(run_id=f"c{number}", task=number + 1))
        bench.observed(f"c{number}")
    for number in range(7):
        bench.traces(run_spans(run_id=f"k{number}", arm="fused-batch", turns=2, task=number + 1))
        bench.observed(f"k{number}")

    assert bench.pairs() == [(1, 0, 0, "")] * 7
    assert Counter(bench.outcomes().values()) == {"paired": 14, "unpaired": 3}


def test_a68_stopping_early_without_the_effect_earns_nothing(bench) -> None:
    """The candidate says that it completed, and never booked the flight."""
    bench.traces(run_spans(run_id="c", turns=4))
    bench.traces(run_spans(run_id="k", arm="fused-batch", turns=2))
    bench.observed("c")
    bench.observed("k", labels=[])

    assert bench.pairs() == [(0, 2, 0, "effects-suppressed")]


def test_a65_two_controls_and_three_candidates_are_two_pairs(bench) -> None:
    for number in range(2):
        bench.traces(run_spans(run_id=f"c{number}"))
    for number in range(3):
        bench.traces(run_spans(run_id=f"k{number}", arm="fused-batch", turns=2))

    assert len(bench.pairs()) == 2
    assert Counter(bench.outcomes().values()) == {"paired": 4, "unpaired": 1}


def test_a66_runs_at_the_same_time_without_an_arm_are_not_compared(bench) -> None:
    for run_id in "ck":
        bench.traces(run_spans(run_id=run_id, arm=None, mechanism="control"))

    assert bench.pairs() == []
    assert {run.rejections for run in bench.runs().values()} == {("arm-missing",)}


def test_a69_no_required_effects_earn_nothing(bench) -> None:
    bench.traces(run_spans(run_id="c", turns=5))
    bench.traces(run_spans(run_id="k", arm="fused-batch", turns=1))
    bench.observed("c", "k", labels=[])

    assert bench.pairs() == [(0, 4, 0, "no-required-effects")]


def test_a70_turns_added_stand_beside_turns_avoided(bench) -> None:
    for task, before, after in (("one", 5, 3), ("two", 3, 6)):
        bench.traces(run_spans(run_id=f"c {task}", task=task, turns=before))
        bench.traces(run_spans(run_id=f"k {task}", arm="fused-batch", task=task, turns=after))
        bench.observed(f"c {task}", f"k {task}")

    assert sorted(bench.pairs()) == [(0, 0, 3, ""), (2, 0, 0, "")]
