"""When what is decided, by the processor's clock (seconds here).

Unless a test says otherwise: ``c`` is a control run of three turns, ``k`` a candidate of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import InvokeDetail, SpanFact
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import Batch, read_traces
from otel_turnavoid.store import Ledger, standing
from otel_turnavoid.testing import START_NS, run_spans
from otel_turnavoid.vocabulary import Arm, Entry, Evidence, Lifecycle

Make = Callable[..., Batch]
WAIT = 600
"""``decision_wait``."""
EXPIRY = 24 * 3600
"""``run_expiry``."""
HOUR_NS = 3600 * SECOND

AVOIDED = [
    ("pair", "c", "k", 1, 0, None),
    ("run", "c", "paired"),
    ("run", "k", "paired"),
]


def unobserved(withheld: int = 1) -> tuple[object, ...]:
    return ("pair", "c", "k", 0, withheld, "effects-unobserved")


@pytest.fixture
def c(run: Make) -> Batch:
    return run("c")


@pytest.fixture
def k(run: Make) -> Batch:
    return run("k", "fused-batch", turns=2, start_ns=START_NS + SECOND)


def without(batch: Batch, entry: Entry) -> Batch:
    return msgspec.structs.replace(
        batch, facts=[fact for fact in batch.facts if fact.entry is not entry]
    )


def stray_call(trace_id: bytes, parent_id: str) -> bytes:
    """Return a request with another instrumentation's call below a span of ours."""
    request = ExportTraceServiceRequest.FromString(run_spans(run_id="stray"))
    spans = request.resource_spans[0].scope_spans[0].spans
    span = next(span for span in spans if span.name.startswith("chat"))
    own = [pair for pair in span.attributes if not pair.key.startswith("turnavoid.")]
    del span.attributes[:]
    span.attributes.extend(own)
    span.trace_id = trace_id
    span.parent_span_id = bytes.fromhex(parent_id)
    kept = span.SerializeToString()
    del spans[:]
    spans.add().ParseFromString(kept)
    return request.SerializeToString()


def bench_ns(at: float) -> int:
    return 1_790_000_000 * SECOND + round(at * SECOND)


def inferred(number: str, arm: str) -> Any:
    """Return an agent span of another instrumentation, armed by configuration."""
    return SpanFact(
        trace_id=number * 32,
        span_id=number * 16,
        entry=Entry.INVOKE,
        dialect="gen_ai",
        scope="framework",
        start_ns=START_NS,
        end_ns=START_NS + SECOND,
        arm=Arm(arm),
        invoke=InvokeDetail(digest="sha256:" + "a" * 64, lifecycle=Lifecycle.REALIZED),
    )


class TestSettling:
    def test_with_all_evidence_a_pair_is_decided_once_its_key_is_quiet(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)

        assert bench.decide(0.4) == []
        assert bench.decide(0.5) == AVOIDED
        assert bench.decide(WAIT + EXPIRY) == []
        assert bench.outcomes() == {"c": "paired", "k": "paired"}

    def test_every_new_fact_of_the_key_begins_the_quiet_anew(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, seen("c"), seen("k"), at=0)
        bench.add(k, at=0.4)

        assert bench.decide(0.8) == []
        assert bench.decide(0.9) == AVOIDED

    def test_runs_of_other_inputs_do_not_disturb_the_quiet(
        self, bench: Any, c: Batch, k: Batch, seen: Make, run: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.add(run("other", task="another input"), at=0.4)

        assert bench.decide(0.5) == AVOIDED

    def test_a_key_that_is_never_quiet_is_decided_when_the_wait_is_over(
        self, bench: Any, c: Batch, k: Batch, seen: Make, run: Make
    ) -> None:
        bench.settings = Settings(decision_wait_ns=2 * SECOND)
        bench.add(c, k, seen("c"), seen("k"), at=0)
        for number in range(1, 5):
            bench.add(run(f"c{number}", start_ns=START_NS + number * HOUR_NS), at=number * 0.4)
            assert bench.decide(number * 0.4 + 0.1) == []
        bench.add(run("c5", start_ns=START_NS + 5 * HOUR_NS), at=2)

        assert bench.decide(2) == AVOIDED


class TestWaiting:
    def test_a_missing_observation_is_waited_for(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), at=0)

        assert bench.decide(WAIT - 1) == []
        assert bench.decide(WAIT) == [unobserved(), *AVOIDED[1:]]

    def test_an_observation_within_the_wait_counts(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), at=0)
        bench.decide(WAIT - 10)
        bench.add(seen("k"), at=WAIT - 9)

        assert bench.decide(WAIT - 8) == AVOIDED

    def test_the_wait_counts_from_the_end_of_the_later_run(
        self, bench: Any, c: Batch, k: Batch
    ) -> None:
        bench.add(c, at=0)
        bench.decide(0)
        bench.add(k, at=1000)

        assert bench.decide(1000 + WAIT - 1) == []
        assert bench.decide(1000 + WAIT) == [unobserved(), *AVOIDED[1:]]

    def test_a_lost_call_is_waited_for_and_then_held_against_the_run(
        self, bench: Any, c: Batch, run: Make, seen: Make
    ) -> None:
        lossy = run("k", "fused-batch", turns=2, lost=[3])
        bench.add(c, lossy, seen("c"), seen("k"), at=0)

        assert bench.decide(WAIT - 1) == []
        assert bench.decide(WAIT) == [("pair", "c", "k", 0, 1, "incomplete-run"), *AVOIDED[1:]]

    def test_a_late_call_within_the_wait_makes_the_run_whole(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        bench.add(c, run("k", "fused-batch", turns=2, lost=[3], start_ns=START_NS + SECOND), at=0)
        bench.add(seen("c"), seen("k"), at=0)
        bench.decide(300)
        bench.add(k, at=301)

        assert bench.decide(302) == AVOIDED

    def test_later_facts_do_not_prolong_the_wait(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, at=0)
        bench.decide(1)
        bench.add(seen("c"), at=WAIT - 1)

        assert bench.decide(WAIT) == [unobserved(), *AVOIDED[1:]]

    def test_a_run_that_has_not_ended_is_not_judged_however_long_it_takes(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, without(k, Entry.INVOKE), seen("c"), seen("k"), at=0)

        assert bench.decide(EXPIRY - 1) == []
        assert bench.outcomes() == {"c": "unpaired", "k": "incomplete"}

    def test_the_end_of_the_input_is_the_end_of_every_wait(
        self, bench: Any, c: Batch, k: Batch
    ) -> None:
        bench.add(c, k, at=0)

        assert bench.decide(0, final=True) == [unobserved(), *AVOIDED[1:]]

    def test_a_wait_that_began_before_a_restart_ends_after_it(
        self, bench: Any, c: Batch, k: Batch
    ) -> None:
        bench.add(c, k, at=0)
        bench.reopen()
        bench.decide(10)
        bench.reopen()

        assert bench.decide(WAIT - 1) == []
        bench.reopen()
        assert bench.decide(WAIT) == [unobserved(), *AVOIDED[1:]]

    def test_a_run_met_while_a_neighbour_is_assembled_keeps_its_own_wait(
        self, bench: Any, c: Batch, run: Make
    ) -> None:
        """A span without a run id joins runs of one trace; many others stand in the queue."""
        trace_id = bytes(range(16))
        first = run("other", task="another input", trace_id=trace_id)
        stray = read_traces(stray_call(trace_id, first.facts[0].span_id), Reader())
        k = run("k", "fused-batch", turns=2, trace_id=trace_id, start_ns=START_NS + SECOND)
        bench.add(c, first, stray, at=-1)
        for number in range(300):
            bench.ledger.add(
                [
                    msgspec.structs.replace(
                        first.facts[0],
                        run_id=f"x{number}",
                        trace_id="f" * 32,
                        span_id=f"{number + 1:016x}",
                    )
                ],
                arrived_ns=bench_ns(0),
            )
        bench.add(k, at=1000)

        assert bench.decide(1001) == []
        assert bench.decide(1000 + WAIT)[0] == unobserved()


class TestExpiry:
    def test_a_run_without_a_partner_gets_its_final_outcome_by_age(
        self, bench: Any, c: Batch
    ) -> None:
        bench.add(c, at=0)

        assert bench.decide(EXPIRY - 1) == []
        assert bench.decide(EXPIRY) == [("run", "c", "unpaired")]
        assert bench.decide(2 * EXPIRY) == []

    def test_age_counts_from_the_last_new_fact(self, bench: Any, k: Batch) -> None:
        bench.add(without(k, Entry.INVOKE), at=0)
        bench.decide(1)
        bench.add(msgspec.structs.replace(k, facts=k.facts[:1]), at=1000)

        assert bench.decide(EXPIRY) == []
        assert bench.decide(EXPIRY + 1000) == [("run", "k", "unpaired")]

    def test_a_run_that_never_ended_expires_as_incomplete(self, bench: Any, k: Batch) -> None:
        bench.add(without(k, Entry.INVOKE), at=0)

        assert bench.decide(EXPIRY) == [("run", "k", "incomplete")]

    def test_a_run_with_its_final_outcome_is_paired_no_more(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, seen("c"), at=0)
        bench.decide(EXPIRY)
        bench.add(k, seen("k"), at=EXPIRY + 1)

        assert bench.decide(EXPIRY + 1 + WAIT) == []
        assert bench.outcomes() == {"c": "unpaired", "k": "unpaired"}

    def test_a_pair_that_waits_for_evidence_is_decided_before_its_runs_expire(
        self, bench: Any, c: Batch, k: Batch
    ) -> None:
        bench.add(k, at=0)
        bench.add(c, at=EXPIRY - 60)
        bench.decide(EXPIRY - 60)

        assert bench.decide(EXPIRY) == []
        assert bench.decide(EXPIRY - 60 + WAIT) == [unobserved(), *AVOIDED[1:]]

    def test_a_key_that_always_waits_does_not_keep_a_run_without_a_partner(
        self, bench: Any, c: Batch, k: Batch, run: Make
    ) -> None:
        left_over = run("c2", start_ns=START_NS + HOUR_NS)
        bench.add(c, left_over, at=0)
        bench.add(k, at=EXPIRY - 1)
        bench.decide(EXPIRY - 1)
        bench.add(run("k2", "fused-batch", variant="b"), at=EXPIRY + WAIT - 2)

        assert bench.decide(EXPIRY + WAIT - 1) == [unobserved(), *AVOIDED[1:]]
        assert bench.decide(EXPIRY + WAIT) == [("run", "c2", "unpaired")]

    def test_calls_of_no_run_expire_as_unattributed_after_the_wait(self, bench: Any) -> None:
        bench.add(read_traces(stray_call(bytes(range(16)), "00f067aa0ba902b7"), Reader()), at=0)
        name = f"trace:{bytes(range(16)).hex()}"

        assert bench.decide(WAIT - 1) == []
        assert bench.decide(WAIT) == [("run", name, "unattributed")]

    @pytest.mark.parametrize(
        ("cause", "options"),
        [
            ("digest", {"digest": "sha256:ABC"}),
            ("vocabulary", {"lifecycle": "Realized"}),
            ("leakage", {"turn_index": 1, "decision_basis": 1}),
            ("arm-missing", {"arm": None}),
        ],
    )
    def test_a_refused_run_is_final_after_the_wait(
        self, bench: Any, run: Make, cause: str, options: dict[str, Any]
    ) -> None:
        bench.add(run("k", **{"arm": "fused-batch", **options}), at=0)

        assert bench.decide(WAIT - 1) == []
        assert bench.decide(WAIT) == [("run", "k", "rejected")]
        (line,) = bench.ledger.runs()
        assert [str(rejection) for rejection in line.run.rejections] == [cause]

    def test_when_an_unfinished_run_expires_the_next_one_takes_its_place(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        """A control that paused for good comes first by start, and stands in c's way."""
        paused = run("c0", state="paused", start_ns=START_NS - HOUR_NS)
        bench.add(paused, at=0)
        bench.add(c, k, seen("c"), seen("k"), at=HOUR_NS / SECOND)

        assert bench.decide(EXPIRY - 1) == []
        assert bench.decide(EXPIRY) == [("run", "c0", "incomplete")]
        assert bench.decide(EXPIRY + 1) == AVOIDED

    def test_at_the_end_of_the_input_an_unfinished_run_stands_in_nobodys_way(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        paused = run("c0", state="paused", start_ns=START_NS - HOUR_NS)
        bench.add(paused, c, k, seen("c"), seen("k"), at=0)

        assert bench.decide(0, final=True) == AVOIDED


class TestLateEvidence:
    def test_a_late_observation_contradicts_and_changes_nothing(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), at=0)
        bench.decide(WAIT)
        journal = list(bench.ledger.decisions())
        bench.add(seen("k"), at=WAIT + 1)

        assert bench.decide(2 * WAIT) == []
        assert list(bench.ledger.decisions()) == journal
        assert bench.contradicted() == [unobserved()]
        assert bench.outcomes() == {"c": "paired", "k": "paired"}

    def test_a_verdict_is_contradicted_once(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.decide(1)
        bench.add(seen("k", labels=[]), at=2)
        bench.decide(3)
        bench.reopen()
        bench.add(seen("c", labels=[]), at=4)
        bench.decide(5)

        assert bench.contradicted() == AVOIDED[:1]

    def test_contradictions_are_numbered_as_they_are_met(
        self, bench: Any, run: Make, seen: Make
    ) -> None:
        """Who follows them asks for what is new, and gets each once."""
        for number in range(3):
            control = run(f"c{number}", task=number)
            candidate = run(f"k{number}", "fused-batch", task=number, turns=2)
            bench.add(control, candidate, seen(f"c{number}"), seen(f"k{number}"), at=0)
        bench.decide(1)
        for number in (2, 0, 1):
            bench.add(seen(f"k{number}", labels=[]), at=2 + number)
            bench.decide(3 + number)
            bench.reopen()
        found = list(bench.ledger.contradictions())

        assert [(each.order, each.pair.candidate.run_id) for each in found] == [
            (1, "k2"),
            (2, "k0"),
            (3, "k1"),
        ]
        assert list(bench.ledger.contradictions(after=1)) == found[1:]
        assert list(bench.ledger.contradictions(after=3)) == []
        assert list(bench.ledger.contradicted()) == sorted(each.number for each in found)

    @pytest.mark.parametrize("changed", [{"experiment": "b"}, {"unit": "u"}, {"variant": "b"}])
    def test_a_run_whose_key_turns_out_another_contradicts_its_verdict(
        self, bench: Any, c: Batch, k: Batch, seen: Make, changed: dict[str, str]
    ) -> None:
        """A span of another instrumentation arrives late and names what nothing named before."""
        bench.add(c, k, seen("c"), seen("k"), at=0)
        assert bench.decide(1) == AVOIDED
        late = SpanFact(
            trace_id="f" * 32,
            span_id="f" * 16,
            dialect="turnavoid",
            scope="other",
            start_ns=START_NS,
            end_ns=START_NS,
            run_id="k",
            **changed,
        )
        bench.ledger.add([late], arrived_ns=bench_ns(2))

        assert bench.decide(2 * WAIT) == []
        assert bench.contradicted() == AVOIDED[:1]

    def test_evidence_that_agrees_contradicts_nothing(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.decide(1)
        bench.add(seen("k", observed_ns=START_NS + 61 * SECOND), at=2)
        bench.decide(3)

        assert bench.contradicted() == []

    def test_a_run_id_used_again_contradicts_the_verdict_on_its_first_use(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.decide(1)
        reused = run("k", "fused-batch", turns=2, task="another input", trace_id=bytes(range(16)))
        bench.add(reused, at=2)

        assert bench.decide(WAIT + 2) == []
        assert bench.contradicted() == AVOIDED[:1]

    def test_a_paired_run_that_turns_out_to_be_of_another_key_makes_no_second_pair(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.decide(1)
        bench.add(run("c2", experiment="b"), seen("c2"), at=2)
        late = msgspec.structs.replace(
            k.facts[0], span_id="00f067aa0ba902b7", start_ns=START_NS, experiment="b"
        )
        bench.ledger.add([late], arrived_ns=bench_ns(3))

        assert bench.decide(2 * WAIT) == []
        assert bench.contradicted() == AVOIDED[:1]

    def test_a_verdict_on_part_of_a_trace_is_contradicted_by_the_whole(self, bench: Any) -> None:
        """Inferred runs: the agent span around a judged one arrives after the verdict."""
        bench.settings = Settings(accept=frozenset(Evidence))
        control, inner, outer = inferred("1", "control"), inferred("2", "fused-batch"), None
        outer = msgspec.structs.replace(inner, span_id="0" * 15 + "3", end_ns=inner.end_ns + 1)
        inner = msgspec.structs.replace(inner, parent_id=outer.span_id)
        bench.ledger.add([control, inner], arrived_ns=bench_ns(0))
        pair, *_ = bench.decide(WAIT)
        bench.ledger.add([outer], arrived_ns=bench_ns(WAIT + 1))
        bench.decide(WAIT + 2)

        assert bench.contradicted() == [pair]


class TestOrder:
    def test_an_observation_may_come_before_its_run(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        bench.add(seen("c"), seen("k"), at=0)
        assert bench.decide(1) == []
        bench.add(k, at=2)
        bench.add(c, at=3)

        assert bench.decide(3.5) == AVOIDED

    def test_an_observation_may_name_a_run_that_was_made_from_a_trace(
        self, bench: Any, seen: Make
    ) -> None:
        bench.settings = Settings(accept=frozenset(Evidence))
        runs = inferred("1", "control"), inferred("2", "fused-batch")
        names = [f"trace:{fact.trace_id}/{fact.span_id}" for fact in runs]
        bench.add(seen(names[0]), at=0)
        bench.decide(1)
        bench.ledger.add(runs, arrived_ns=bench_ns(2))
        bench.decide(3)
        bench.add(seen(names[1]), at=4)
        (pair, *_) = bench.ledger.decide(bench.settings, now_ns=bench_ns(WAIT + 4))

        assert [pair.control.run_id, pair.candidate.run_id] == names
        assert len(pair.control.observations) == len(pair.candidate.observations) == 1

    def test_a_resumed_run_is_judged_when_its_last_segment_has_ended(
        self, bench: Any, c: Batch, run: Make, seen: Make
    ) -> None:
        whole = run("k", "fused-batch", turns=2, start_ns=START_NS + SECOND)
        invoke, *entries = whole.facts
        paused = msgspec.structs.replace(
            invoke,
            span_id="00f067aa0ba902b7",
            start_ns=START_NS,
            invoke=msgspec.structs.replace(invoke.invoke, state="paused", counts=None),
        )
        resumed = msgspec.structs.replace(
            invoke,
            trace_id="f" * 32,
            seq=len(entries) + 1,
            invoke=msgspec.structs.replace(
                invoke.invoke,
                counts=msgspec.structs.replace(invoke.invoke.counts, entries=len(entries) + 2),
            ),
        )
        bench.add(c, seen("c"), seen("k"), at=0)
        bench.ledger.add([paused, *entries], arrived_ns=bench_ns(0))
        assert bench.decide(3 * WAIT) == []
        bench.reopen()
        bench.ledger.add([resumed], arrived_ns=bench_ns(3 * WAIT))

        assert bench.decide(3 * WAIT + 1) == AVOIDED

    def test_one_control_serves_every_arm_and_is_counted_once(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.decide(1)
        bench.add(run("r", "exact-reuse", turns=0), seen("r"), at=2)

        assert bench.decide(3) == [("pair", "c", "r", 3, 0, None), ("run", "r", "paired")]

    def test_one_control_serves_one_run_of_each_arm(
        self, bench: Any, c: Batch, k: Batch, run: Make, seen: Make
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        bench.decide(1)
        bench.add(run("k2", "fused-batch", turns=1), seen("k2"), at=2)

        assert bench.decide(WAIT + 2) == []
        assert bench.outcomes() == {"c": "paired", "k": "paired", "k2": "unpaired"}

    def test_control_runs_are_compared_with_each_other_once(self, bench: Any, run: Make) -> None:
        batches = [
            run(f"c{number}", turns=3 - number % 2, start_ns=START_NS + number)
            for number in range(3)
        ]
        bench.add(*batches, at=0)

        assert bench.decide(1) == [("null", "c0", "c1", 1, 0)]
        bench.add(run("c3", start_ns=START_NS + 3), at=2)
        assert bench.decide(3) == [("null", "c2", "c3", 0, 0)]


class TestManyRunsOfOneInput:
    def test_only_runs_in_pairs_that_may_be_due_are_read(
        self, bench: Any, run: Make, seen: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(20):
            start_ns = START_NS + number
            bench.add(run(f"c{number:02}", start_ns=start_ns), seen(f"c{number:02}"), at=0)
            candidate = run(f"k{number:02}", "fused-batch", turns=2, start_ns=start_ns)
            bench.add(candidate, seen(f"k{number:02}"), at=0)
        bench.decide(1)
        read: list[bytes] = []
        plain = standing.decode_run

        def counted(body: bytes) -> Any:
            read.append(body)
            return plain(body)

        monkeypatch.setattr(standing, "decode_run", counted)
        bench.add(run("c98", start_ns=START_NS + 98), seen("c98"), at=2)
        bench.add(run("k99", "fused-batch", turns=2, start_ns=START_NS + 99), seen("k99"), at=2)

        assert bench.decide(3)[0] == ("pair", "c98", "k99", 1, 0, None)
        assert len(read) == 2

    def test_waiting_for_quiet_reads_nothing(
        self, bench: Any, c: Batch, k: Batch, seen: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.add(c, k, seen("c"), seen("k"), at=0)
        monkeypatch.setattr(standing, "decode_run", None)
        assert bench.decide(0.1) == []
        monkeypatch.undo()

        assert bench.decide(0.5) == AVOIDED


class TestRestarts:
    def test_a_restart_between_any_two_steps_changes_nothing(
        self, bench: Any, c: Batch, k: Batch, seen: Make
    ) -> None:
        decided = []
        for step in (seen("k"), k, seen("c"), c):
            for fact in step.facts:
                bench.ledger.add([fact], arrived_ns=bench_ns(0))
                bench.reopen()
                decided += bench.decide(0)
                bench.reopen()
            bench.add(step, at=0)
            bench.reopen()

        assert decided == []
        assert bench.decide(1) == AVOIDED
        bench.reopen()
        assert bench.decide(2 * EXPIRY) == []
        assert bench.journal() == AVOIDED

    def test_two_processes_in_turn_decide_each_verdict_once(
        self, bench: Any, url: str, run: Make, seen: Make
    ) -> None:
        others = Ledger.open(url)
        settings = Settings()
        made = []
        for number in range(6):
            first, second = (bench.ledger, others) if number % 2 else (others, bench.ledger)
            control = run(f"c{number}", task=number)
            candidate = run(f"k{number}", "fused-batch", turns=2, task=number)
            first.add(control.facts, seen(f"k{number}").observations, arrived_ns=bench_ns(number))
            second.decide(settings, now_ns=bench_ns(number))
            second.add(
                candidate.facts, seen(f"c{number}").observations, arrived_ns=bench_ns(number)
            )
            made += first.decide(settings, now_ns=bench_ns(number + 0.6))
            made += second.decide(settings, now_ns=bench_ns(number + 0.6))
        others.close()

        pairs = {("pair", f"c{number}", f"k{number}", 1, 0, None) for number in range(6)}
        journal = bench.journal()
        assert len(made) == len(journal) == 18
        assert {line for line in journal if line[0] == "pair"} == pairs
