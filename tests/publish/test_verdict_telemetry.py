"""Verdicts as spans and log records: the whole decision, with links to both runs."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.judging import judge
from otel_turnavoid.judge.run import Key
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.verdict_telemetry import (
    Verdict,
    context_of,
    verdict_records,
    verdict_spans,
)
from otel_turnavoid.vocabulary import Arm

DECIDED_NS = 1_700_000_000_000_000_000
RESOURCE = {"service.name": "otel_turnavoid"}
CONTROL = ("c" * 32, "1" * 16)
CANDIDATE = [("a" * 32, "2" * 16), ("b" * 32, "3" * 16)]
KEY = Key("spring", f"sha256:{7:064x}", "customer-1", 2)


def plain(attributes) -> dict[str, object]:
    def value(given):
        kind = given.WhichOneof("value")
        if kind == "array_value":
            return [value(each) for each in given.array_value.values]
        return getattr(given, kind)

    return {each.key: value(each.value) for each in attributes}


def decided(verdicts, **changes) -> Verdict:
    control = verdicts.run(4, run_id="c", key=KEY, roots=(CONTROL,))
    candidate = verdicts.run(
        1, run_id="k", key=KEY, arm=Arm.EXACT_REUSE, roots=tuple(CANDIDATE), **changes
    )
    return Verdict(7, DECIDED_NS, judge(control, candidate, Settings()))


def span_of(body: bytes) -> Span:
    request = ExportTraceServiceRequest.FromString(body)
    return request.resource_spans[0].scope_spans[0].spans[0]


def test_a_verdict_is_a_span_of_a_microsecond_that_begins_with_the_decision(verdicts) -> None:
    span = span_of(verdict_spans([decided(verdicts)], RESOURCE, "ledger"))

    assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == (
        "turnavoid.verdict",
        DECIDED_NS,
        DECIDED_NS + 1000,
    )


def test_it_links_to_the_roots_of_both_runs_each_segment_of_a_paused_one(verdicts) -> None:
    span = span_of(verdict_spans([decided(verdicts)], RESOURCE, "ledger"))

    assert [
        (link.trace_id.hex(), link.span_id.hex(), plain(link.attributes)) for link in span.links
    ] == [
        (*CONTROL, {"turnavoid.side": "control"}),
        (*CANDIDATE[0], {"turnavoid.side": "candidate"}),
        (*CANDIDATE[1], {"turnavoid.side": "candidate"}),
    ]


def test_its_attributes_are_the_whole_decision(verdicts) -> None:
    span = span_of(verdict_spans([decided(verdicts)], RESOURCE, "ledger"))

    assert plain(span.attributes) == {
        "turnavoid.verdict.decision": 7,
        "turnavoid.arm": "exact-reuse",
        "turnavoid.evidence": "declared",
        "turnavoid.mechanism": "control",
        "turnavoid.lifecycle": "realized",
        "turnavoid.reason": "baseline",
        "turnavoid.verdict.potential": 3,
        "turnavoid.verdict.avoided": 3,
        "turnavoid.verdict.withheld": 0,
        "turnavoid.verdict.added": 0,
        "turnavoid.verdict.causes": [],
        "turnavoid.observer.id": "watcher",
        "turnavoid.verdict.effects.preserved": 1,
        "turnavoid.verdict.effects.suppressed": 0,
        "turnavoid.verdict.control.run_id": "c",
        "turnavoid.verdict.control.trace_id": CONTROL[0],
        "turnavoid.verdict.control.turns": 4,
        "turnavoid.verdict.control.effects": ["order:42=cancelled"],
        "turnavoid.verdict.candidate.run_id": "k",
        "turnavoid.verdict.candidate.trace_id": CANDIDATE[0][0],
        "turnavoid.verdict.candidate.turns": 1,
        "turnavoid.verdict.candidate.effects": ["order:42=cancelled"],
        "turnavoid.experiment.id": "spring",
        "turnavoid.unit.id": "customer-1",
        "turnavoid.input.digest": KEY.digest,
        "turnavoid.turn.index": 2,
    }


def test_a_withheld_one_names_its_causes_and_the_one_that_counts(verdicts) -> None:
    verdict = decided(verdicts, effects=(), variant="v2")
    said = plain(span_of(verdict_spans([verdict], RESOURCE, "ledger")).attributes)

    assert {key: said[key] for key in said if "withheld" in key or "causes" in key} == {
        "turnavoid.verdict.withheld": 3,
        "turnavoid.verdict.causes": ["effects-suppressed"],
        "turnavoid.withheld.cause": "effects-suppressed",
    }
    assert said["turnavoid.variant"] == "v2"


def test_unknown_turns_have_no_attribute(verdicts) -> None:
    control = verdicts.run(None, roots=(CONTROL,))
    pair = judge(control, verdicts.run(1, arm=Arm.EXACT_REUSE), Settings())
    said = plain(span_of(verdict_spans([Verdict(1, 2, pair)], RESOURCE, "ledger")).attributes)

    assert "turnavoid.verdict.control.turns" not in said


def test_the_same_decision_of_a_ledger_is_the_same_span_and_no_other_is(verdicts) -> None:
    assert context_of("ledger", 7) == context_of("ledger", 7)
    assert len({context_of("ledger", 7), context_of("ledger", 8), context_of("other", 7)}) == 3


def test_the_log_record_says_the_same_and_leads_to_the_span(verdicts) -> None:
    verdict = decided(verdicts)
    span = span_of(verdict_spans([verdict], RESOURCE, "ledger"))
    request = ExportLogsServiceRequest.FromString(verdict_records([verdict], RESOURCE, "ledger"))
    record = request.resource_logs[0].scope_logs[0].log_records[0]

    assert (record.event_name, record.time_unix_nano, record.body.string_value) == (
        "turnavoid.verdict.decided",
        DECIDED_NS,
        "avoided 3, withheld 0, added 0",
    )
    assert (record.trace_id, record.span_id) == (span.trace_id, span.span_id)
    assert list(record.attributes) == list(span.attributes)


def test_a_processor_that_gets_them_back_learns_nothing_from_them(verdicts) -> None:
    verdict = decided(verdicts)
    spans = read_traces(verdict_spans([verdict], RESOURCE, "ledger"), Reader())
    records = read_logs(verdict_records([verdict], RESOURCE, "ledger"), Reader())

    assert [list(batch.facts) + list(batch.observations) for batch in (spans, records)] == [[], []]
