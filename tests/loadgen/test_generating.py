"""Loads are functions of their plan, and look like any run of the contract."""

from __future__ import annotations

from collections import Counter

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import UsageError
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.loadgen import Accounts, Plan, Spread, shipments
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.vocabulary import Arm

EVERYTHING = Plan(
    seed=7,
    runs=400,
    turns=Spread(2, 6),
    candidate_turns=Spread(1, 5),
    experiment="sizing",
    units=5,
    foreign=0.5,
    duplicates=0.3,
    lost=0.02,
    failed=0.1,
    suppressed=0.1,
    unobserved=0.1,
    batch=7,
)


def spans(export):
    return [
        span
        for resource_spans in ExportTraceServiceRequest.FromString(export.body).resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def traces(plan):
    return [
        export
        for shipment in shipments(plan)
        for export in shipment.exports
        if export.signal == "traces"
    ]


def accounted(plan, tmp_path):
    """Send a load through the ledger, without a processor, and return its accounts."""
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    reader = Reader()
    expected = Accounts()
    try:
        for shipment in shipments(plan):
            expected.add(shipment.accounts)
            for export in shipment.exports:
                read = read_traces if export.signal == "traces" else read_logs
                batch = read(export.body, reader)
                for _ in range(2 if export.again else 1):
                    ledger.add(batch.facts, batch.observations, arrived_ns=plan.start_ns)
        ledger.decide(Settings(), now_ns=plan.start_ns, final=True)
        return expected, [decision for _, decision in ledger.decisions()], list(ledger.runs())
    finally:
        ledger.close()


def test_equal_plans_make_equal_bytes():
    assert list(map(_bytes, shipments(EVERYTHING))) == list(map(_bytes, shipments(EVERYTHING)))


def test_another_seed_makes_other_runs_throughout():
    first, other = (
        {span.trace_id for export in traces(Plan(seed=seed, runs=20)) for span in spans(export)}
        for seed in (1, 2)
    )

    assert not first & other


def test_the_size_of_requests_changes_no_run():
    def runs(batch):
        plan = Plan(seed=3, runs=24, turns=Spread(1, 9), lost=0.1, batch=batch)
        return sorted(span.SerializeToString() for export in traces(plan) for span in spans(export))

    assert runs(1) == runs(5)


def test_accounts_are_those_of_the_ledger(tmp_path):
    expected, decisions, runs = accounted(EVERYTHING, tmp_path)
    pairs = [each for each in decisions if type(each).__name__ == "PairDecided"]
    withheld = Counter()
    for pair in pairs:
        withheld[pair.causes[0].value if pair.causes else ""] += pair.withheld
    committed = Counter()
    for line in runs:
        if line.outcome == "paired":
            committed[line.run.arm.value] += line.run.model_turns

    assert len(pairs) == expected.pairs
    assert sum(pair.avoided for pair in pairs) == expected.avoided
    assert sum(pair.added for pair in pairs) == expected.added
    assert +withheld == expected.withheld
    assert committed == expected.committed
    assert Counter(line.outcome.value for line in runs) == expected.runs
    assert set(expected.withheld) == {
        "run-not-completed",
        "incomplete-run",
        "effects-unobserved",
        "effects-suppressed",
    }


def test_lost_spans_never_earn_credit(tmp_path):
    """Equal runs of which every seventh span is lost: nothing was avoided."""
    plan = Plan(seed=11, runs=300, candidate_turns=Spread(4, 4), lost=1 / 7)

    expected, decisions, _ = accounted(plan, tmp_path)
    pairs = [each for each in decisions if type(each).__name__ == "PairDecided"]

    assert expected.avoided == 0
    assert sum(pair.avoided for pair in pairs) == 0
    assert sum(pair.withheld for pair in pairs) == sum(expected.withheld.values()) > 0


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_foreign_spans_have_their_share(share):
    made = list(shipments(Plan(seed=1, runs=400, foreign=share)))
    foreign, own = sum(each.foreign for each in made), sum(each.spans for each in made)

    assert foreign / (foreign + own) == pytest.approx(share, abs=0.01)


def test_shares_of_requests_and_spans_are_kept():
    made = list(shipments(Plan(seed=1, runs=2000, duplicates=0.25, lost=0.1, batch=2)))
    exports = [export for shipment in made for export in shipment.exports]
    lost, own = sum(each.lost for each in made), sum(each.spans for each in made)

    assert sum(export.again for export in exports) / len(exports) == pytest.approx(0.25, abs=0.03)
    assert lost / (lost + own) == pytest.approx(0.1, abs=0.01)


def test_run_id_digest_and_times_are_each_pairs_own():
    """Control and candidate share the digest and nothing else."""
    plan = Plan(seed=1, runs=4, batch=1)
    seen = [
        {
            item.key: item.value.string_value
            for span in spans(export)
            for item in span.attributes
            if item.key in ("turnavoid.run.id", "turnavoid.input.digest")
        }
        for export in traces(plan)
    ]
    ids = [each["turnavoid.run.id"] for each in seen]
    digests = [each["turnavoid.input.digest"] for each in seen]

    assert len(set(ids)) == 4
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_the_observer_states_its_effects_for_each_run():
    plan = Plan(seed=1, runs=2, effects=3, suppressed=1.0)
    [*_, logs] = next(shipments(plan)).exports
    records = (
        ExportLogsServiceRequest.FromString(logs.body).resource_logs[0].scope_logs[0].log_records
    )

    assert [
        [label.string_value for label in item.value.array_value.values]
        for record in records
        for item in record.attributes
        if item.key == "turnavoid.effects.labels"
    ] == [["effect:1=done", "effect:2=done", "effect:3=done"], ["effect:1=done", "effect:2=done"]]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lost": 1.5}, "lost is a share from 0 to 1 (got 1.5)"),
        ({"foreign": 1.0}, "foreign is a share up to 0.999 (got 1.0)"),
        ({"turns": Spread(0, 3)}, "turns are from 1 to 1000 (got 0-3)"),
        ({"candidate_turns": Spread(5, 2000)}, "candidate_turns are from 1 to 1000 (got 5-2000)"),
        ({"arm": Arm.CONTROL}, "arm is one of exact-reuse, fused-batch (got control)"),
        ({"batch": 0}, "batch is at least 1 (got 0)"),
        ({"effects": 0}, "effects is at least 1 (got 0)"),
        ({"runs": 0}, "runs is at least 1 (got 0)"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changed, said):
    with pytest.raises(UsageError) as refused:
        next(shipments(Plan(seed=1)._replace(**changed)))

    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("text", "spread"),
    [("4", Spread(4, 4)), ("2-6", Spread(2, 6)), ("6-2", None), ("", None), ("-3", None)],
)
def test_spreads_are_a_number_or_a_range(text, spread):
    assert Spread.parse(text) == spread


def _bytes(shipment):
    return shipment.number, shipment.exports, shipment.accounts.as_json()
