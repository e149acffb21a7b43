"""What is counted on the bytes of a request, before anything of it is decoded."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.errors import TooLargeError
from otel_turnavoid.otlp import limits
from otel_turnavoid.otlp.limits import SPAN, Limits, check_json, exceeds
from otel_turnavoid.testing import run_spans

REQUEST = {1: {2: {}}}


def nested(depth: int) -> AnyValue:
    value = AnyValue(int_value=1)
    for _ in range(depth):
        value = AnyValue(array_value={"values": [value]})
    return value


def test_fields_are_counted_with_those_inside_of_the_shape() -> None:
    span = Span(attributes=[KeyValue(key="k", value=nested(1))]).SerializeToString()
    # attributes, key, value, array_value, values, int_value
    assert not exceeds(span, SPAN, 6)
    assert exceeds(span, SPAN, 5)


def test_what_is_outside_of_the_shape_is_one_field_however_large() -> None:
    span = Span(name="n" * 1000, links=[{"attributes": [{"key": "k"}] * 50}]).SerializeToString()

    assert not exceeds(span, SPAN, 2)
    assert exceeds(span, SPAN, 1)


def test_a_request_is_counted_down_to_its_spans() -> None:
    request = ExportTraceServiceRequest.FromString(run_spans(run_id="r", turns=1))
    body = request.SerializeToString()
    [resource] = request.resource_spans
    [scope] = resource.scope_spans
    # the resource's envelope and its resource, the scope's envelope and its scope, the spans
    count = 4 + len(scope.spans) + bool(resource.schema_url) + bool(scope.schema_url)

    assert not exceeds(body, REQUEST, count)
    assert exceeds(body, REQUEST, count - 1)


@given(body=st.binary(max_size=200), limit=st.integers(0, 5))
@example(body=b"\x4a\xff\xff\xff", limit=0)
@example(body=b"\x4a\x04\x12\xff\xff\xff", limit=1)
def test_any_bytes_are_counted_to_an_end(body: bytes, limit: int) -> None:
    assert exceeds(body, SPAN, limit) in (True, False)


@given(body=st.binary(max_size=200))
def test_no_bytes_have_more_fields_than_half_their_number(body: bytes) -> None:
    assert not exceeds(body, {}, len(body) // 2)


def test_requests_of_usual_size_are_within_the_limits() -> None:
    Limits().check_request(run_spans(run_id="r", turns=500))
    Limits().check_items(100_000)

    with pytest.raises(TooLargeError) as caught:
        Limits().check_items(100_001)
    assert str(caught.value) == "request: more than 100000 spans or log records"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VALUES", 4)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "body",
    [
        b"[1,2]",
        b'{"a":[1]}',
        b'"a,b,c,d,e,f,g"',
        rb'["\",,,,,,\\"]',
        rb'["\\\\\",,,,,"]',
        b'"[[[[[[[[',
    ],
)
def test_json_of_few_values_is_taken_whatever_its_texts_hold(body: bytes) -> None:
    check_json(body)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "body",
    [
        b"[1,2,3,4,5]",
        b"[[[[[",
        b"{}{}{}{}{}",
        rb'["\\",1,2,3,4]',
        b'"","","","","",""',
        b'""' * 20 + b"," * 5,
    ],
)
def test_json_of_many_values_is_too_large(body: bytes) -> None:
    with pytest.raises(TooLargeError) as caught:
        check_json(body)

    assert str(caught.value) == "more than 4 JSON values in one request"
