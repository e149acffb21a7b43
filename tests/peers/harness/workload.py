"""Made-up runs to send, always the same for the same numbers."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.digest import input_digest
from otel_turnavoid.testing import observation, other_spans, run_spans

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Workload:
    """Made-up runs in pairs, what was seen of them, and spans that are not about agents.

    One pair in four each: two turns avoided; one withheld, as an effect is missing; one added;
    no difference.
    """

    pairs: int = 8
    first: int = 0
    """Number of the first pair; workloads with other numbers share nothing."""
    digest_on_resource: bool = False
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    """``traces`` or ``logs``, and the body."""

    def __post_init__(self) -> None:
        if self.first == 0:
            self.requests.append(("traces", other_spans(20)))
        for number in range(self.first, self.first + self.pairs):
            turns, effects = CASES[number % len(CASES)]
            task = f"Cancel order {number}"
            for arm, count, seen in (
                ("control", 4, ["order=cancelled", "mail=sent"]),
                ("exact-reuse", turns, effects),
            ):
                run_id = f"{arm}-{number}"
                start_ns = time.time_ns() - 600 * SECOND + number * SECOND
                spans = run_spans(run_id=run_id, arm=arm, turns=count, task=task, start_ns=start_ns)
                logs = observation(run_id, seen, observed_ns=start_ns + 60 * SECOND)
                self.requests.append(("traces", self._with_digest(spans, task)))
                self.requests.append(("logs", self._with_digest(logs, task, signal="logs")))

    def _with_digest(self, body: bytes, task: str, *, signal: str = "traces") -> bytes:
        if not self.digest_on_resource:
            return body
        if signal == "traces":
            request: Any = ExportTraceServiceRequest.FromString(body)
            resources = request.resource_spans
        else:
            request = ExportLogsServiceRequest.FromString(body)
            resources = request.resource_logs
        for each in resources:
            added = each.resource.attributes.add(key="turnavoid.input.digest")
            added.value.string_value = input_digest(task)
        return request.SerializeToString()

    def send(self, http: str) -> None:
        """Send everything, in any order, to ``host:port`` of an OTLP/HTTP receiver."""
        requests = list(self.requests)
        random.Random(self.first).shuffle(requests)
        with httpx.Client(headers={"content-type": "application/x-protobuf"}, timeout=60) as client:
            for signal, body in requests:
                answer = client.post(f"http://{http}/v1/{signal}", content=body)
                assert answer.status_code == httpx.codes.OK, answer.text

    def traces(self) -> dict[str, list[dict[str, Any]]]:
        """What was sent by trace id, as :meth:`Jaeger.trace` gives it."""
        found: dict[str, list[dict[str, Any]]] = {}
        for signal, body in self.requests:
            if signal != "traces":
                continue
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        found.setdefault(span.trace_id.hex(), []).append(_sent(span))
        return {
            id_: sorted(spans, key=lambda span: span["span_id"]) for id_, spans in found.items()
        }


CASES = (
    (2, ["order=cancelled", "mail=sent"]),
    (3, ["order=cancelled"]),
    (5, ["order=cancelled", "mail=sent"]),
    (4, ["order=cancelled", "mail=sent"]),
)
"""Turns of the candidate and what was seen of it; the control always has four."""


def implied(pairs: int) -> dict[str, int]:
    """What pairs of a workload (a multiple of four) add to counters in Prometheus."""
    return {
        "turnavoid_model_turns_avoided_total": pairs // 2,
        "turnavoid_model_turns_withheld_total": pairs // 4,
        "turnavoid_model_turns_added_total": pairs // 4,
        "turnavoid_pairs_decided_total": pairs,
        "turnavoid_null_pairs_total": 0,
    }


def _sent(span: Any) -> dict[str, Any]:
    return {
        "span_id": span.span_id.hex(),
        "parent_id": span.parent_span_id.hex(),
        "name": span.name,
        "start_ns": span.start_time_unix_nano,
        "end_ns": span.end_time_unix_nano,
        "attributes": {each.key: _proto_value(each.value) for each in span.attributes},
    }


def _proto_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    inner = getattr(value, kind)
    return [_proto_value(each) for each in inner.values] if kind == "array_value" else inner
