"""What the fuzzer begins with: small input of every kind, made by our own builders."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from fuzz.mutating import spans_of
from otel_turnavoid.forward.as_json import as_json
from otel_turnavoid.forward.request import Signal
from otel_turnavoid.ledger import NO_OVERHEAD, EffectObservation, Gross, RetainedTurnReduction, Row
from otel_turnavoid.testing import observation, observation_span, other_spans, run_spans

_GROSS: Final = Gross(
    model_latency_ms=10.0, tool_latency_ms=1.5, model_cost_usd=0.25, tool_cost_usd=0.0
)
_SEEN: Final = EffectObservation(
    independent_observer="db", control_required=("a=1",), candidate_required=("a=1",)
)


_JUDGING: Final = b"""
processors:
  turnavoid:
    accept: [declared, inferred]
    decision_wait: 1h30m
    arms: {team: {a: &a {arm: control}, b: {<<: *a, arm: exact-reuse}}}
"""
_FORWARDING: Final = b"""
exporters:
  otlp: {endpoint: "http://localhost:4317", headers: {a: "${env:NAME}"}}
  prometheus: {endpoint: "localhost:9464"}
"""
_SERVICE: Final = b"""
extensions: {ledger: {url: "sqlite:///l.db"}}
service:
  extensions: [ledger]
  pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}
  telemetry: {logs: {level: warn}}
"""


def trace_requests() -> list[bytes]:
    """Runs, spans of others, an observation as a span."""
    return [
        b"",
        run_spans(run_id="r", turns=1),
        run_spans(run_id="r", arm="exact-reuse", turns=0, state="failed", variant="b"),
        other_spans(2),
        observation_span("r"),
    ]


def log_requests() -> list[bytes]:
    """Observations."""
    return [b"", observation("r"), observation("r", ["a=1", "b=2"], ordered=True), _flag()]


def _flag() -> bytes:
    said = {"feature_flag.key": "reuse", "feature_flag.result.variant": "on", "body": "text"}
    record = LogRecord(
        event_name="feature_flag.evaluation",
        trace_id=b"\1" * 16,
        span_id=b"\2" * 8,
        time_unix_nano=5,
        body=AnyValue(string_value="text"),
        attributes=[
            KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in said.items()
        ],
    )
    scope = ScopeLogs(log_records=[record])
    request = ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[scope])])
    return request.SerializeToString()


def attributes() -> list[bytes]:
    """Those of a run, one by one."""
    request = ExportTraceServiceRequest.FromString(run_spans(run_id="r", turns=1))
    found = {each.SerializeToString() for span in spans_of(request) for each in span.attributes}
    return sorted(found)


def trace_requests_as_json() -> list[bytes]:
    """The same in JSON."""
    return [as_json(body, Signal.TRACES) for body in trace_requests()]


def log_requests_as_json() -> list[bytes]:
    """The same in JSON."""
    return [as_json(body, Signal.LOGS) for body in log_requests()]


def configurations() -> list[bytes]:
    """Sections of every kind, and what YAML has besides."""
    return [
        b"",
        b"receivers: {otlp: {protocols: {grpc: {endpoint: 'localhost:4317'}, http: }}}\n",
        _JUDGING,
        _FORWARDING,
        _SERVICE,
        b"a: !!int '0x1F'\nb: ~\nc: |\n  text\nd: 1e5\n",
    ]


def trace_files() -> list[bytes]:
    """Inputs with their three arms."""
    return [b"", _rows(), _rows(tokens=5), _rows().replace(b"\n", b"\r\n"), _rows(turn=3) + b"{"]


def _rows(*, turn: int = 0, tokens: int = 0) -> bytes:
    control: dict[str, Any] = {
        "schema_version": "fak.turnavoid.trace/v1",
        "trace_id": "t",
        "unit_id": "u",
        "turn_index": turn,
        "decision_basis_through_turn": -1,
        "input_digest": "sha256:" + "0a" * 32,
        "arm": "control",
        "mechanism": "control",
        "lifecycle": "realized",
        "reason": "baseline",
        "control_committed_model_turns": 4,
        "candidate_committed_model_turns": 4,
        "required_effect_observation": _SEEN,
        "control_gross": _GROSS,
        "candidate_gross": _GROSS,
        "overhead": NO_OVERHEAD,
    }
    reuse = control | {
        "arm": "exact-reuse",
        "mechanism": "exact-reuse",
        "reason": "exact-match",
        "candidate_committed_model_turns": 3,
    }
    if tokens:
        reuse["retained_turn_reduction"] = RetainedTurnReduction(tokens=tokens, latency_ms=0.5)
    fused = control | {
        "arm": "fused-batch",
        "mechanism": "unknown",
        "lifecycle": "attempted",
        "reason": "unknown",
        "candidate_committed_model_turns": 2,
    }
    return b"".join(msgspec.json.encode(Row(**row)) + b"\n" for row in (control, reuse, fused))


def recorded_files() -> list[bytes]:
    """Conversations of every shape, session logs, requests."""
    asked = {"role": "user", "content": "Cancel order 42"}
    call = {"id": "c1", "function": {"name": "cancel", "arguments": "{}"}}
    answered = {"role": "assistant", "id": "m1", "tool_calls": [call], "usage": {"input_tokens": 3}}
    messages = [asked, answered, {"role": "tool", "tool_call_id": "c1"}]
    blocks = [{"type": "tool_use", "id": "t1", "name": "cancel"}]
    dialogue = [{"k": "assistant", "usage": {"in": 1, "out": 2}, "ts": "2026-01-02T03:04:05Z"}]
    log = [{"k": "assistant", "msg": "m", "block": "tool_use", "call": "c", "model": "m"}]
    rounds = [{"round": 1, "action": "cancel", "latency_ms": 7}]
    effects = {"goal_hash": "a", "observed_hash": "a", "initial_hash": "b", "db_match": True}
    values: list[Any] = [
        messages,
        [[asked, {"role": "assistant", "content": blocks}], messages],
        {"messages": messages, "task_id": 7, "reward": 1, "turnavoid.arm": "control"},
        *(
            {"task_id": 1, "events": events, "reward": 0.5, "end": "2026-01-02 03:04:05.5+01:00"}
            for events in (dialogue, log, rounds)
        ),
        {"task_id": 7, **effects},
    ]
    session = [
        {"kind": "segment_start", "ts": 1, "session_id": "s", "config": {"model": "m"}},
        {"kind": "invoke", "ts": 2, "trigger": "user_send"},
        {"kind": "llm_usage", "ts": 3, "history_len": 2, "input_total_tokens": 5},
        {"kind": "assistant_item", "ts": 4, "item": {"kind": "tool_call", "call_id": "c"}},
        {"kind": "tool_result", "ts": 5, "item": {"call_id": "c", "is_error": True}},
        {"kind": "run_completed", "ts": 6, "result": "finished"},
    ]
    lines = [b"\n".join(json.dumps(entry).encode() for entry in each) for each in (values, session)]
    bodies = [run_spans(run_id="r", turns=1), observation("r"), *trace_requests_as_json()]
    return [
        *(json.dumps(value).encode() for value in values),
        *lines,
        *bodies,
        gzip.compress(b"[]"),
    ]


def gzipped() -> list[bytes]:
    """One member, several, and one that expands."""
    member = gzip.compress(b"some text, some text", mtime=0)
    return [b"", member, member * 3, gzip.compress(bytes(1 << 15), mtime=0), member[:-3]]


def decisions() -> list[bytes]:
    """Bytes that decide on each kind of damage."""
    return [
        bytes([turns, side, how]) + bytes(range(1, 60))
        for turns in (0, 1)
        for side in (0, 1)
        for how in range(4)
    ]
