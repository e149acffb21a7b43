"""Arbitrary OTLP requests, and the plain way to read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

KEYS = [
    "turnavoid.entry",
    "turnavoid.run.id",
    "turnavoid.seq",
    "turnavoid.arm",
    "turnavoid.input.digest",
    "turnavoid.observer.id",
    "turnavoid.effects.labels",
    "turnavoid.not.ours",
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.input.messages",
    "error.type",
    "event.name",
    "service.name",
    "service.instance.id",
    "process.pid",
    "host.name",
    "llm.token_count.prompt",
    "deployment.arm",
    "k" * 127,
    "k" * 128,
    "",
]
WORDS = [
    "invoke",
    "llm_call",
    "tool_turn",
    "chat",
    "execute_tool",
    "invoke_agent",
    "embeddings",
    "control",
    "fused-batch",
    "turnavoid.effects.observed",
    "run-1",
    "sha256:" + "0" * 64,
    "a gen_ai. in a value",
    "x" * 200,
    '[{"role": "user"}]',
    '[{"role": "us',
]

texts = st.sampled_from(WORDS) | st.text(max_size=8)
leaves = st.one_of(
    st.builds(lambda text: AnyValue(string_value=text), texts),
    st.builds(lambda number: AnyValue(int_value=number), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda number: AnyValue(int_value=number), st.integers(0, 3)),
    st.builds(lambda flag: AnyValue(bool_value=flag), st.booleans()),
    st.builds(lambda number: AnyValue(double_value=number), st.floats(allow_nan=False)),
    st.builds(lambda body: AnyValue(bytes_value=body), st.binary(max_size=4)),
    st.builds(AnyValue),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            lambda items: AnyValue(array_value=ArrayValue(values=items)),
            st.lists(inner, max_size=3),
        ),
        st.builds(
            lambda items: AnyValue(
                kvlist_value=KeyValueList(
                    values=[KeyValue(key=key, value=value) for key, value in items.items()]
                )
            ),
            st.dictionaries(texts, inner, max_size=2),
        ),
    ),
    max_leaves=4,
)
attributes = st.lists(
    st.builds(
        lambda key, value: KeyValue(key=key, value=value),
        st.sampled_from(KEYS) | st.text(max_size=5),
        values,
    ),
    max_size=8,
)
dropped = st.sampled_from([0, 0, 3, 2**32 - 1])
resources = st.builds(Resource, attributes=attributes, dropped_attributes_count=dropped)
scopes = st.builds(
    lambda name, version: InstrumentationScope(name=name, version=version), texts, texts
)
trace_ids = st.binary(min_size=16, max_size=16) | st.sampled_from([b"", bytes(16), b"\1" * 15])
span_ids = st.binary(min_size=8, max_size=8) | st.sampled_from([b"", bytes(8), b"\1" * 9])
times = st.integers(0, 2**64 - 1) | st.integers(1, 2**62)
spans = st.builds(
    Span,
    trace_id=trace_ids,
    span_id=span_ids,
    parent_span_id=span_ids,
    trace_state=st.sampled_from(["", "ot=th:8", "ot=th:0", "x=y"]),
    name=texts,
    kind=st.integers(0, 6),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    dropped_attributes_count=dropped,
    events=st.lists(st.builds(Span.Event, name=texts, attributes=attributes), max_size=2),
    status=st.none() | st.builds(Status, message=texts, code=st.integers(0, 2)),
    flags=st.integers(0, 2**32 - 1),
)
records = st.builds(
    LogRecord,
    time_unix_nano=times,
    observed_time_unix_nano=times,
    severity_number=st.integers(0, 24),
    body=st.none() | values,
    attributes=attributes,
    dropped_attributes_count=dropped,
    trace_id=trace_ids,
    span_id=span_ids,
    event_name=texts,
)


@pytest.fixture(scope="session")
def trace_requests() -> st.SearchStrategy[ExportTraceServiceRequest]:
    """Arbitrary trace requests, many of them about agents and many broken."""
    scope_spans = st.builds(ScopeSpans, scope=scopes, spans=st.lists(spans, max_size=4))
    resource_spans = st.builds(
        ResourceSpans, resource=resources, scope_spans=st.lists(scope_spans, max_size=2)
    )
    return st.builds(ExportTraceServiceRequest, resource_spans=st.lists(resource_spans, max_size=2))


@pytest.fixture(scope="session")
def log_requests() -> st.SearchStrategy[ExportLogsServiceRequest]:
    """Arbitrary log requests, many with observations."""
    scope_logs = st.builds(ScopeLogs, scope=scopes, log_records=st.lists(records, max_size=4))
    resource_logs = st.builds(
        ResourceLogs, resource=resources, scope_logs=st.lists(scope_logs, max_size=2)
    )
    return st.builds(ExportLogsServiceRequest, resource_logs=st.lists(resource_logs, max_size=2))


@pytest.fixture(scope="session")
def span_request() -> Callable[..., bytes]:
    """Make a serialized trace request with one good span, changed as the test wants."""

    def make(
        attributes: dict[str, Any] | None = None,
        *,
        resource: dict[str, Any] | None = None,
        scope: str = "scope",
        **span: Any,
    ) -> bytes:
        given = {
            "trace_id": b"\1" * 16,
            "span_id": b"\2" * 8,
            "name": "name",
            "start_time_unix_nano": 10,
            "end_time_unix_nano": 20,
            **span,
        }
        return ExportTraceServiceRequest(
            resource_spans=[
                ResourceSpans(
                    resource=Resource(attributes=pairs(resource or {})),
                    scope_spans=[
                        ScopeSpans(
                            scope=InstrumentationScope(name=scope),
                            spans=[Span(attributes=pairs(attributes or {}), **given)],
                        )
                    ],
                )
            ]
        ).SerializeToString()

    return make


@pytest.fixture(scope="session")
def record_request() -> Callable[..., bytes]:
    """Make a serialized log request with one record, changed as the test wants."""

    def make(attributes: dict[str, Any], *, resource: dict[str, Any], **record: Any) -> bytes:
        return ExportLogsServiceRequest(
            resource_logs=[
                ResourceLogs(
                    resource=Resource(attributes=pairs(resource)),
                    scope_logs=[
                        ScopeLogs(log_records=[LogRecord(attributes=pairs(attributes), **record)])
                    ],
                )
            ]
        ).SerializeToString()

    return make


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))
    return AnyValue(string_value=value)
