"""Jaeger, asked over its HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from harness.peer import Peer, until


@dataclass(frozen=True)
class Jaeger:
    """Jaeger, asked as its own page asks it."""

    url: str
    peer: Peer

    def services(self) -> list[str]:
        """The services that it knows, once it knows one."""

        def names() -> list[str]:
            return sorted(
                httpx.get(f"{self.url}/api/v3/services", timeout=60).json().get("services", [])
            )

        found: list[str] = until(names, "a service in Jaeger", peers=[self.peer])
        return found

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of a trace by id, delivered once or more; [] where it is unknown."""
        answer = httpx.get(f"{self.url}/api/v3/traces/{trace_id}", timeout=60)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return []
        answer.raise_for_status()
        spans: list[dict[str, Any]] = []
        for resource in answer.json()["result"]["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in map(_shown, scope.get("spans", [])):
                    spans += [] if span in spans else [span]
        return sorted(spans, key=lambda span: span["span_id"])

    def wait_for(self, sent: Mapping[str, list[dict[str, Any]]]) -> None:
        """Wait until every trace is there as it was sent."""
        until(
            lambda: all(len(self.trace(id_)) >= len(spans) for id_, spans in sent.items()),
            f"{len(sent)} traces in Jaeger",
            peers=[self.peer],
        )
        assert {id_: self.trace(id_) for id_ in sent} == sent


def _shown(span: dict[str, Any]) -> dict[str, Any]:
    return {
        "span_id": span["spanId"],
        "parent_id": span.get("parentSpanId", ""),
        "name": span["name"],
        "start_ns": int(span["startTimeUnixNano"]),
        "end_ns": int(span["endTimeUnixNano"]),
        "attributes": {each["key"]: _json_value(each["value"]) for each in span["attributes"]},
    }


def _json_value(value: dict[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    if kind == "intValue":
        return int(inner)
    return [_json_value(each) for each in inner["values"]] if kind == "arrayValue" else inner
