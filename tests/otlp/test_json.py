from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp import logs_from_json, read_logs, read_traces, traces_from_json

HEX = {"traceId", "spanId", "parentSpanId"}


def otlp_json(request: Any) -> bytes:
    """Write a request as OTLP/JSON: the stock mapping, with numbers for enums and hex for ids."""
    return json.dumps(with_hex(MessageToDict(request, use_integers_for_enums=True))).encode()


def with_hex(value: Any) -> Any:
    if isinstance(value, list):
        return [with_hex(item) for item in value]
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex() if key in HEX else with_hex(item)
            for key, item in value.items()
        }
    return value


def spans(*given: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(given)}]}]}).encode()


def only_span(body: bytes) -> Any:
    request = ExportTraceServiceRequest.FromString(traces_from_json(body))
    return request.resource_spans[0].scope_spans[0].spans[0]


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(data=st.data())
def test_the_same_traces_as_json_and_as_protobuf_are_the_same_request_and_facts(
    data: st.DataObject, trace_requests: st.SearchStrategy[ExportTraceServiceRequest]
) -> None:
    request = data.draw(trace_requests)

    converted = traces_from_json(otlp_json(request))

    assert ExportTraceServiceRequest.FromString(converted) == request
    assert read_traces(converted, Reader()) == read_traces(request.SerializeToString(), Reader())


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(data=st.data())
def test_the_same_logs_as_json_and_as_protobuf_are_the_same_request_and_observations(
    data: st.DataObject, log_requests: st.SearchStrategy[ExportLogsServiceRequest]
) -> None:
    request = data.draw(log_requests)

    converted = logs_from_json(otlp_json(request))

    assert ExportLogsServiceRequest.FromString(converted) == request
    assert read_logs(converted, Reader()) == read_logs(request.SerializeToString(), Reader())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["resourceSpans", "scopeSpans", "spans", "traceId", "kind", "attributes", "value"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(value=json_values)
def test_any_json_is_converted_or_refused_but_never_crashes(value: Any) -> None:
    try:
        traces_from_json(json.dumps(value).encode())
    except InputError as error:
        assert "want" in error.problem or "JSON" in error.problem  # noqa: PT017


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(body=st.binary(max_size=40))
def test_any_bytes_are_converted_or_refused_but_never_crash(body: bytes) -> None:
    try:
        traces_from_json(body)
    except InputError:
        return


def test_ids_are_hex_in_either_case_and_empty_is_absent() -> None:
    span = only_span(spans({"traceId": "AB" * 16, "spanId": "cd" * 8, "parentSpanId": ""}))

    assert (span.trace_id, span.span_id, span.parent_span_id) == (b"\xab" * 16, b"\xcd" * 8, b"")


def test_keys_in_snake_case_are_unknown_and_unknown_keys_are_ignored() -> None:
    span = only_span(spans({"name": "n", "trace_id": "ab", "start_time_unix_nano": 1, "new": {}}))

    assert span.SerializeToString() == b"\x2a\x01n"


def test_null_is_absent() -> None:
    span = only_span(spans({"name": None, "attributes": None, "status": None}))

    assert span.SerializeToString() == b""


@pytest.mark.parametrize("given_as", [5, "5", 5.0])
def test_64_bit_integers_are_numbers_or_decimal_strings(given_as: object) -> None:
    value = {"intValue": given_as}
    span = only_span(
        spans({"startTimeUnixNano": given_as, "attributes": [{"key": "k", "value": value}]})
    )

    assert (span.start_time_unix_nano, span.attributes[0].value.int_value) == (5, 5)


def test_the_largest_integers_keep_every_digit() -> None:
    span = only_span(spans({"startTimeUnixNano": str(2**64 - 1), "endTimeUnixNano": 2**63 + 1}))

    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (2**64 - 1, 2**63 + 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [("Infinity", float("inf")), ("-Infinity", float("-inf")), ("1.5e3", 1500.0), (2, 2.0)],
)
def test_doubles_may_be_strings_and_infinite(text: object, number: float) -> None:
    span = only_span(spans({"attributes": [{"key": "k", "value": {"doubleValue": text}}]}))

    assert span.attributes[0].value.double_value == number


def test_a_double_may_be_not_a_number() -> None:
    span = only_span(spans({"attributes": [{"key": "k", "value": {"doubleValue": "NaN"}}]}))

    assert span.attributes[0].value.double_value != span.attributes[0].value.double_value


@pytest.mark.parametrize("text", ["+/8=", "+/8", "-_8=", "-_8"])
def test_other_bytes_are_base64_of_either_alphabet(text: str) -> None:
    span = only_span(spans({"attributes": [{"key": "k", "value": {"bytesValue": text}}]}))

    assert span.attributes[0].value.bytes_value == b"\xfb\xff"


def test_enumeration_numbers_that_nobody_knows_survive() -> None:
    assert only_span(spans({"kind": 99})).kind == 99


def test_an_empty_object_is_a_request_without_telemetry() -> None:
    assert traces_from_json(b"{}") == b""


def attribute(value: object) -> bytes:
    return spans({"attributes": [{"key": "k", "value": value}]})


SPAN = "resourceSpans[0].scopeSpans[0].spans[0]"
VALUE = f"{SPAN}.attributes[0].value"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "want an object, got an array"),
        (b'{"resourceSpans": {}}', "resourceSpans: want an array, got a mapping"),
        (b'{"resourceSpans": [null]}', "resourceSpans[0]: want an object, got None"),
        (spans({"name": 5}), f"{SPAN}.name: want a string, got 5"),
        (
            spans({"traceId": "xyz"}),
            f"{SPAN}.traceId: want hex digits, got a string of 3 characters",
        ),
        (
            spans({"traceId": "abc"}),
            f"{SPAN}.traceId: want hex digits, got a string of 3 characters",
        ),
        (spans({"traceId": 7}), f"{SPAN}.traceId: want hex digits, got 7"),
        (
            spans({"kind": "SPAN_KIND_CLIENT"}),
            f"{SPAN}.kind: want the number of an enumeration value, got a string of 16 characters",
        ),
        (
            spans({"kind": "3"}),
            f"{SPAN}.kind: want the number of an enumeration value, got a string of 1 characters",
        ),
        (
            spans({"startTimeUnixNano": True}),
            f"{SPAN}.startTimeUnixNano: want an integer, as a number or a decimal string, got True",
        ),
        (
            spans({"startTimeUnixNano": -1}),
            f"{SPAN}.startTimeUnixNano: want an integer from 0 to {2**64 - 1}, got -1",
        ),
        (
            attribute({"intValue": "1.5"}),
            (
                f"{VALUE}.intValue: want an integer, as a number or a decimal string,"
                " got a string of 3 characters"
            ),
        ),
        (
            attribute({"intValue": str(2**63)}),
            f"{VALUE}.intValue: want an integer from {-(2**63)} to {2**63 - 1}, got {2**63}",
        ),
        (attribute({"boolValue": 1}), f"{VALUE}.boolValue: want true or false, got 1"),
        (
            attribute({"doubleValue": "x"}),
            f"{VALUE}.doubleValue: want a number, got a string of 1 characters",
        ),
        (
            attribute({"bytesValue": "?"}),
            f"{VALUE}.bytesValue: want base64, got a string of 1 characters",
        ),
        (attribute({"bytesValue": 1}), f"{VALUE}.bytesValue: want base64, got 1"),
        (
            attribute({"stringValue": "a", "intValue": 1}),
            f"{VALUE}.intValue: a second value beside string_value",
        ),
        (attribute("text"), f"{VALUE}: want an object, got a string of 4 characters"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_by_its_path(body: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        traces_from_json(body)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{} {}", b'{"resourceSpans": [NaN]}', b"\xff", b'"\\ud800"', b"[" * 100_000],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(InputError, match=r"^not readable as JSON: "):
        traces_from_json(body)


def test_values_nested_too_deep_are_refused_like_too_deep_protobuf() -> None:
    value: Any = {"stringValue": "bottom"}
    for _ in range(60):
        value = {"arrayValue": {"values": [value]}}

    with pytest.raises(InputError, match="nested deeper than 100 messages"):
        traces_from_json(attribute(value))


def test_a_span_with_ids_of_the_wrong_length_is_left_for_partial_success(
    span_request: Callable[..., bytes],
) -> None:
    body = spans({"traceId": "ab", "spanId": "cd" * 8})

    batch = read_traces(traces_from_json(body), Reader())

    assert batch.problem == "spans refused: 1; the trace id is not 16 bytes long (1)"
