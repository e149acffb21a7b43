from __future__ import annotations

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_turnavoid.otlp.attributes import AttributeReader


def raw(key: str, value: AnyValue) -> bytes:
    return KeyValue(key=key, value=value).SerializeToString()


def test_only_wanted_keys_are_decoded() -> None:
    reader = AttributeReader(frozenset({"wanted"}))
    broken = b"\x0a\x05other\x12\x03\xff\xff\xff"

    assert reader.read([broken, raw("wanted", AnyValue(int_value=1))]) == {"wanted": 1}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (AnyValue(string_value=""), ""),
        (AnyValue(string_value="é" * 100), "é" * 100),
        (AnyValue(int_value=-1), -1),
        (AnyValue(int_value=2**63 - 1), 2**63 - 1),
        (AnyValue(bool_value=False), False),
        (AnyValue(double_value=0.5), 0.5),
        (AnyValue(bytes_value=b"\xff"), b"\xff"),
        (AnyValue(), None),
    ],
)
def test_values_are_plain_python(value: AnyValue, plain: object) -> None:
    reader = AttributeReader(frozenset({"k"}))

    found = [reader.read([raw("k", value)])["k"] for _ in ("first", "remembered")]

    assert found == [plain, plain]
    assert {type(item) for item in found} == {type(plain)}


def test_long_attributes_are_not_remembered() -> None:
    reader = AttributeReader(frozenset({"k"}))

    for size in (1, 200):
        reader.read([raw("k", AnyValue(string_value="x" * size))])

    assert reader._remembered.cache_info().currsize == 1
