"""Totals: what a fold of postings holds, whatever their order."""

from __future__ import annotations

import math
import sys
import threading
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.errors import UsageError
from otel_turnavoid.judge.accounts import Posting, known, postings
from otel_turnavoid.judge.facts import Retained, Usage
from otel_turnavoid.judge.run import Batch, Key, Run, Work
from otel_turnavoid.judge.settings import RunLabel, Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided, RunDecided
from otel_turnavoid.publish.reference import LABEL_VALUES
from otel_turnavoid.publish.totals import (
    CARDINALITY_LIMIT,
    OVERFLOW,
    REAL_UNITS,
    Distribution,
    Series,
    Totals,
)
from otel_turnavoid.vocabulary import (
    INSTRUMENTS,
    Account,
    Arm,
    Evidence,
    Instrument,
    InvokeState,
    Kind,
    Lifecycle,
    Mechanism,
    Metric,
    Outcome,
    Reason,
    WithheldCause,
)

DECLARED = (("turnavoid.evidence", "declared"),)
INFERRED = (("turnavoid.evidence", "inferred"),)
REUSE = (("turnavoid.arm", "exact-reuse"), *DECLARED)
ARMED = (Metric.TURNS_ADDED, Metric.TOOL_BATCH_SIZE, Metric.SAVED_DURATION, Metric.WORK_COST)


def run(number: int, arm: Arm = Arm.EXACT_REUSE, **changes: object) -> Run:
    candidate = arm is not Arm.CONTROL
    fields = {
        "run_id": f"run-id-{number}",
        "evidence": Evidence.DECLARED,
        "arm": arm,
        "variant": None,
        "key": Key(f"experiment-{number}", f"sha256:{number:064x}", f"unit-{number}", number),
        "ended": True,
        "state": InvokeState.COMPLETED,
        "start_ns": 1,
        "end_ns": 2,
        "mechanism": Mechanism.EXACT_REUSE if candidate else Mechanism.CONTROL,
        "lifecycle": Lifecycle.REALIZED,
        "reason": Reason.EXACT_MATCH if candidate else Reason.BASELINE,
        "decision_basis": -1,
        "model_turns": 1 if candidate else 3,
        "llm_calls": 3,
        "tool_calls": 2,
        "usage": Usage(input=100, output=10),
        "rejections": (),
        "causes": (),
        "problems": (),
        "models": (f"model-{number}",),
        "scopes": ("otel_turnavoid",),
        "identities": ((f"service-{number}", f"instance-{number}"),),
        "observations": (),
        "work": Work(model_ms=200.0, tool_ms=50.0, model_usd=0.5, validation_ms=20.0),
        "retained": Retained(tokens=128, latency_ms=30.0) if candidate else None,
        "batches": (Batch(2, 1),),
        "speculation": (("discarded", 1),),
        "agent": f"agent-{number}",
        "trace_ids": (f"{number:032x}",),
    }
    return Run(**{**fields, **changes})


def pair(number: int, *, causes: tuple[WithheldCause, ...] = ()) -> PairDecided:
    withheld = bool(causes)
    return PairDecided(
        control=run(number, Arm.CONTROL),
        candidate=run(number + 1_000_000),
        potential=2,
        avoided=0 if withheld else 2,
        withheld=2 if withheld else 0,
        added=0,
        causes=causes,
        observer=f"observer-{number}",
        control_effects=(f"order:{number}=cancelled",),
        candidate_effects=(f"order:{number}=cancelled",),
        preserved=1,
        suppressed=0,
    )


def journal(number: int) -> list[PairDecided | NullDecided | RunDecided]:
    causes = (WithheldCause.SAMPLED,) if number % 2 else ()
    decided = pair(number, causes=causes)
    return [
        decided,
        RunDecided(run=decided.control, outcome=Outcome.PAIRED),
        RunDecided(run=decided.candidate, outcome=Outcome.PAIRED),
        NullDecided(first=decided.control, second=decided.control, avoided=1, added=0),
    ]


def amounts(instrument: Instrument) -> st.SearchStrategy[float]:
    if instrument.unit not in REAL_UNITS:
        return st.integers(0, 10**9)
    lowest = -1e12 if instrument.kind is Kind.UP_DOWN else 0.0
    return st.floats(lowest, 1e12, allow_nan=False)


@st.composite
def any_posting(draw: st.DrawFn, instruments: tuple[Instrument, ...] = INSTRUMENTS) -> Posting:
    instrument = draw(st.sampled_from(instruments))
    values = {key: LABEL_VALUES[key] or ("one", "other") for key in instrument.labels}
    labels = {key: str(draw(st.sampled_from(of_key))) for key, of_key in values.items()}
    return Posting(instrument, tuple(sorted(labels.items())), draw(amounts(instrument)))


def folded(found: list[Posting]) -> Totals:
    totals = Totals()
    for posting in found:
        totals.add_posting(posting)
    return totals


def test_things_are_counted_in_whole_numbers() -> None:
    totals = folded(
        [Posting(Metric.NULL_PAIRS, DECLARED, 2), Posting(Metric.NULL_PAIRS, DECLARED, 3.0)]
    )

    value = totals.snapshot().value(Metric.NULL_PAIRS, DECLARED)

    assert (value, type(value)) == (5, int)


def test_a_sum_beyond_64_bits_is_the_largest_that_otlp_has() -> None:
    """One absurd figure must not keep every other from being published."""
    totals = folded([Posting(Metric.NULL_PAIRS, DECLARED, 2**63 - 1)] * 2)

    assert totals.snapshot().value(Metric.NULL_PAIRS, DECLARED) == 2**63 - 1


def test_ten_tenths_of_a_second_are_one_second() -> None:
    totals = folded([Posting(Metric.RETAINED_LATENCY, REUSE, 0.1)] * 10)

    assert totals.snapshot().value(Metric.RETAINED_LATENCY, REUSE) == 1.0


def test_an_up_down_sum_falls() -> None:
    labels = (*REUSE[:1], ("turnavoid.basis", "net"), *DECLARED)
    totals = folded([Posting(Metric.SAVED_DURATION, labels, amount) for amount in (1.5, -4.0)])

    assert totals.snapshot().value(Metric.SAVED_DURATION, labels) == -2.5


def test_an_observation_falls_into_the_bucket_whose_upper_bound_it_does_not_exceed() -> None:
    totals = folded([Posting(Metric.TOOL_BATCH_SIZE, REUSE, size) for size in (1, 2, 5, 6, 33)])

    assert totals.snapshot().series(Metric.TOOL_BATCH_SIZE) == (
        Series(REUSE, Distribution((1, 1, 0, 0, 2, 0, 0, 0, 0, 0, 1), 47)),
    )
    assert Metric.TOOL_BATCH_SIZE.bounds[4] == 6.0


def test_the_count_of_a_distribution_is_that_of_its_buckets() -> None:
    assert Distribution((1, 0, 2), 9).count == 3


def test_a_sum_beyond_the_range_of_floats_stays_finite() -> None:
    totals = folded([Posting(Metric.RETAINED_LATENCY, REUSE, sys.float_info.max)] * 3)

    assert totals.snapshot().value(Metric.RETAINED_LATENCY, REUSE) == sys.float_info.max


@given(
    st.lists(any_posting(ARMED), max_size=30).flatmap(
        lambda found: st.tuples(st.just(found), st.permutations(found))
    )
)
def test_any_order_of_postings_gives_the_same_totals(
    orders: tuple[list[Posting], list[Posting]],
) -> None:
    first, second = orders

    assert folded(first).snapshot() == folded(second).snapshot()


@given(st.lists(any_posting(), max_size=30))
def test_what_was_posted_is_what_the_series_hold(found: list[Posting]) -> None:
    snapshot = folded(found).snapshot()

    for instrument in INSTRUMENTS:
        posted = [posting.value for posting in found if posting.instrument is instrument]
        values = [series.value for series in snapshot.series(instrument)]
        if instrument.kind is Kind.HISTOGRAM:
            assert sum(value.count for value in values) == len(posted)
            values = [value.sum for value in values]
        if instrument.unit in REAL_UNITS:
            assert math.isclose(
                sum(map(Fraction, values)), sum(map(Fraction, posted)), abs_tol=1e-3
            )
        else:
            assert sum(values) == sum(posted)


@given(st.lists(any_posting(), max_size=10), any_posting())
def test_a_posting_changes_no_series_of_another_instrument(
    before: list[Posting], posting: Posting
) -> None:
    totals = folded(before)
    kept = totals.snapshot()

    totals.add_posting(posting)

    assert [
        family for family in totals.snapshot().families if family.instrument != posting.instrument
    ] == [family for family in kept.families if family.instrument != posting.instrument]


@given(st.lists(any_posting((Metric.RETAINED_LATENCY, Metric.TURNS_AVOIDED)), max_size=20))
def test_a_counter_never_falls(found: list[Posting]) -> None:
    totals = Totals()
    seen: dict[object, float] = {}

    for posting in found:
        totals.add_posting(posting)
        for family in totals.snapshot().families:
            for series in family.series:
                key = (family.instrument, series.labels)
                assert series.value >= seen.get(key, 0)
                seen[key] = series.value


def test_every_instrument_of_the_vocabulary_exists_at_0_from_the_start() -> None:
    snapshot = Totals(known(Settings())).snapshot()

    assert [family.instrument.name for family in snapshot.families if not family.series] == []
    values = {series.value for family in snapshot.families for series in family.series}
    assert {value for value in values if not isinstance(value, Distribution)} == {0}
    observed = {value.count for value in values if isinstance(value, Distribution)}
    assert observed == {0}


def test_a_known_histogram_starts_without_an_observation() -> None:
    totals = Totals([Posting(Metric.TOOL_BATCH_SIZE, REUSE, 0)])

    assert totals.snapshot().value(Metric.TOOL_BATCH_SIZE, REUSE) == Distribution((0,) * 11, 0)


def test_decisions_of_known_labels_add_no_series() -> None:
    totals = Totals(known(Settings()))
    before = labels_of(totals)

    for decision in journal(0):
        totals.add(decision)

    assert labels_of(totals) - before == set()


def labels_of(totals: Totals) -> set[tuple[Instrument, object]]:
    return {
        (family.instrument, series.labels)
        for family in totals.snapshot().families
        for series in family.series
    }


def test_runs_with_ids_of_their_own_share_their_series() -> None:
    one, many = Totals(), Totals()
    for number in range(2):
        for decision in journal(number):
            one.add(decision)
    for number in range(100):
        for decision in journal(number):
            many.add(decision)

    assert labels_of(many) == labels_of(one)


def test_no_label_value_lies_outside_the_closed_sets() -> None:
    totals = Totals(known(Settings(accept=frozenset(Evidence))))
    for number in range(4):
        for decision in journal(number):
            totals.add(decision)

    assert {
        (key, value)
        for _, labels in labels_of(totals)
        for key, value in labels
        if value not in LABEL_VALUES[key]
    } == set()


def test_potential_is_avoided_and_withheld_after_every_decision() -> None:
    totals, potential = Totals(), 0

    for number in range(5):
        for decision in journal(number):
            totals.add(decision)
        potential += 2
        snapshot = totals.snapshot()
        assert potential == sum(
            series.value
            for instrument in (Metric.TURNS_AVOIDED, Metric.TURNS_WITHHELD)
            for series in snapshot.series(instrument)
        )


def test_tokens_time_and_tools_of_a_run_move_no_series_of_turns() -> None:
    plain, changed = (
        run(1),
        run(
            1,
            usage=Usage(input=7),
            tool_calls=9,
            work=Work(model_ms=1.0),
            batches=(),
            speculation=(),
        ),
    )
    totals = []
    for each in (plain, changed):
        totals.append(Totals())
        totals[-1].add(RunDecided(run=each, outcome=Outcome.PAIRED))

    first, second = (turns_of(each) for each in totals)

    assert first == second


def turns_of(totals: Totals) -> list[object]:
    families = totals.snapshot().families
    return [family for family in families if family.instrument.account is Account.TURNS]


def test_the_same_journal_folded_after_a_restart_gives_the_same_totals() -> None:
    snapshots = []
    for _ in range(2):
        totals = Totals(known(Settings()))
        for number in range(3):
            for decision in journal(number):
                totals.add(decision)
        snapshots.append(totals.snapshot())

    assert snapshots[0] == snapshots[1]


def test_families_stand_in_the_order_of_the_vocabulary_and_series_in_that_of_labels() -> None:
    totals = folded(
        [Posting(Metric.NULL_PAIRS, INFERRED, 1), Posting(Metric.NULL_PAIRS, DECLARED, 2)]
    )

    snapshot = totals.snapshot()

    assert tuple(family.instrument for family in snapshot.families) == INSTRUMENTS
    assert snapshot.series(Metric.NULL_PAIRS) == (Series(DECLARED, 2), Series(INFERRED, 1))


def test_a_snapshot_does_not_change() -> None:
    totals = folded([Posting(Metric.NULL_PAIRS, DECLARED, 1)])
    snapshot = totals.snapshot()

    totals.add_posting(Posting(Metric.NULL_PAIRS, DECLARED, 1))

    assert snapshot.value(Metric.NULL_PAIRS, DECLARED) == 1


def test_an_absent_series_has_no_value() -> None:
    assert Totals().snapshot().value(Metric.NULL_PAIRS, DECLARED) is None


def variant(name: str, amount: int = 1) -> Posting:
    return Posting(Metric.TURNS_ADDED, (*REUSE, ("turnavoid.variant", name)), amount)


def test_sets_beyond_the_limit_share_one_series_and_known_sets_keep_their_own() -> None:
    totals = Totals(limit=3)

    for name in ("a", "b", "c", "d", "a"):
        totals.add_posting(variant(name))

    assert totals.snapshot().series(Metric.TURNS_ADDED) == (
        Series(variant("a").labels, 2),
        Series(variant("b").labels, 1),
        Series(OVERFLOW, 2),
    )


def test_the_limit_counts_for_each_instrument_by_itself() -> None:
    totals = Totals(limit=2)

    totals.add_posting(variant("a"))
    totals.add_posting(variant("b"))
    totals.add_posting(Posting(Metric.NULL_PAIRS, DECLARED, 1))

    assert totals.snapshot().series(Metric.NULL_PAIRS) == (Series(DECLARED, 1),)


def test_an_instrument_has_at_most_2000_series() -> None:
    totals = folded([variant(f"{number:04d}") for number in range(2100)])

    series = totals.snapshot().series(Metric.TURNS_ADDED)

    assert CARDINALITY_LIMIT == 2000
    assert len(series) == 2000
    assert series[-1] == Series(OVERFLOW, 101)


def test_a_limit_below_1_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^the cardinality limit must be at least 1 \(got 0\)$"):
        Totals(limit=0)


FOREIGN = Metric.NULL_PAIRS._replace(name="turnavoid.foreign")


@pytest.mark.parametrize(
    ("posting", "problem"),
    [
        (
            Posting(Metric.NULL_PAIRS, DECLARED, -1),
            "turnavoid.null.pairs: a counter never falls (got -1)",
        ),
        (
            Posting(Metric.TOOL_BATCH_SIZE, REUSE, -2),
            "turnavoid.tool_batch.size: a histogram never falls (got -2)",
        ),
        (
            Posting(Metric.NULL_PAIRS, DECLARED, 1.5),
            "turnavoid.null.pairs: {pair} are counted whole (got 1.5)",
        ),
        (
            Posting(Metric.RETAINED_LATENCY, REUSE, math.nan),
            "turnavoid.retained_turns.latency_reduced: an amount must be finite (got nan)",
        ),
        (
            Posting(Metric.NULL_PAIRS, (*DECLARED, ("turnavoid.run.id", "r1")), 1),
            (
                "turnavoid.null.pairs: turnavoid.run.id is no label of it"
                " (labels: turnavoid.evidence, turnavoid.comparison)"
            ),
        ),
        (
            Posting(Metric.TURNS_ADDED, REUSE[::-1], 1),
            (
                "turnavoid.model_turns.added: labels must be sorted and unique"
                " (got turnavoid.evidence, turnavoid.arm)"
            ),
        ),
        (Posting(FOREIGN, DECLARED, 1), "turnavoid.foreign: no instrument of the vocabulary"),
    ],
)
def test_a_posting_that_does_not_fit_its_instrument_is_refused(
    posting: Posting, problem: str
) -> None:
    with pytest.raises(UsageError) as refused:
        Totals().add_posting(posting)

    assert str(refused.value) == problem


@pytest.mark.parametrize(
    "wrong",
    [Posting(Metric.NULL_PAIRS, DECLARED, -1), Posting(Metric.NULL_PAIRS, (("other", "x"),), 1)],
)
def test_a_wrong_posting_adds_nothing_of_those_beside_it(wrong: Posting) -> None:
    totals = folded([Posting(Metric.NULL_PAIRS, DECLARED, 1)])

    with pytest.raises(UsageError):
        totals.add_postings([Posting(Metric.NULL_PAIRS, DECLARED, 5), wrong])

    assert totals.snapshot().value(Metric.NULL_PAIRS, DECLARED) == 1


def test_no_reader_sees_half_a_decision() -> None:
    totals, done = Totals(), threading.Event()
    both = [Posting(Metric.NULL_AVOIDED, DECLARED, 1), Posting(Metric.NULL_ADDED, DECLARED, 1)]
    torn = []

    def read() -> None:
        while not done.is_set():
            snapshot = totals.snapshot()
            values = [snapshot.value(each.instrument, DECLARED) for each in both]
            if values[0] != values[1]:
                torn.append(values)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(500):
        totals.add_postings(both)
    done.set()
    reader.join()

    assert torn == []
    assert totals.snapshot().value(Metric.NULL_ADDED, DECLARED) == 500


def test_a_decision_adds_its_postings() -> None:
    totals = Totals()
    for decision in journal(1):
        totals.add(decision)

    posted = [posting for decision in journal(1) for posting in postings(decision)]
    assert totals.snapshot() == folded(posted).snapshot()


def test_configured_labels_split_series_up_to_the_limit() -> None:
    totals = Totals(named=(RunLabel.EXPERIMENT,), limit=3)
    for number in range(5):
        totals.add(RunDecided(run=run(number), outcome=Outcome.UNPAIRED))

    def labels(experiment):
        named = ("turnavoid.experiment.id", experiment)
        return (*DECLARED, named, ("turnavoid.outcome", "unpaired"))

    assert totals.snapshot().series(Metric.RUNS_OBSERVED) == (
        Series(labels("experiment-0"), 1),
        Series(labels("experiment-1"), 1),
        Series(OVERFLOW, 3),
    )


@given(st.lists(any_posting(), max_size=40), st.integers(0, 40))
def test_totals_that_go_on_from_saved_ones_are_those_of_everything(
    found: list[Posting], cut: int
) -> None:
    whole, first, second = Totals(), Totals(), Totals()
    whole.add_postings(found)
    first.add_postings(found[:cut])
    second.resume(first.save())
    second.add_postings(found[cut:])

    assert second.snapshot() == whole.snapshot()


def test_saved_totals_keep_the_overflow_apart() -> None:
    totals = Totals(limit=2)
    for arm in ("exact-reuse", "fused-batch", "control"):
        labels = (("turnavoid.arm", arm), *DECLARED)
        totals.add_posting(Posting(Metric.TURNS_ADDED, labels, 1))
    again = Totals(limit=2)

    again.resume(totals.save())

    assert again.snapshot() == totals.snapshot()


@pytest.mark.parametrize("saved", [b"", b"{}", b'[["none",[],["0x1"]]]', b'[["a",[],["x"]]]'])
def test_what_totals_do_not_save_is_refused(saved: bytes) -> None:
    with pytest.raises(UsageError, match="saved totals cannot be read"):
        Totals().resume(saved)
