"""Verdicts as OTLP: a span with links to both runs' roots, and a log record that says the same.

Ids are made from the ledger and the number of the decision, so that a verdict that is sent again
is the same span again, and the log record leads to the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.publish.metrics import package_version
from otel_turnavoid.vocabulary import (
    EVENT_VERDICT_DECIDED,
    VERDICT,
    VERDICT_SCOPE,
    Attr,
    GenAI,
    VerdictAttr,
    Word,
)

SAMPLED: Final = 1

LENGTH_NS: Final = 1_000
"""Length of a verdict's span: Jaeger takes a span of no length for a negative one and warns, and
a microsecond is the least that it shows."""

Value = str | int | tuple[str, ...]


class Verdict(NamedTuple):
    """A decided pair, and its place in the journal."""

    number: int
    decided_ns: int
    pair: PairDecided


class SpanContext(NamedTuple):
    """Where a verdict's span is found."""

    trace_id: str
    span_id: str


def context_of(ledger_id: str, number: int) -> SpanContext:
    """Return the ids of a verdict's span.

    Args:
        ledger_id: What no other ledger has (``metrics.ledger_instance_id``).
        number: Of the decision, in the ledger's journal.
    """
    made = sha256(f"{ledger_id}/{number}".encode()).hexdigest()
    return SpanContext(made[:32], made[32:48])


def verdict_spans(
    verdicts: Iterable[Verdict], resource: Mapping[str, str], ledger_id: str
) -> bytes:
    """Return an ``ExportTraceServiceRequest`` with a span for each verdict.

    Args:
        verdicts: What to show.
        resource: Attributes of who decided.
        ledger_id: As in ``context_of``.
    """
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add(resource=_resource(resource)).scope_spans.add(scope=_scope())
    spans.spans.extend(
        _span(verdict, context_of(ledger_id, verdict.number)) for verdict in verdicts
    )
    return request.SerializeToString()


def verdict_records(
    verdicts: Iterable[Verdict], resource: Mapping[str, str], ledger_id: str
) -> bytes:
    """Return an ``ExportLogsServiceRequest`` with an event for each verdict; see there."""
    request = ExportLogsServiceRequest()
    logs = request.resource_logs.add(resource=_resource(resource)).scope_logs.add(scope=_scope())
    logs.log_records.extend(
        _record(verdict, context_of(ledger_id, verdict.number)) for verdict in verdicts
    )
    return request.SerializeToString()


def attributes_of(verdict: Verdict) -> dict[str, Value]:
    """Return the whole decision; what is not known, or not there, has no attribute."""
    pair = verdict.pair
    candidate, key = pair.candidate, pair.candidate.key
    said: dict[str, Value | None] = {
        VerdictAttr.DECISION: verdict.number,
        Attr.ARM: candidate.arm,
        Attr.VARIANT: candidate.variant,
        Attr.EVIDENCE: pair.evidence,
        Attr.COMPARISON: pair.comparison,
        Attr.MECHANISM: candidate.mechanism,
        Attr.LIFECYCLE: candidate.lifecycle,
        Attr.REASON: candidate.reason,
        GenAI.AGENT_NAME: candidate.agent,
        VerdictAttr.POTENTIAL: pair.potential,
        VerdictAttr.AVOIDED: pair.avoided,
        VerdictAttr.WITHHELD: pair.withheld,
        VerdictAttr.ADDED: pair.added,
        VerdictAttr.CAUSES: pair.causes,
        Attr.WITHHELD_CAUSE: pair.causes[0] if pair.withheld else None,
        Attr.OBSERVER_ID: pair.observer,
        VerdictAttr.EFFECTS_PRESERVED: pair.preserved,
        VerdictAttr.EFFECTS_SUPPRESSED: pair.suppressed,
        VerdictAttr.CONTROL_RUN: pair.control.run_id,
        VerdictAttr.CONTROL_TRACE: _trace_of(pair.control),
        VerdictAttr.CONTROL_TURNS: pair.control.model_turns,
        VerdictAttr.CONTROL_EFFECTS: pair.control_effects,
        VerdictAttr.CANDIDATE_RUN: candidate.run_id,
        VerdictAttr.CANDIDATE_TRACE: _trace_of(candidate),
        VerdictAttr.CANDIDATE_TURNS: candidate.model_turns,
        VerdictAttr.CANDIDATE_EFFECTS: pair.candidate_effects,
    }
    if key is not None:
        said |= {
            Attr.EXPERIMENT_ID: key.experiment or None,
            Attr.UNIT_ID: key.unit or None,
            Attr.INPUT_DIGEST: key.digest,
            Attr.TURN_INDEX: key.turn_index,
        }
    return {name: value for name, value in said.items() if value is not None}


def _span(verdict: Verdict, context: SpanContext) -> Span:
    pair = verdict.pair
    return Span(
        trace_id=bytes.fromhex(context.trace_id),
        span_id=bytes.fromhex(context.span_id),
        flags=SAMPLED,
        name=VERDICT,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=verdict.decided_ns,
        end_time_unix_nano=verdict.decided_ns + LENGTH_NS,
        attributes=_key_values(attributes_of(verdict)),
        links=[
            *_links(pair.control, "control"),
            *_links(pair.candidate, "candidate"),
        ],
    )


def _record(verdict: Verdict, context: SpanContext) -> LogRecord:
    return LogRecord(
        time_unix_nano=verdict.decided_ns,
        observed_time_unix_nano=verdict.decided_ns,
        severity_number=SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        event_name=EVENT_VERDICT_DECIDED,
        body=AnyValue(string_value=_sentence(verdict.pair)),
        attributes=_key_values(attributes_of(verdict)),
        flags=SAMPLED,
        trace_id=bytes.fromhex(context.trace_id),
        span_id=bytes.fromhex(context.span_id),
    )


def _sentence(pair: PairDecided) -> str:
    """Return the figures in words; no content and nothing that a sender wrote."""
    figures = f"avoided {pair.avoided}, withheld {pair.withheld}, added {pair.added}"
    return f"{figures}: {', '.join(pair.causes)}" if pair.causes else figures


def _links(run: Run, side: str) -> Iterator[Span.Link]:
    for trace_id, span_id in run.roots:
        yield Span.Link(
            trace_id=bytes.fromhex(trace_id),
            span_id=bytes.fromhex(span_id),
            attributes=_key_values({Attr.SIDE: side}),
        )


def _trace_of(run: Run) -> str | None:
    """Return the trace to open first: that of the run's first root, else any."""
    if run.roots:
        return run.roots[0][0]
    return run.trace_ids[0] if run.trace_ids else None


def _resource(attributes: Mapping[str, str]) -> Resource:
    return Resource(attributes=_key_values(attributes))


def _scope() -> InstrumentationScope:
    return InstrumentationScope(name=VERDICT_SCOPE, version=package_version())


def _key_values(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in attributes.items()]


def _any(value: Value) -> AnyValue:
    if isinstance(value, tuple):
        return AnyValue(array_value=ArrayValue(values=[_any(each) for each in value]))
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(string_value=value.value if isinstance(value, Word) else value)
