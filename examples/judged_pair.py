"""What the framework examples share: a task, a shop, scripted models, and a judge at the end.

A real agent sends its spans to ``turnavoid collect``, and the observer is a process of its own
(``examples/observer.py``). Here all of it happens in one process and on a temporary ledger, so
that the examples run offline, and end with a verdict.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_turnavoid import Observer
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import Reply, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = "Cancel the orders 41 and 42 if they have not been sent."

_LOOK_UP = [ToolCall("look_up", {"order": order}) for order in (41, 42)]
_CANCEL = Reply(tool_calls=[ToolCall("cancel", {"order": order}) for order in (41, 42)])
_DONE = Reply("Both are cancelled.")

CONTROL = [Reply(tool_calls=_LOOK_UP[:1]), Reply(tool_calls=_LOOK_UP[1:]), _CANCEL, _DONE]
"""One order looked up in a turn: four turns."""
FUSED = [Reply(tool_calls=_LOOK_UP), _CANCEL, _DONE]
"""Both at once: three turns, the same effects."""
HASTY = [Reply(tool_calls=_LOOK_UP), _DONE]
"""Two turns, because nothing is cancelled: the answer is a lie."""

RUNS = (
    ("control", "control", None, CONTROL),
    ("fused", "fused-batch", "fused", FUSED),
    ("hasty", "fused-batch", "hasty", HASTY),
)
"""Run id, arm, variant, and what the model answers."""


class Shop:
    """The outside world: orders, and the two things that an agent may do with them."""

    def __init__(self) -> None:
        self.orders = {41: "open", 42: "open"}

    def look_up(self, order: int) -> str:
        """Return the status of an order."""
        return self.orders[order]

    def cancel(self, order: int) -> str:
        """Cancel an order."""
        self.orders[order] = "cancelled"
        return "cancelled"

    def effects(self) -> list[str]:
        """Return a label for every order that is no longer open."""
        return [f"order:{order}={state}" for order, state in self.orders.items() if state != "open"]


class Bench:
    """A tracer provider for the agent, an observer beside it, and a judge of both."""

    def __init__(self) -> None:
        self.provider = TracerProvider(resource=Resource({"service.name": "orders-agent"}))
        self._spans = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._seen = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call] # the SDK's
        logs = LoggerProvider(
            resource=Resource({"service.name": "orders-observer"}), shutdown_on_exit=False
        )
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._seen))
        self._observer = Observer("orders-db/v1", logger_provider=logs)

    @contextmanager
    def observed(self, run_id: str) -> Iterator[Shop]:
        """Give a run a shop of its own, and look at it afterwards."""
        shop = Shop()
        yield shop
        self._observer.observe(run_id, shop.effects())

    def report(self) -> None:
        """Print what the ledger says about every run, and about every pair."""
        reader, settings = Reader(), Settings()
        traces = read_traces(
            encode_spans(self._spans.get_finished_spans()).SerializeToString(), reader
        )
        logs = read_logs(encode_logs(self._seen.get_finished_logs()).SerializeToString(), reader)
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger.open(f"sqlite:///{Path(folder) / 'turnavoid.db'}")
            now_ns = time.time_ns()
            ledger.add([*traces.facts], [*logs.observations], arrived_ns=now_ns)
            decisions = ledger.decide(settings, now_ns=now_ns, final=True)
            for line in ledger.runs():
                run = line.run
                print(
                    f"{run.run_id}: {run.evidence.value}, {run.model_turns} turns,"
                    f" {run.llm_calls} calls, {run.tool_calls} tools"
                )
            for decision in decisions:
                if isinstance(decision, PairDecided):
                    print(_in_words(decision))
            ledger.close()


def _in_words(pair: PairDecided) -> str:
    causes = "".join(f" ({cause.value})" for cause in pair.causes)
    return (
        f"{pair.control.run_id} -> {pair.candidate.run_id}:"
        f" {pair.avoided} avoided, {pair.withheld} withheld{causes}, {pair.added} added"
    )
