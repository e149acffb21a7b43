"""Ingest against merely decoding: spans per second and time as a ratio.

Run it with ``python benchmarks/ingest.py``. The yardstick, measured in the same run, is what a
plain consumer pays before it does anything: every request decoded fully, and every field and
attribute of every span turned into a Python value. The target: reading mixed traffic (1 agent
span in 10) and committing its facts to a SQLite ledger on disk is at least twice as fast as that
under load, when requests share commits.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.store import Ledger

BATCH = 512
"""Spans in a request: what an SDK exports at once by default."""
MIXED = 10
"""One span in so many is about agents."""
TARGET = 2.0
TOGETHER = 8
"""Requests that share a commit under load."""
TURNS = 4
DIGEST = "sha256:" + "ab" * 32


def agent_spans(dice: random.Random) -> Iterator[Span]:
    """Yield the spans of endless runs."""
    while True:
        yield from one_run(dice)


def one_run(dice: random.Random) -> Iterator[Span]:
    """Yield the spans of one run: an Invoke, and turns of one call and one tool each."""
    trace_id = dice.randbytes(16)
    common = {
        "turnavoid.run.id": f"run-{dice.getrandbits(64):016x}",
        "turnavoid.arm": "control",
    }
    invoke = {
        "turnavoid.entry": "invoke",
        "turnavoid.seq": 0,
        "turnavoid.input.digest": DIGEST,
        "turnavoid.mechanism": "control",
        "turnavoid.lifecycle": "realized",
        "turnavoid.reason": "baseline",
        "turnavoid.invoke.kind": "user_send",
        "turnavoid.invoke.state": "completed",
        "turnavoid.invoke.agent_turns": TURNS,
        "turnavoid.invoke.llm_calls": TURNS,
        "turnavoid.invoke.tool_turns": TURNS,
        "turnavoid.invoke.entries": 3 * TURNS + 1,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "refunds",
    }
    root = span(dice, "invoke_agent refunds", trace_id, b"", common | invoke)
    for turn in range(TURNS):
        agent_turn = {
            "turnavoid.entry": "agent_turn",
            "turnavoid.seq": 3 * turn + 1,
            "turnavoid.turn.disposition": "committed",
        }
        call = {
            "turnavoid.entry": "llm_call",
            "turnavoid.seq": 3 * turn + 2,
            "turnavoid.call.attempt": 1,
            "turnavoid.call.input_digest": f"sha256:{dice.getrandbits(256):064x}",
            "turnavoid.call.purpose": "agent",
            "turnavoid.call.disposition": "committed",
            "turnavoid.call.samplings": 1,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5-mini",
            "gen_ai.response.model": "gpt-5-mini-2026-08-07",
            "gen_ai.response.id": f"chatcmpl-{dice.getrandbits(96):024x}",
            "gen_ai.usage.input_tokens": 900 + 300 * turn,
            "gen_ai.usage.output_tokens": dice.randint(20, 200),
            "server.address": "api.openai.com",
            "server.port": 443,
        }
        tool = {
            "turnavoid.entry": "tool_turn",
            "turnavoid.seq": 3 * turn + 3,
            "turnavoid.tool.disposition": "executed",
            "turnavoid.tool.caller": "model",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup_order",
            "gen_ai.tool.call.id": f"call_{dice.getrandbits(64):016x}",
        }
        around = span(dice, "agent_turn", trace_id, root.span_id, common | agent_turn)
        yield span(dice, "chat gpt-5-mini", trace_id, around.span_id, common | call)
        yield span(dice, "execute_tool lookup_order", trace_id, around.span_id, common | tool)
        yield around
    yield root


def web_spans(dice: random.Random) -> Iterator[Span]:
    """Yield endless spans of a web server with the attributes of the HTTP conventions."""
    while True:
        path = f"/orders/{dice.randint(1, 10_000)}"
        attributes = {
            "http.request.method": "GET",
            "url.path": path,
            "url.query": "expand=lines",
            "url.scheme": "https",
            "http.route": "/orders/{id}",
            "http.response.status_code": 200,
            "server.address": "orders.internal",
            "server.port": 8443,
            "client.address": "10.1.2.3",
            "client.port": dice.randint(32_768, 60_999),
            "network.peer.address": "10.1.2.3",
            "network.peer.port": 40_000,
            "network.protocol.version": "1.1",
            "user_agent.original": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
        }
        yield span(dice, "GET /orders/{id}", dice.randbytes(16), dice.randbytes(8), attributes)


def span(
    dice: random.Random, name: str, trace_id: bytes, parent: bytes, attributes: dict[str, Any]
) -> Span:
    """Make one finished span."""
    start = 1_780_000_000_000_000_000 + dice.randint(0, 10**12)
    return Span(
        trace_id=trace_id,
        span_id=dice.randbytes(8),
        parent_span_id=parent,
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start,
        end_time_unix_nano=start + dice.randint(10**6, 10**10),
        flags=257,
        attributes=[pair(key, value) for key, value in attributes.items()],
    )


def pair(key: str, value: str | int) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=key, value=AnyValue(string_value=value))
    return KeyValue(key=key, value=AnyValue(int_value=value))


def requests(spans: int, every: int) -> list[bytes]:
    """Return serialized requests with one agent span in ``every``."""
    dice = random.Random(2)
    about_agents, others = agent_spans(dice), web_spans(dice)
    resource = Resource(
        attributes=[
            pair("service.name", "desk"),
            pair("service.instance.id", "desk-1"),
            pair("telemetry.sdk.language", "python"),
        ]
    )
    bodies = []
    for start in range(0, spans, BATCH):
        batch = [
            next(about_agents if index % every == 0 else others)
            for index in range(start, min(start + BATCH, spans))
        ]
        scope = ScopeSpans(scope=InstrumentationScope(name="otel_turnavoid"), spans=batch)
        body = ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
        )
        bodies.append(body.SerializeToString())
    return bodies


def decode_fully(bodies: list[bytes]) -> None:
    """Decode every request and make every span plain Python; keep nothing."""
    for body in bodies:
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            plain_attributes(resource_spans.resource.attributes)
            for scope_spans in resource_spans.scope_spans:
                for decoded in scope_spans.spans:
                    plain_span(decoded)


def plain_span(decoded: Span) -> dict[str, Any]:
    return {
        "trace_id": decoded.trace_id.hex(),
        "span_id": decoded.span_id.hex(),
        "parent_span_id": decoded.parent_span_id.hex(),
        "trace_state": decoded.trace_state,
        "name": decoded.name,
        "kind": decoded.kind,
        "start": decoded.start_time_unix_nano,
        "end": decoded.end_time_unix_nano,
        "status": (decoded.status.code, decoded.status.message),
        "attributes": plain_attributes(decoded.attributes),
        "events": [(event.name, plain_attributes(event.attributes)) for event in decoded.events],
    }


def plain_attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {item.key: plain_value(item.value) for item in pairs}


def plain_value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return plain_attributes(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)


def read(bodies: list[bytes]) -> None:
    """Read every request into facts; keep nothing."""
    reader = Reader()
    for body in bodies:
        read_traces(body, reader)


def read_and_commit(bodies: list[bytes], *, together: int = 1) -> None:
    """Read every request and commit its facts to a new ledger on disk.

    ``together``: how many requests share a transaction; the processor lets those that wait
    for the disk share the next one.
    """
    reader = Reader()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}")
        try:
            for start in range(0, len(bodies), together):
                batches = [read_traces(body, reader) for body in bodies[start : start + together]]
                facts = [fact for batch in batches for fact in batch.facts]
                ledger.add(facts, arrived_ns=start)
        finally:
            ledger.close()


def best_times(
    steps: list[Callable[[list[bytes]], None]], bodies: list[bytes], repeat: int
) -> list[float]:
    """Return the best time of each step in seconds, measured in turns."""
    times = [float("inf")] * len(steps)
    for _ in range(repeat):
        for index, step in enumerate(steps):
            gc.collect()
            start = time.perf_counter()
            step(bodies)
            times[index] = min(times[index], time.perf_counter() - start)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="fail where the target is missed")
    options = parser.parse_args()
    missed = False
    for traffic, every in (("agent-only", 1), (f"mixed, 1 agent span in {MIXED}", MIXED)):
        bodies = requests(options.spans, every)
        size = sum(map(len, bodies)) / options.spans
        steps = {
            "decode fully": decode_fully,
            "read": read,
            "read and commit": read_and_commit,
            f"the same, {TOGETHER} requests a commit": partial(read_and_commit, together=TOGETHER),
        }
        times = best_times(list(steps.values()), bodies, options.repeat)
        print(f"{traffic}: {options.spans} spans of {size:.0f} bytes, {BATCH} a request")
        for name, seconds in zip(steps, times, strict=True):
            rate, each = options.spans / seconds, seconds / options.spans * 1e6
            ratio = times[0] / seconds
            print(f"  {name:<32}{rate:>10,.0f} spans/s{each:>8.2f} µs/span{ratio:>7.2f}x")
        missed |= every == MIXED and times[0] / times[-1] < TARGET
    if missed:
        print(f"target missed: read and commit mixed traffic at least {TARGET:g}x as fast")
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
