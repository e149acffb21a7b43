from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from otel_turnavoid.dialects import Reader, Refusal, SpanView
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.judge.settings import ArmRule, Settings
from otel_turnavoid.otlp import Batch, attributes, read_traces
from otel_turnavoid.vocabulary import Arm, Entry

MakeRequest = Callable[..., bytes]
SETTINGS = Settings(
    arms={"deployment.arm": {"control": ArmRule(arm=Arm.CONTROL, variant="v")}},
    digest=("gen_ai.input.messages",),
    runs={"run-1": "deployment.arm"},
)


def part(number: int, payload: bytes) -> bytes:
    """Write one length-delimited field."""
    length, size = len(payload), b""
    while length > 0x7F:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + payload


def request_with(attribute: bytes) -> bytes:
    """Write a request with one span that has one attribute, given as it is on the wire."""
    span = Span(trace_id=b"\1" * 16, span_id=b"\2" * 8).SerializeToString()
    return part(1, part(2, part(2, span + part(9, attribute))))


def plain(value: AnyValue) -> Any:
    match value.WhichOneof("value"):
        case "array_value":
            return [plain(item) for item in value.array_value.values]
        case "kvlist_value":
            return {item.key: plain(item.value) for item in value.kvlist_value.values}
        case None:
            return None
        case kind:
            return getattr(value, kind)


def fully_decoded(body: bytes, reader: Reader) -> Batch:
    """Read a request in the plain way: all of it decoded, every attribute looked at."""
    facts: list[SpanFact] = []
    observations: list[Observation] = []
    spans = ignored = rejected = 0
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = {item.key: plain(item.value) for item in resource_spans.resource.attributes}
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                spans += 1
                attributes = {item.key: plain(item.value) for item in span.attributes}
                ids_are_good = (
                    len(span.trace_id) == 16
                    and len(span.span_id) == 8
                    and any(span.trace_id)
                    and any(span.span_id)
                )
                found = reader.read(
                    SpanView(
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
                        name=span.name,
                        kind=span.kind,
                        start_ns=span.start_time_unix_nano,
                        end_ns=span.end_time_unix_nano,
                        status_error=span.status.code == 2,
                        trace_state=span.trace_state,
                        attributes={k: v for k, v in attributes.items() if k in reader.wanted},
                        dropped_attributes=span.dropped_attributes_count,
                        scope=scope_spans.scope.name,
                        scope_version=scope_spans.scope.version,
                        resource={k: v for k, v in resource.items() if k in reader.wanted},
                        dropped_resource_attributes=resource_spans.resource.dropped_attributes_count,
                    )
                )
                mentioned = any(prefix in span.SerializeToString() for prefix in reader.prefixes)
                usable = (
                    len(span.parent_span_id) in (0, 8)
                    and max(span.start_time_unix_nano, span.end_time_unix_nano) < 2**63
                )
                if not ids_are_good or (mentioned and not usable) or isinstance(found, Refusal):
                    rejected += 1
                elif found is None:
                    ignored += 1
                elif isinstance(found, SpanFact):
                    facts.append(found)
                else:
                    observations.append(found)
    return Batch(
        facts=facts, observations=observations, spans=spans, ignored=ignored, rejected=rejected
    )


def summary(batch: Batch) -> tuple[Any, ...]:
    return (batch.facts, batch.observations, batch.spans, batch.ignored, batch.rejected)


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(data=st.data())
def test_the_lazy_path_says_what_the_full_decoder_says(
    data: st.DataObject, trace_requests: st.SearchStrategy[ExportTraceServiceRequest]
) -> None:
    reader = Reader(SETTINGS)
    body = data.draw(trace_requests).SerializeToString()

    lazy = read_traces(body, reader)

    assert summary(lazy) == summary(fully_decoded(body, reader))
    assert bool(lazy.problem) == bool(lazy.rejected)
    assert lazy.spans == len(lazy.facts) + len(lazy.observations) + lazy.ignored + lazy.rejected


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(data=st.data())
def test_a_damaged_request_is_read_or_refused_but_never_crashes(
    data: st.DataObject, trace_requests: st.SearchStrategy[ExportTraceServiceRequest]
) -> None:
    body = bytearray(data.draw(trace_requests).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])

    try:
        batch = read_traces(cut, Reader(SETTINGS))
    except InputError as error:
        assert "not readable as OTLP protobuf" in str(error)  # noqa: PT017 - either is right
    else:
        assert batch.spans == sum(
            (len(batch.facts), len(batch.observations), batch.ignored, batch.rejected)
        )


def test_the_fields_of_a_span_become_those_of_its_fact(span_request: MakeRequest) -> None:
    body = span_request(
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "server.port": 1},
        resource={"service.name": "desk", "service.instance.id": "i", "turnavoid.arm": "control"},
        scope="refunds",
        parent_span_id=b"\3" * 8,
    )

    [fact] = read_traces(body, Reader()).facts

    assert (fact.trace_id, fact.span_id, fact.parent_id) == ("01" * 16, "02" * 8, "03" * 8)
    assert (fact.scope, fact.service, fact.instance) == ("refunds", "desk", "i")
    assert (fact.start_ns, fact.end_ns) == (10, 20)
    assert (fact.entry, fact.arm) == (Entry.LLM_CALL, Arm.CONTROL)


def test_an_empty_body_is_a_request_without_telemetry() -> None:
    assert read_traces(b"", Reader()) == Batch()


def test_a_resource_of_ours_does_not_make_its_plain_spans_ours(span_request: MakeRequest) -> None:
    body = span_request({"http.request.method": "GET"}, resource={"turnavoid.arm": "control"})

    assert read_traces(body, Reader()) == Batch(spans=1, ignored=1)


def test_a_value_that_looks_like_a_key_does_not_make_a_span_ours(
    span_request: MakeRequest,
) -> None:
    body = span_request({"note": "see gen_ai.operation.name and turnavoid.entry"})

    assert read_traces(body, Reader()) == Batch(spans=1, ignored=1)


@pytest.mark.parametrize("attributes", [{}, {"gen_ai.operation.name": "chat"}])
@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ({"trace_id": b""}, "the trace id is missing"),
        ({"trace_id": bytes(16)}, "the trace id is all zeros"),
        ({"trace_id": b"\1" * 15}, "the trace id is not 16 bytes long"),
        ({"span_id": b""}, "the span id is missing"),
        ({"span_id": bytes(8)}, "the span id is all zeros"),
        ({"span_id": b"\1" * 16}, "the span id is not 8 bytes long"),
    ],
)
def test_a_span_with_bad_ids_is_refused_singly_whatever_it_is_about(
    span_request: MakeRequest, attributes: dict[str, Any], ids: dict[str, bytes], reason: str
) -> None:
    bad = span_request(attributes, **ids)
    good = span_request({"gen_ai.operation.name": "chat"})

    batch = read_traces(bad + good, Reader())

    assert (len(batch.facts), batch.rejected, batch.spans) == (1, 1, 2)
    assert batch.problem == f"spans refused: 1; {reason} (1)"


def test_the_problem_names_no_more_than_three_reasons(span_request: MakeRequest) -> None:
    body = b"".join(
        span_request({}, **ids)
        for ids in (
            {"trace_id": b""},
            {"trace_id": b""},
            {"trace_id": bytes(16)},
            {"span_id": b""},
            {"span_id": bytes(8)},
        )
    )

    assert read_traces(body, Reader()).problem == (
        "spans refused: 5; the trace id is missing (2); the trace id is all zeros (1); "
        "the span id is missing (1); and 1 more reasons"
    )


def test_a_time_that_no_ledger_can_hold_is_refused_singly(span_request: MakeRequest) -> None:
    body = span_request({"gen_ai.operation.name": "chat"}, end_time_unix_nano=2**63)

    batch = read_traces(body, Reader())

    assert batch.problem == "spans refused: 1; a time lies beyond the year 2262 (1)"


def test_a_zero_parent_id_is_no_parent(span_request: MakeRequest) -> None:
    body = span_request({"gen_ai.operation.name": "chat"}, parent_span_id=bytes(8))

    assert read_traces(body, Reader()).facts[0].parent_id is None


def test_a_truncated_request_is_refused_as_a_whole(span_request: MakeRequest) -> None:
    body = span_request({"gen_ai.operation.name": "chat"})

    with pytest.raises(InputError, match=r"^traces request: not readable as OTLP protobuf: "):
        read_traces(body[:-1], Reader())


@pytest.mark.parametrize("value", [b"\xff", b"\xff" * 200])
def test_invalid_utf8_in_what_is_wanted_refuses_the_request(
    span_request: MakeRequest, value: bytes
) -> None:
    good = span_request({"gen_ai.request.model": "@" * len(value)})

    with pytest.raises(InputError, match="not readable as OTLP protobuf"):
        read_traces(good.replace(b"@" * len(value), value), Reader())


def test_a_value_nested_too_deep_refuses_the_request() -> None:
    value = AnyValue(string_value="bottom").SerializeToString()
    for _ in range(60):
        value = part(5, part(1, value))  # an array with one value
    pair = part(1, b"gen_ai.request.model") + part(2, value)

    with pytest.raises(InputError, match="not readable as OTLP protobuf"):
        read_traces(request_with(pair), Reader())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            KeyValue(value=AnyValue(string_value="chat")).SerializeToString()
            + KeyValue(key="gen_ai.operation.name").SerializeToString(),
            id="value before key",
        ),
        pytest.param(
            KeyValue(key="other", value=AnyValue(string_value="chat")).SerializeToString()
            + KeyValue(key="gen_ai.operation.name").SerializeToString(),
            id="the last key counts",
        ),
        pytest.param(
            KeyValue(
                key="gen_ai.operation.name", value=AnyValue(string_value="embeddings")
            ).SerializeToString()
            + KeyValue(value=AnyValue(string_value="chat")).SerializeToString(),
            id="the last value counts",
        ),
        pytest.param(
            b"\x0a\x95\x00gen_ai.operation.name"
            + KeyValue(value=AnyValue(string_value="chat")).SerializeToString(),
            id="a length longer than needed",
        ),
    ],
)
def test_attributes_in_unusual_forms_are_read_as_protobuf_reads_them(raw: bytes) -> None:
    facts = read_traces(request_with(raw), Reader()).facts

    assert [fact.entry for fact in facts] == [Entry.LLM_CALL]


def test_parts_of_one_resource_are_put_together(span_request: MakeRequest) -> None:
    """Protobuf merges repeated occurrences of a message; the view must join their bytes."""
    request = ExportTraceServiceRequest.FromString(
        span_request({"gen_ai.operation.name": "chat"}, resource={"service.name": "desk"})
    )
    other = ExportTraceServiceRequest.FromString(
        span_request(resource={"service.instance.id": "i"})
    ).resource_spans[0]
    more = ResourceSpans(resource=other.resource).SerializeToString()
    inner = request.resource_spans[0].SerializeToString() + more

    [fact] = read_traces(part(1, inner), Reader()).facts

    assert (fact.service, fact.instance) == ("desk", "i")


def test_the_last_of_a_repeated_attribute_counts(span_request: MakeRequest) -> None:
    request = ExportTraceServiceRequest.FromString(
        span_request({"gen_ai.operation.name": "chat", "gen_ai.request.model": "first"})
    )
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="gen_ai.request.model", value=AnyValue(string_value="last"))

    [fact] = read_traces(request.SerializeToString(), Reader()).facts

    assert fact.call is not None
    assert fact.call.model == "last"


def test_a_reference_into_a_string_table_is_absent_and_said_once(
    span_request: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    request = ExportTraceServiceRequest.FromString(span_request({"gen_ai.operation.name": "chat"}))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    attributes._warn_of_references.cache_clear()
    if "string_value_strindex" not in AnyValue.DESCRIPTOR.fields_by_name:
        pytest.skip("this opentelemetry-proto has no string table references yet")
    for index in (3, 4):
        value = AnyValue(string_value_strindex=index)
        span.attributes.add(key="gen_ai.request.model", value=value)

    [fact] = read_traces(request.SerializeToString(), Reader()).facts

    assert fact.call is not None
    assert fact.call.model is None
    assert caplog.messages == [
        "attribute values refer to a string table, which only profiles have; left out"
    ]


def test_a_span_that_observes_keeps_the_role_of_its_credential(span_request: MakeRequest) -> None:
    body = span_request(
        {
            "turnavoid.run.id": "r",
            "turnavoid.observer.id": "o",
            "turnavoid.effects.labels": ["b", "a", "a"],
        },
        resource={"service.name": "billing"},
        name="turnavoid.effects.observed",
    )

    assert read_traces(body, Reader(), role="observer").observations == [
        Observation(
            run_id="r",
            observer="o",
            labels=("b", "a", "a"),
            observed_ns=20,
            service="billing",
            role="observer",
        )
    ]
