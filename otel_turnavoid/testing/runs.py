"""Whole runs as OTLP requests, from plain data: the shape of design section 3.

A control and a candidate with one turn less, and the observer's word on both::

    run_spans(run_id="c", arm="control", turns=4)
    run_spans(run_id="k", arm="fused-batch", turns=3)
    observation("c"), observation("k")

Everything is computed from the arguments: equal arguments, equal bytes. Ids are hashes of the
run id; a model call takes a second, a tool 100 ms. Every knob that spoils a run leaves the
rest of it as it was, so that one test can spoil one thing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from otel_turnavoid.digest import input_digest
from otel_turnavoid.vocabulary import (
    ERROR_TYPE,
    EVENT_EFFECTS_OBSERVED,
    SCOPE,
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    Attr,
    Disposition,
    Entry,
    GenAI,
    InvokeKind,
    InvokeState,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    ToolCaller,
    ToolDisposition,
)

MS: Final = 1_000_000
"""Nanoseconds."""

START_NS: Final = 1_780_000_000_000_000_000
"""When a run starts unless told otherwise: 2026-05-28T20:26:40Z."""

EFFECTS: Final = ("order:42=cancelled", "refund:42=19.90")
"""What an observation states unless told otherwise."""

_FLAGS: Final = 0x101  # sampled, and the parent is known not to be remote
_CALL_MS: Final = 1000
_TOOL_MS: Final = 100


@dataclass(frozen=True)
class Call:
    """One LlmCall of a made-up turn; the words are those of the vocabulary."""

    disposition: str = Disposition.COMMITTED
    purpose: str = Purpose.AGENT
    samplings: int = 1
    model: str | None = None
    """None: the run's model."""
    usage: Mapping[str, int] = field(
        default_factory=lambda: {GenAI.USAGE_INPUT_TOKENS: 200, GenAI.USAGE_OUTPUT_TOKENS: 20}
    )
    """Attribute keys and tokens."""
    cost_usd: float | None = None


@dataclass(frozen=True)
class Turn:
    """One AgentTurn of a made-up run, and the ToolTurns that follow it."""

    calls: Sequence[Call] = (Call(),)
    tools: Sequence[str] = ("lookup_order",)
    """Tool names, executed one after the other."""
    disposition: str = Disposition.COMMITTED


def run_spans(  # noqa: PLR0913 - knobs, each with a default
    *,
    run_id: str,
    arm: str | None = "control",
    turns: int | Iterable[Turn] = 3,
    task: Any = "Cancel order 42",
    digest: str | None = None,
    mechanism: str | None = None,
    lifecycle: str | None = Lifecycle.REALIZED,
    reason: str | None = None,
    experiment: str | None = None,
    unit: str | None = None,
    variant: str | None = None,
    turn_index: int | None = None,
    decision_basis: int | None = None,
    state: str | None = InvokeState.COMPLETED,
    counts: bool = True,
    lost: Collection[int] = (),
    model: str = "gpt-5.1",
    agent: str = "orders",
    scope: str = SCOPE,
    service: str = "agent",
    instance: str | None = None,
    start_ns: int = START_NS,
    trace_state: str = "",
    trace_id: bytes | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> bytes:
    """Return one run as an encoded ``ExportTraceServiceRequest``.

    Args:
        run_id: ``turnavoid.run.id``.
        arm: On every entry; None leaves it out.
        turns: How many plain turns (one committed call, then one tool), or the turns themselves.
        task: The input that the digest is computed from.
        digest: The digest attribute as given, also a broken one; empty leaves it out.
        mechanism: Default: the arm's own.
        lifecycle: None leaves it out.
        reason: Default: the arm's own.
        experiment: ``turnavoid.experiment.id``.
        unit: ``turnavoid.unit.id``.
        variant: On every entry.
        turn_index: ``turnavoid.turn.index``.
        decision_basis: ``turnavoid.decision.basis_through_turn``.
        state: How the Invoke ended; ``failed`` and ``aborted`` also set its status to error.
        counts: Whether the Invoke declares what it had; never done by one that only paused.
        lost: Sequence numbers of entries whose spans do not arrive. 0 is the Invoke, 1 the
            UserTurn, then an AgentTurn, its calls and the tools after it, turn by turn.
        model: Asked and answering model of the calls that name none.
        agent: ``gen_ai.agent.name`` and part of the Invoke's span name.
        scope: Instrumentation scope name.
        service: ``service.name``.
        instance: ``service.instance.id``; default ``agent-`` and the run id.
        start_ns: Start of the Invoke, nanoseconds since the epoch.
        trace_state: W3C trace state of every span.
        trace_id: 16 bytes; default from the run id.
        attributes: More attributes of the Invoke, or other values for its own.
    """
    run = _Run(run_id, arm, variant, model, trace_state, trace_id or _id(run_id, 16), start_ns)
    plan = [Turn()] * turns if isinstance(turns, int) else turns
    invoke = run.open(Entry.INVOKE, f"invoke_agent {agent}")
    run.close(run.open(Entry.USER_TURN, "user_turn", invoke), 1)
    for turn in plan:
        run.turn(turn, invoke)

    own_mechanism, own_reason = _OWN.get(arm or "", (None, None))
    said = {
        Attr.INVOKE_KIND: InvokeKind.USER_SEND,
        GenAI.OPERATION_NAME: "invoke_agent",
        GenAI.AGENT_NAME: agent,
        Attr.INPUT_DIGEST: input_digest(task) if digest is None else digest or None,
        Attr.EXPERIMENT_ID: experiment,
        Attr.UNIT_ID: unit,
        Attr.TURN_INDEX: turn_index,
        Attr.DECISION_BASIS: decision_basis,
        Attr.MECHANISM: mechanism or own_mechanism,
        Attr.LIFECYCLE: lifecycle,
        Attr.REASON: reason or own_reason,
        Attr.INVOKE_STATE: state,
    }
    if counts and state != InvokeState.PAUSED:
        said |= {
            Attr.INVOKE_AGENT_TURNS: run.counts[Entry.AGENT_TURN],
            Attr.INVOKE_LLM_CALLS: run.counts[Entry.LLM_CALL],
            Attr.INVOKE_TOOL_TURNS: run.counts[Entry.TOOL_TURN],
            Attr.INVOKE_ENTRIES: len(run.spans),
        }
    run.close(invoke, 1, said | dict(attributes or {}))
    if state in {InvokeState.FAILED, InvokeState.ABORTED}:
        _fail(invoke, str(state))
    arrived = [span for seq, span in enumerate(run.spans) if seq not in lost]
    return _trace_request(arrived, scope, service, instance or f"agent-{run_id}")


def observation(  # noqa: PLR0913 - knobs, each with a default
    run_id: str,
    labels: Iterable[str] = EFFECTS,
    *,
    observer: str = "orders-db/v1",
    service: str = "orders-observer",
    instance: str = "observer-1",
    observed_ns: int = START_NS + 60_000 * MS,
    ordered: bool = False,
) -> bytes:
    """Return what an observer saw of one run as an encoded ``ExportLogsServiceRequest``."""
    record = LogRecord(
        time_unix_nano=observed_ns,
        observed_time_unix_nano=observed_ns,
        event_name=EVENT_EFFECTS_OBSERVED,
        attributes=_key_values(_observed(run_id, labels, observer, ordered=ordered)),
    )
    logs = ResourceLogs(
        resource=_resource(service, instance),
        scope_logs=[ScopeLogs(scope=InstrumentationScope(name=SCOPE), log_records=[record])],
    )
    return ExportLogsServiceRequest(resource_logs=[logs]).SerializeToString()


def observation_span(  # noqa: PLR0913 - knobs, each with a default
    run_id: str,
    labels: Iterable[str] = EFFECTS,
    *,
    observer: str = "orders-db/v1",
    service: str = "orders-observer",
    instance: str = "observer-1",
    observed_ns: int = START_NS + 60_000 * MS,
    ordered: bool = False,
) -> bytes:
    """Return the same as a span, in an encoded ``ExportTraceServiceRequest``."""
    name = f"{observer}/{run_id}"
    span = Span(
        trace_id=_id(name, 16),
        span_id=_id(name, 8),
        name=EVENT_EFFECTS_OBSERVED,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=observed_ns,
        end_time_unix_nano=observed_ns,
        flags=_FLAGS,
        attributes=_key_values(_observed(run_id, labels, observer, ordered=ordered)),
    )
    return _trace_request([span], SCOPE, service, instance)


def other_spans(count: int, *, start_ns: int = START_NS, service: str = "shop") -> bytes:
    """Return ``count`` spans that are not about agents, as an encoded request."""
    spans = [
        Span(
            trace_id=_id(f"other {number}", 16),
            span_id=_id(f"other {number}", 8),
            name="GET /orders/{id}",
            kind=Span.SPAN_KIND_SERVER,
            start_time_unix_nano=start_ns + number * MS,
            end_time_unix_nano=start_ns + (number + 3) * MS,
            flags=_FLAGS,
            attributes=_key_values(
                {
                    "http.request.method": "GET",
                    "http.route": "/orders/{id}",
                    "http.response.status_code": 200,
                    "server.address": "shop.example",
                    "url.path": f"/orders/{number}",
                    "network.protocol.version": "1.1",
                }
            ),
        )
        for number in range(count)
    ]
    return _trace_request(spans, "opentelemetry.instrumentation.asgi", service, "shop-1")


def shatter(request: bytes) -> Iterator[bytes]:
    """Yield an encoded trace request as many requests with one span each."""
    whole = ExportTraceServiceRequest.FromString(request)
    for resource_spans in whole.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                part = ScopeSpans(scope=scope_spans.scope, spans=[span])
                yield ExportTraceServiceRequest(
                    resource_spans=[
                        ResourceSpans(resource=resource_spans.resource, scope_spans=[part])
                    ]
                ).SerializeToString()


_OWN: Final[Mapping[str, tuple[Mechanism, Reason]]] = {
    "control": (Mechanism.CONTROL, Reason.BASELINE),
    "exact-reuse": (Mechanism.EXACT_REUSE, Reason.EXACT_MATCH),
    "fused-batch": (Mechanism.FUSED_BATCH, Reason.SERIAL_ROUND_TRIP_COLLAPSED),
}


class _Run:
    """Spans of one run in the making, by sequence number."""

    def __init__(  # noqa: PLR0913, PLR0917 - one caller
        self,
        run_id: str,
        arm: str | None,
        variant: str | None,
        model: str,
        trace_state: str,
        trace_id: bytes,
        now_ns: int,
    ) -> None:
        self.spans: list[Span] = []
        self.counts = dict.fromkeys(Entry, 0)
        self._common = {Attr.RUN_ID: run_id, Attr.ARM: arm, Attr.VARIANT: variant}
        self._run_id = run_id
        self._model = model
        self._trace_state = trace_state
        self._trace_id = trace_id
        self._now_ns = now_ns

    def turn(self, turn: Turn, parent: Span) -> None:
        span = self.open(Entry.AGENT_TURN, "agent_turn", parent)
        attempt, answered = 1, 0
        for call in turn.calls:
            self._call(call, span, attempt, f"{span.span_id.hex()} {answered}")
            if call.disposition == Disposition.FAILED:
                attempt += 1
            else:
                attempt, answered = 1, answered + 1
        self.close(span, 0, {Attr.TURN_DISPOSITION: turn.disposition})
        if turn.disposition == Disposition.FAILED:
            _fail(span, "failed")
        for tool in turn.tools:
            said = {
                GenAI.OPERATION_NAME: "execute_tool",
                GenAI.TOOL_NAME: tool,
                Attr.TOOL_DISPOSITION: ToolDisposition.EXECUTED,
                Attr.TOOL_CALLER: ToolCaller.MODEL,
            }
            self.close(self.open(Entry.TOOL_TURN, f"execute_tool {tool}", parent), _TOOL_MS, said)

    def _call(self, call: Call, turn: Span, attempt: int, messages: str) -> None:
        model = call.model or self._model
        span = self.open(Entry.LLM_CALL, f"chat {model}", turn)
        said = {
            GenAI.OPERATION_NAME: "chat",
            GenAI.PROVIDER_NAME: "openai",
            GenAI.REQUEST_MODEL: model,
            Attr.CALL_ATTEMPT: attempt,
            Attr.CALL_INPUT_DIGEST: input_digest(messages),
            Attr.CALL_PURPOSE: call.purpose,
            Attr.CALL_DISPOSITION: call.disposition,
            Attr.CALL_SAMPLINGS: call.samplings,
            Attr.COST_USD: call.cost_usd,
        }
        if call.disposition == Disposition.FAILED:
            _fail(span, "timeout")
        else:
            said |= {GenAI.RESPONSE_MODEL: model, **call.usage}
        self.close(span, _CALL_MS, said)

    def open(self, entry: Entry, name: str, parent: Span | None = None) -> Span:
        seq = len(self.spans)
        span = Span(
            trace_id=self._trace_id,
            span_id=_id(f"{self._run_id}/{seq}", 8),
            parent_span_id=parent.span_id if parent else b"",
            name=name,
            kind=Span.SPAN_KIND_CLIENT if entry is Entry.LLM_CALL else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=self._now_ns,
            flags=_FLAGS,
            trace_state=self._trace_state,
            attributes=_key_values({Attr.ENTRY: entry, Attr.SEQ: seq, **self._common}),
        )
        self.spans.append(span)
        self.counts[entry] += 1
        return span

    def close(self, span: Span, ms: int, said: Mapping[str, Any] | None = None) -> None:
        self._now_ns += ms * MS
        span.end_time_unix_nano = self._now_ns
        span.attributes.extend(_key_values(said or {}))


def _fail(span: Span, error_type: str) -> None:
    span.status.code = Status.STATUS_CODE_ERROR
    span.attributes.extend(_key_values({ERROR_TYPE: error_type}))


def _id(name: str, size: int) -> bytes:
    return sha256(name.encode()).digest()[:size]


def _observed(
    run_id: str, labels: Iterable[str], observer: str, *, ordered: bool
) -> dict[str, Any]:
    return {
        Attr.RUN_ID: run_id,
        Attr.OBSERVER_ID: observer,
        Attr.EFFECTS_LABELS: list(labels),
        Attr.EFFECTS_ORDERED: ordered or None,
    }


def _trace_request(spans: Sequence[Span], scope: str, service: str, instance: str) -> bytes:
    part = ScopeSpans(scope=InstrumentationScope(name=scope, version="1"), spans=spans)
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=_resource(service, instance), scope_spans=[part])]
    ).SerializeToString()


def _resource(service: str, instance: str) -> Resource:
    return Resource(attributes=_key_values({SERVICE_NAME: service, SERVICE_INSTANCE_ID: instance}))


def _key_values(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=_any_value(value))
        for key, value in attributes.items()
        if value is not None
    ]


def _any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=map(_any_value, value)))
