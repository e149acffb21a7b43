"""Series of pairs: what is kept apart, what enters the mean, and what a reader is told."""

from __future__ import annotations

import pytest

from otel_turnavoid.judge.run import Key
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.publish.conclusion import Conclusion
from otel_turnavoid.publish.sections import Live, conclusions
from otel_turnavoid.publish.series import Finding, floor_of, series
from otel_turnavoid.vocabulary import Arm, Comparison, Evidence, Lifecycle, WithheldCause


def finding_of(pairs: list[PairDecided], *nulls: object) -> Finding:
    ((found,), _) = series(pairs, nulls)  # type: ignore[arg-type]
    return found.finding


def test_arm_variant_evidence_and_comparison_each_make_a_series(verdicts) -> None:
    settings = Settings(accept=frozenset(Evidence), any_model=True)
    pairs = [
        verdicts.pair(3, 1),
        verdicts.pair(3, 1, variant="b"),
        verdicts.pair(3, 1, arm=Arm.FUSED_BATCH),
        verdicts.pair(3, 1, evidence=Evidence.INFERRED, settings=settings),
        verdicts.pair(3, 1, models=("other",), settings=settings),
    ]

    found, _ = series(pairs, [])

    assert [(one.arm, one.variant, one.evidence, one.comparison, one.pairs) for one in found] == [
        ("exact-reuse", None, "declared", None, 1),
        ("exact-reuse", None, "declared", Comparison.CROSS_MODEL, 1),
        ("exact-reuse", None, "inferred", None, 1),
        ("exact-reuse", "b", "declared", None, 1),
        ("fused-batch", None, "declared", None, 1),
    ]


def test_counts_are_of_all_pairs_and_the_mean_of_those_without_a_cause(verdicts) -> None:
    pairs = [
        verdicts.pair(5, 2, task=1),
        verdicts.pair(4, 5, task=2),
        verdicts.pair(9, 1, task=3, effects=()),
        verdicts.pair(3, 7, task=4, lifecycle=Lifecycle.ATTEMPTED),
    ]

    ((found,), _) = series(pairs, [])

    assert (found.pairs, found.avoided, found.added, found.net) == (4, 3, 5, -2)
    assert (found.withheld, found.withheld_share) == (8, 8 / 11)
    assert found.causes == {WithheldCause.EFFECTS_SUPPRESSED: 8}
    assert (found.per_pair.pairs, found.per_pair.mean, found.added_in_mean) == (2, 1.0, 1)


def test_a_series_is_held_against_the_noise_of_its_own_evidence(verdicts) -> None:
    nulls = [verdicts.null(4, 3), verdicts.null(4, 9, evidence=Evidence.INFERRED)]

    ((one,), floors) = series([verdicts.pair(3, 1)], nulls)

    assert [(null.evidence, null.avoided, null.added, null.net) for null in floors] == [
        ("declared", 1, 0, 1),
        ("inferred", 0, 5, -5),
    ]
    assert floor_of(one, floors) == floors[0]


def test_an_interval_that_includes_0_is_no_effect_however_many_turns_were_avoided(verdicts) -> None:
    turns = [(9, 1), (1, 9), (8, 1), (2, 8), (5, 4)]
    pairs = [verdicts.pair(*each, task=task) for task, each in enumerate(turns)]

    ((found,), _) = series(pairs, [])

    assert (found.avoided, found.added) == (16, 14)
    assert found.finding is Finding.NO_EFFECT_SEEN


def test_an_interval_above_0_and_above_the_noise_is_fewer_turns(verdicts) -> None:
    pairs = [verdicts.pair(5 + task % 2, 2, task=task) for task in range(6)]

    assert finding_of(pairs) is Finding.FEWER_TURNS
    assert finding_of(pairs, verdicts.null(4, 3)) is Finding.FEWER_TURNS


def test_no_more_avoided_than_equal_controls_avoid_is_within_noise(verdicts) -> None:
    pairs = [verdicts.pair(5 + task % 2, 2, task=task) for task in range(6)]

    assert finding_of(pairs, verdicts.null(9, 1)) is Finding.WITHIN_NOISE


def test_an_interval_below_0_is_more_turns(verdicts) -> None:
    pairs = [verdicts.pair(2, 5 + task % 2, task=task) for task in range(6)]

    assert finding_of(pairs) is Finding.MORE_TURNS


def test_without_an_interval_nothing_is_decided(verdicts) -> None:
    assert finding_of([verdicts.pair(5, 2)]) is Finding.UNDECIDED


def test_where_nothing_differs_there_is_no_effect(verdicts) -> None:
    pairs = [verdicts.pair(4, 4, task=task) for task in range(3)]

    assert finding_of(pairs) is Finding.NO_EFFECT_SEEN


def test_counts_come_before_the_finding_and_the_noise_after_it(verdicts) -> None:
    turns = [(9, 1), (1, 9), (8, 1), (2, 8), (4, 4)]
    pairs = [verdicts.pair(*each, task=task, variant="b") for task, each in enumerate(turns)]
    withheld = verdicts.pair(9, 1, task=9, variant="b", effects=())

    found = list(conclusions(Live((*pairs, withheld), (verdicts.null(6, 2),), 0)))

    # 8 - 8 + 7 - 6 + 0 = 1 over five: mean 0.2, variance 53.2, and t(4) = 2.776.
    assert found == [
        Conclusion(
            name="exact-reuse (b, declared evidence)",
            counts=(
                "6 pairs: 15 avoided, 14 added, net +1; 8 withheld.",
                "Of these 5 pairs without a cause to withhold: 15 avoided, 14 added, net +1.",
            ),
            finding=(
                "No effect seen: +0.20 turns saved per pair, and the 95% interval,"
                " -8.86 to +9.26, includes 0."
            ),
            cautions=(
                "1 of 6 pairs (17%) with a cause to withhold is not in the mean.",
                "5 independent groups are few: an effect could be there and not be seen.",
                (
                    'By chance, equal controls (1 pair) "avoid" 4.00 turns per pair; these pairs'
                    " avoid 3.00, not above that."
                ),
            ),
            kind=Finding.NO_EFFECT_SEEN,
        )
    ]


@pytest.mark.parametrize(
    ("turns", "line"),
    [
        ([(5, 2)], ("on average +3.00 turns saved per pair, but all of one input or unit; an"
                   " interval needs at least two.")),
        ([(5, 2), (6, 3)], ("on average +3.00 turns saved per pair, the same in all 2 independent"
                           " groups; without any spread there is no interval.")),
    ],
)  # fmt: skip
def test_why_there_is_no_interval_is_said(
    verdicts, turns: list[tuple[int, int]], line: str
) -> None:
    pairs = tuple(verdicts.pair(*each, task=task) for task, each in enumerate(turns))

    (found,) = conclusions(Live(pairs, (), 0))

    assert found.finding == f"Not decided: {line}"


def test_a_series_without_a_pair_that_counts_says_so(verdicts) -> None:
    (found,) = conclusions(Live((verdicts.pair(5, 2, effects=()),), (), 0))

    assert (*found.counts, found.finding, *found.cautions) == (
        "1 pair: 0 avoided, 0 added, net 0; 3 withheld.",
        "Not decided: every pair has a cause to withhold, so there is no mean.",
        "1 of 1 pair (100%) with a cause to withhold is not in the mean.",
        "The noise is unknown: no two control runs of one input were compared.",
    )


def test_controls_that_differ_among_themselves_are_a_warning(verdicts) -> None:
    nulls = tuple(verdicts.null(5 + task % 2, 2, task=task) for task in range(6))

    (found,) = conclusions(Live((verdicts.pair(5, 2),), nulls, 0))

    assert found.cautions[-1] == (
        "The controls differ among themselves (their interval does not include 0): chance, or"
        " something else changed between the runs."
    )


@pytest.mark.usefixtures("without_scipy")
def test_without_scipy_everything_but_the_interval_is_said(verdicts) -> None:
    pairs = tuple(verdicts.pair(5, 2 - task, task=task) for task in range(2))

    (found,) = conclusions(Live(pairs, (), 0))

    assert (*found.counts, found.finding) == (
        "2 pairs: 7 avoided, 0 added, net +7; 0 withheld.",
        (
            "Not decided: on average +3.50 turns saved per pair; no interval, because SciPy is not"
            " installed."
        ),
    )


def test_what_a_variant_is_called_cannot_speak_to_a_terminal(verdicts) -> None:
    (found,) = conclusions(Live((verdicts.pair(5, 2, variant="a\x1b[31m"),), (), 0))

    assert found.name == r"exact-reuse (a\x1b[31m, declared evidence)"


def test_pairs_of_one_unit_count_once(verdicts) -> None:
    pairs = [
        verdicts.pair(5, 2 + turn, key=Key("", f"sha256:{turn:064x}", "customer", turn))
        for turn in range(3)
    ]

    ((found,), _) = series(pairs, [])

    assert (found.per_pair.pairs, found.per_pair.groups) == (3, 1)
