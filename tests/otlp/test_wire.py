from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from otel_turnavoid.otlp.wire import BYTES, FIXED32, FIXED64, VARINT, fields, varint


def test_fields_are_told_by_number_and_wire_type() -> None:
    record = LogRecord(
        time_unix_nano=1, severity_number=9, severity_text="info", flags=1, event_name="e" * 300
    )

    assert list(fields(record.SerializeToString())) == [
        (1, FIXED64),
        (2, VARINT),
        (3, BYTES),
        (8, FIXED32),
        (12, BYTES),
    ]


def test_a_varint_that_does_not_end_has_no_value() -> None:
    assert varint(b"\x80\x80", 0) == (-1, 2)


@settings(deadline=None)
@given(message=st.binary(max_size=40))
def test_any_bytes_are_walked_to_an_end(message: bytes) -> None:
    assert len(list(fields(message))) <= len(message)
