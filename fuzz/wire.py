"""Requests and attributes off the wire: the lazy view against the full decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from fuzz import full
from fuzz.finding import check_refusal, hold
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.facts import encode, encode_evidence
from otel_turnavoid.judge.settings import ArmRule, Settings
from otel_turnavoid.otlp import Batch, Limits, read_logs, read_traces
from otel_turnavoid.otlp.attributes import AttributeReader
from otel_turnavoid.vocabulary import Arm

PLAIN: Final = Reader()
CONFIGURED: Final = Reader(
    Settings(
        arms={
            "feature_flag.reuse": {"on": ArmRule(arm=Arm.EXACT_REUSE)},
            "deployment": {"blue": ArmRule(arm=Arm.CONTROL)},
        },
        digest=("gen_ai.input.messages",),
    )
)
"""Looks at feature flags and at the input too."""

_Read = Callable[..., Batch]
_WANTED: Final = frozenset({"k", "turnavoid.run.id", "gen_ai.request.model"})
_attributes: Final = AttributeReader(_WANTED)


def traces(body: bytes) -> None:
    """Check a trace request."""
    for reader in (PLAIN, CONFIGURED):
        _check(body, reader, read_traces, full.traces, ExportTraceServiceRequest)


def logs(body: bytes) -> None:
    """Check a log request."""
    for reader in (PLAIN, CONFIGURED):
        _check(body, reader, read_logs, full.logs, ExportLogsServiceRequest)


def _check(body: bytes, reader: Reader, lazily: _Read, fully: _Read, request: Any) -> None:
    lazy, plain = _read(lazily, body, reader), _decoded(fully, body, reader)
    if lazy is None:
        hold(plain is None, "the lazy view refuses what protobuf reads")
        hold(_read(lazily, body, reader, limits=Limits()) is None, "limits make it readable")
        return
    items = lazy.spans + lazy.records
    taken = len(lazy.facts) + len(lazy.observations)
    hold(items == taken + lazy.ignored + lazy.rejected, "spans are lost in counting")
    hold(bool(lazy.problem) == bool(lazy.rejected), "refused without a reason")
    hold(len(lazy.problem.splitlines()) <= 1, f"not one line: {lazy.problem!r}")
    for fact in lazy.facts:
        encode(fact)
        encode_evidence(fact)
    for observation in lazy.observations:
        encode(observation)
    if plain is None:
        return
    # Ids of others' spans that stand twice are read where they stand first: see README.md.
    strict = len(request.FromString(body).SerializeToString()) == len(body)
    hold(_summary(lazy, strict=strict) == _summary(plain, strict=strict), "full decoding differs")


def _summary(batch: Batch, *, strict: bool) -> tuple[Any, ...]:
    counts = (batch.ignored, batch.rejected) if strict else (batch.ignored + batch.rejected,)
    # As text, in which NaN equals itself.
    said = repr((batch.facts, batch.observations)) if strict else ""
    return (batch.spans, batch.records, *counts, said)


def _read(read: _Read, body: bytes, reader: Reader, **options: Any) -> Batch | None:
    try:
        return read(body, reader, **options)
    except InputError as error:
        check_refusal(error)
        return None


def _decoded(read: _Read, body: bytes, reader: Reader) -> Batch | None:
    try:
        return read(body, reader)
    except DecodeError:
        return None


def attribute(raw: bytes) -> None:
    """Check one serialized ``KeyValue``."""
    try:
        pair = KeyValue.FromString(raw)
    except DecodeError:
        pair = None
    try:
        found = _attributes.read([raw])
    except (DecodeError, UnicodeDecodeError):
        hold(pair is None, "the lazy view refuses an attribute that protobuf reads")
        return
    if pair is not None:
        wanted = {pair.key: full.plain(pair.value)} if pair.key in _WANTED else {}
        hold(repr(found) == repr(wanted), f"{found!r} in place of {wanted!r}")
