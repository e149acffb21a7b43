"""Templates of everything that a load consists of: one for each shape of run, not for each run.

Shapes are made with ``testing.runs``, so a load looks like any other run of the contract.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from hashlib import sha256
from typing import Final, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.digest import input_digest
from otel_turnavoid.loadgen.template import Template, field
from otel_turnavoid.testing import START_NS, observation, other_spans, run_spans
from otel_turnavoid.vocabulary import Arm, InvokeState

RUN_ID_LENGTH: Final = 32
"""Characters of every run id of a load."""

SECOND: Final = 1_000_000_000
"""Nanoseconds."""

_RUN_ID: Final = "turnavoid-loadgen-a-run-id-here."
_UNIT: Final = "unit-00000000"
_TASK: Final = "the input of a run of a load"

_REQUEST_ITEM: Final = 1
_RESOURCE: Final = 1
_SCOPE_ITEMS: Final = 2
_SCOPE: Final = 1
_ITEMS: Final = 2
"""Field numbers, the same for traces and logs."""

_START_TAG: Final = b"\x39"
_END_TAG: Final = b"\x41"
"""Fields 7 and 8 of a span, both fixed64."""


class Timed(NamedTuple):
    """A template, and its times in nanoseconds from the start of the run."""

    template: Template
    start_ns: int
    end_ns: int


class RunShape:
    """All runs of one arm with the same number of turns, in the same experiment."""

    def __init__(  # noqa: PLR0913 - what runs of one shape share
        self,
        arm: Arm,
        turns: int,
        *,
        failed: bool = False,
        experiment: str | None = None,
        units: bool = False,
        variant: str | None = None,
    ) -> None:
        whole = ExportTraceServiceRequest.FromString(
            run_spans(
                run_id=_RUN_ID,
                arm=arm.value,
                turns=turns,
                task=_TASK,
                experiment=experiment,
                unit=_UNIT if units else None,
                variant=variant,
                state=InvokeState.FAILED if failed else InvokeState.COMPLETED,
                service="loadgen-agent",
                instance="loadgen-agent-1",
            )
        )
        self._wrap = _Wrap.of(whole)
        spans = whole.resource_spans[0].scope_spans[0].spans
        self._spans = [_timed(span, _places(span, units=units)) for span in spans]
        seqs = {span.span_id: seq for seq, span in enumerate(spans)}
        self._parents = [seqs.get(span.parent_span_id, 0) for span in spans]
        self.lasts_ns = max(span.end_time_unix_nano for span in spans) - START_NS
        """How long a run takes, in nanoseconds."""

    @property
    def entries(self) -> int:
        """How many entries a run has."""
        return len(self._spans)

    def request(
        self, run_id: bytes, digest: bytes, unit: bytes, start_ns: int, lost: Collection[int]
    ) -> bytes:
        """Return one run as an encoded ``ExportTraceServiceRequest``; empty if all is lost.

        Args:
            run_id: ``RUN_ID_LENGTH`` characters.
            digest: The input digest.
            unit: The unit, as ``unit_name`` writes it.
            start_ns: When it starts.
            lost: Sequence numbers of the entries that are left out.
        """
        made = sha256(run_id).digest()
        values = {"run": run_id, "digest": digest, "unit": unit, "trace": made[:16]}
        spans = []
        for seq, timed in enumerate(self._spans):
            if seq in lost:
                continue
            values["span"] = _span_id(made, seq)
            values["parent"] = _span_id(made, self._parents[seq])
            spans.append(_filled(timed, values, start_ns))
        return self._wrap.around(spans) if spans else b""


class ObservationShape:
    """Everything an observer sees of runs with the same effects."""

    def __init__(self, effects: int) -> None:
        labels = [f"effect:{number}=done" for number in range(1, effects + 1)]
        whole = ExportLogsServiceRequest.FromString(
            observation(
                _RUN_ID,
                labels,
                observer="loadgen-observer/v1",
                service="loadgen-observer",
                instance="loadgen-observer-1",
                observed_ns=START_NS,
            )
        )
        self._wrap = _Wrap.of(whole)
        message = whole.resource_logs[0].scope_logs[0].log_records[0].SerializeToString()
        time = struct.pack("<Q", START_NS)
        self._template = Template(message, {"run": _RUN_ID.encode(), "time": time})

    def record(self, run_id: bytes, observed_ns: int) -> bytes:
        """Return the record about one run, for ``request``."""
        time = struct.pack("<Q", observed_ns)
        return field(_ITEMS, self._template.fill({"run": run_id, "time": time}))

    def request(self, records: Collection[bytes]) -> bytes:
        """Return records as an encoded ``ExportLogsServiceRequest``."""
        return self._wrap.around(records)


class ForeignShape:
    """Spans of a web server, which are not about agents."""

    def __init__(self) -> None:
        whole = ExportTraceServiceRequest.FromString(other_spans(1))
        self._wrap = _Wrap.of(whole)
        span = whole.resource_spans[0].scope_spans[0].spans[0]
        self._timed = _timed(span, {"trace": span.trace_id, "span": span.span_id})

    def request(self, count: int, name: str, start_ns: int) -> bytes:
        """Return ``count`` spans as an encoded ``ExportTraceServiceRequest``."""
        spans = []
        for number in range(count):
            made = sha256(f"{name}/{number}".encode()).digest()
            spans.append(_filled(self._timed, {"trace": made[:16], "span": made[16:24]}, start_ns))
        return self._wrap.around(spans) if spans else b""


class _Wrap(NamedTuple):
    """What stands around the spans or records of a request."""

    resource: bytes
    scope: bytes

    @classmethod
    def of(cls, whole: ExportTraceServiceRequest | ExportLogsServiceRequest) -> _Wrap:
        if isinstance(whole, ExportTraceServiceRequest):
            resource = whole.resource_spans[0].resource
            scope = whole.resource_spans[0].scope_spans[0].scope
        else:
            resource = whole.resource_logs[0].resource
            scope = whole.resource_logs[0].scope_logs[0].scope
        return cls(
            field(_RESOURCE, resource.SerializeToString()),
            field(_SCOPE, scope.SerializeToString()),
        )

    def around(self, items: Collection[bytes]) -> bytes:
        return field(_REQUEST_ITEM, self.resource, field(_SCOPE_ITEMS, self.scope, *items))


def unit_name(number: int) -> bytes:
    """Return the name of a unit."""
    return b"unit-%08d" % number


def _places(span: Span, *, units: bool) -> dict[str, bytes]:
    places = {"run": _RUN_ID.encode(), "trace": span.trace_id, "span": span.span_id}
    if span.parent_span_id:
        return {**places, "parent": span.parent_span_id}
    places["digest"] = input_digest(_TASK).encode()
    return {**places, "unit": _UNIT.encode()} if units else places


def _timed(span: Span, places: dict[str, bytes]) -> Timed:
    times = {
        "start": _START_TAG + struct.pack("<Q", span.start_time_unix_nano),
        "end": _END_TAG + struct.pack("<Q", span.end_time_unix_nano),
    }
    return Timed(
        Template(span.SerializeToString(), {**places, **times}),
        span.start_time_unix_nano - START_NS,
        span.end_time_unix_nano - START_NS,
    )


def _filled(timed: Timed, values: dict[str, bytes], start_ns: int) -> bytes:
    values["start"] = _START_TAG + struct.pack("<Q", start_ns + timed.start_ns)
    values["end"] = _END_TAG + struct.pack("<Q", start_ns + timed.end_ns)
    return field(_ITEMS, timed.template.fill(values))


def _span_id(made: bytes, seq: int) -> bytes:
    """Return the id of an entry; no two of a run are equal."""
    return made[16:20] + struct.pack(">I", seq + 1)
