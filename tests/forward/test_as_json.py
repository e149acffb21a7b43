"""Protobuf -> OTLP/JSON, checked with the decoder that the receiver uses."""

from __future__ import annotations

import math

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid import otlp
from otel_turnavoid.forward import Signal
from otel_turnavoid.forward.as_json import as_json
from otel_turnavoid.testing import observation, run_spans

TRACE_ID, SPAN_ID = bytes(range(16)), bytes(range(8))


def test_spans_come_back_as_they_were():
    body = run_spans(run_id="r", turns=3)

    back = otlp.traces_from_json(as_json(body, Signal.TRACES))

    assert ExportTraceServiceRequest.FromString(back) == ExportTraceServiceRequest.FromString(body)


def test_log_records_come_back_as_they_were():
    body = observation("r")

    back = otlp.logs_from_json(as_json(body, Signal.LOGS))

    assert ExportLogsServiceRequest.FromString(back) == ExportLogsServiceRequest.FromString(body)


def test_ids_are_hex_enumerations_are_numbers_and_bytes_are_base64():
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.parent_span_id = TRACE_ID, SPAN_ID, SPAN_ID
    span.kind = 3
    span.start_time_unix_nano = 2**60
    span.links.add(trace_id=TRACE_ID, span_id=SPAN_ID)
    span.attributes.add(key="b").value.bytes_value = b"\xff"
    span.attributes.add(key="n").value.double_value = math.nan

    written = msgspec.json.decode(as_json(request.SerializeToString(), Signal.TRACES))

    assert written["resourceSpans"][0]["scopeSpans"][0]["spans"] == [
        {
            "traceId": TRACE_ID.hex(),
            "spanId": SPAN_ID.hex(),
            "parentSpanId": SPAN_ID.hex(),
            "kind": 3,
            "startTimeUnixNano": str(2**60),
            "attributes": [
                {"key": "b", "value": {"bytesValue": "/w=="}},
                {"key": "n", "value": {"doubleValue": "NaN"}},
            ],
            "links": [{"traceId": TRACE_ID.hex(), "spanId": SPAN_ID.hex()}],
        }
    ]
