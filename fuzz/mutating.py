"""Exports as they must not arrive: damaged in their structure, or in their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from fuzz.choices import Choices

_BIG: Final = 2**63 - 1
_IDS: Final = (b"", bytes(8), bytes(16), b"\1", b"\xff" * 8, b"\xff" * 16, b"\xff" * 17)
_TIMES: Final = (0, 1, _BIG, _BIG + 1, 2**64 - 1)
_WORDS: Final = ("", " ", "control", "realized", "\x00", "\n", "é" * 40, "x" * 70_000, "[[[[", "{")
_DEEP: Final = 40


def _odd_values() -> tuple[AnyValue, ...]:
    deep = AnyValue()
    for _ in range(_DEEP):
        deep = AnyValue(array_value=ArrayValue(values=[deep]))
    pair = KeyValue(key="k", value=AnyValue(string_value="v"))
    return (
        AnyValue(),
        deep,
        AnyValue(bool_value=True),
        AnyValue(bytes_value=b"\xff\xfe"),
        AnyValue(kvlist_value=KeyValueList(values=[pair, pair])),
        *(AnyValue(int_value=number) for number in (0, 1, -1, _BIG, -_BIG - 1)),
        *(AnyValue(double_value=number) for number in (-1.0, 1e308, float("inf"), float("nan"))),
        *(AnyValue(string_value=word) for word in _WORDS),
    )


ODD: Final = _odd_values()
"""Values that no attribute of ours may have, and some that it may."""


def scopes_of(request: ExportTraceServiceRequest) -> list[ScopeSpans]:
    """Return the lists of spans of a request."""
    return [scope for each in request.resource_spans for scope in each.scope_spans if scope.spans]


def spans_of(request: ExportTraceServiceRequest) -> list[Span]:
    """Return the spans of a request."""
    return [span for scope in scopes_of(request) for span in scope.spans]


def drop_spans(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Lose up to three spans."""
    for _ in range(1 + choices.number(3)):
        scopes = scopes_of(request)
        if scopes:
            spans = choices.one(scopes).spans
            del spans[choices.number(len(spans))]


def duplicate_spans(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Send up to three spans twice."""
    for _ in range(1 + choices.number(3)):
        scopes = scopes_of(request)
        if scopes:
            spans = choices.one(scopes).spans
            spans.add().CopyFrom(spans[choices.number(len(spans))])


def shuffle_spans(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Bring spans, and parts of the request, into another order."""
    for scope in scopes_of(request):
        spans = list(scope.spans)
        start = choices.number(len(spans))
        del scope.spans[:]
        scope.spans.extend(reversed(spans[start:] + spans[:start]))
    parts = list(request.resource_spans)[::-1]
    del request.resource_spans[:]
    request.resource_spans.extend(parts)


def split_request(request: ExportTraceServiceRequest, _: Choices) -> None:
    """Tell of a resource and scope once for each span."""
    parts = [
        ResourceSpans(
            resource=each.resource, scope_spans=[ScopeSpans(scope=scope.scope, spans=[span])]
        )
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]
    del request.resource_spans[:]
    request.resource_spans.extend(parts)


def _one_span(request: ExportTraceServiceRequest, choices: Choices) -> Span:
    return choices.one(spans_of(request) or [Span()])


def drop_attributes(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Lose attributes of a span."""
    attributes = _one_span(request, choices).attributes
    for _ in range(1 + choices.number(4)):
        if attributes:
            del attributes[choices.number(len(attributes))]


def change_attributes(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Give an attribute of a span or resource another type or an absurd value."""
    holders = [span.attributes for span in spans_of(request)]
    holders += [each.resource.attributes for each in request.resource_spans]
    holders = [each for each in holders if each]
    if holders:
        choices.one(choices.one(holders)).value.CopyFrom(choices.one(ODD))


def repeat_attributes(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Say an attribute twice, and differently."""
    attributes = _one_span(request, choices).attributes
    if attributes:
        key = choices.one(attributes).key
        attributes.add(key=key, value=choices.one(ODD))


def change_ids(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Empty, cut or exchange ids."""
    span, other = _one_span(request, choices), _one_span(request, choices)
    field = choices.one(("trace_id", "span_id", "parent_span_id"))
    setattr(span, field, choices.one((*_IDS, getattr(other, field), other.span_id)))


def change_times(request: ExportTraceServiceRequest, choices: Choices) -> None:
    """Let a span begin or end when nothing can."""
    field = choices.one(("start_time_unix_nano", "end_time_unix_nano"))
    setattr(_one_span(request, choices), field, choices.one(_TIMES))


HARMLESS: Final = (duplicate_spans, shuffle_spans, split_request)
"""Deliveries that change nothing of what was sent."""

Mutation = Callable[[ExportTraceServiceRequest, Choices], None]
STRUCTURAL: Final[tuple[Mutation, ...]] = (
    *HARMLESS,
    drop_spans,
    drop_attributes,
    change_attributes,
    repeat_attributes,
    change_ids,
    change_times,
)


def damaged(body: bytes, choices: Choices) -> bytes:
    """Flip, cut, repeat, overwrite or insert bytes."""
    found = bytearray(body)
    for _ in range(1 + choices.number(4)):
        at = choices.number(len(found) + 1)
        how = choices.number(5)
        if how == 0 and at < len(found):
            found[at] ^= 1 << choices.number(8)
        elif how == 1:
            del found[at : at + 1 + choices.number(16)]
        elif how == 2:  # noqa: PLR2004
            found[at:at] = found[at : at + choices.number(64)]
        elif how == 3:  # noqa: PLR2004 - what is no UTF-8 and no good length
            found[at : at + 1] = choices.one((b"\xff", b"\x00", b"\x80", b"\xc0\x80", b"\xed\xa0"))
        else:
            found[at:at] = choices.piece(1 + choices.number(8))
    return bytes(found if choices.number(4) else found[: choices.number(len(found) + 1)])


def mutated(body: bytes, choices: Choices) -> bytes:
    """Return a trace request as it must not arrive: one to three changes of either kind."""
    if choices.number(3) == 0:
        return damaged(body, choices)
    request = ExportTraceServiceRequest.FromString(body)
    for _ in range(1 + choices.number(3)):
        choices.one(STRUCTURAL)(request, choices)
    changed = request.SerializeToString()
    return damaged(changed, choices) if choices.number(4) == 0 else changed
