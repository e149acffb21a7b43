"""Verdicts as whoever looks at traces finds them: searched for in Jaeger, as its page does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from harness.jaeger import Jaeger
from harness.peer import until

SERVICE = "otel_turnavoid"
OPERATION = "turnavoid.verdict"


class Verdict(NamedTuple):
    """A verdict's span."""

    trace_id: str
    span_id: str
    duration_us: int
    tags: dict[str, Any]
    """Lists decoded; without those that Jaeger makes of span kind and scope."""
    references: list[tuple[str, str]]
    """Trace and span of each link, in order; what the page shows as links to other traces."""
    warnings: list[str]
    """What Jaeger finds wrong with it, and shows beside it."""

    @property
    def figures(self) -> dict[str, Any]:
        """What was decided, and of which candidate."""
        shown = ("candidate.run_id", "avoided", "withheld", "added", "causes")
        return {name: self.tags[f"turnavoid.verdict.{name}"] for name in shown}


def find(jaeger: Jaeger, tags: Mapping[str, str] | None = None) -> list[Verdict]:
    """Return the verdicts that a search finds, by candidate; a span that came twice is twice there.

    Args:
        jaeger: Where to search.
        tags: What the search asks for, beside service and operation.
    """
    answer = httpx.get(
        f"{jaeger.url}/api/traces",
        params={
            "service": SERVICE,
            "operation": OPERATION,
            "tags": json.dumps(tags or {}),
            "limit": "1000",
        },
        timeout=60,
    )
    assert answer.status_code == httpx.codes.OK, answer.text
    found = [_verdict(span) for trace in answer.json()["data"] for span in trace["spans"]]
    return sorted(
        found, key=lambda verdict: str(verdict.tags["turnavoid.verdict.candidate.run_id"])
    )


def wait_for(jaeger: Jaeger, count: int, tags: Mapping[str, str] | None = None) -> list[Verdict]:
    """Wait until a search finds as many verdicts or more, and return them; see ``find``."""
    until(
        lambda: len(find(jaeger, tags)) >= count,
        f"{count} verdicts in Jaeger",
        peers=[jaeger.peer],
    )
    return find(jaeger, tags)


def roots(jaeger: Jaeger, trace_id: str) -> list[tuple[str, str]]:
    """Return trace and span of every root in a trace, as Jaeger returns it."""
    spans = jaeger.trace(trace_id)
    return [(trace_id, span["span_id"]) for span in spans if not span["parent_id"]]


def link_sides(jaeger: Jaeger, trace_id: str) -> list[str]:
    """Return which side each link of a verdict leads to, in order."""
    answer = httpx.get(f"{jaeger.url}/api/v3/traces/{trace_id}", timeout=60).json()
    (resource,) = answer["result"]["resourceSpans"]
    (span,) = resource["scopeSpans"][0]["spans"]
    attributes = [each for link in span["links"] for each in link["attributes"]]
    return [each["value"]["stringValue"] for each in attributes if each["key"] == "turnavoid.side"]


def _verdict(span: Mapping[str, Any]) -> Verdict:
    made = ("span.kind", "otel.scope.name", "otel.scope.version")
    return Verdict(
        span["traceID"],
        span["spanID"],
        span["duration"],
        {tag["key"]: _value(tag["value"]) for tag in span["tags"] if tag["key"] not in made},
        [(each["traceID"], each["spanID"]) for each in span["references"]],
        span["warnings"] or [],
    )


def _value(value: Any) -> Any:
    """Return a tag's value; Jaeger says lists as JSON."""
    return json.loads(value) if isinstance(value, str) and value[:1] == "[" else value
