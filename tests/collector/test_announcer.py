"""Every verdict is handed on at least once, whatever fails in between, under the same ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.collector import announcer as module
from otel_turnavoid.collector.announcer import Announcer
from otel_turnavoid.collector.journal import Bell
from otel_turnavoid.collector.tenure import Held
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.forward import QueueFullError, Signal
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation, run_spans

SETTINGS = Settings()
DEADLINE_S = 60.0
NOW_NS = START_NS + 3600 * SECOND


class Backend:
    """In place of a forwarder: takes requests, or refuses the next ones."""

    def __init__(self) -> None:
        self.taken: list[list[str]] = []
        self.refusals = 0
        self.took = asyncio.Event()

    def takes(self, signal: Signal) -> bool:
        return signal is Signal.TRACES

    async def offer(self, signal: Signal, body: bytes, items: int) -> None:
        if self.refusals:
            self.refusals -= 1
            raise QueueFullError("the queue of otlp is full")
        spans = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
        assert (signal, items) == (Signal.TRACES, len(spans))
        self.took.set()
        self.taken.append([span.span_id.hex() for span in spans])


class Everything:
    """In place of a tenure: a process that holds all there is."""

    def held(self) -> list[Held]:
        return [Held(1, working=True)]


class Forgetful:
    """A ledger that cannot be written when a place is to be remembered, the first time."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.failures = 1

    def __getattr__(self, name: str):
        return getattr(self._ledger, name)

    def announce(self, share: int, decision: int) -> None:
        if self.failures:
            self.failures -= 1
            raise LedgerError("the disk is full")
        self._ledger.announce(share, decision)


@pytest.fixture
def ledger(tmp_path):
    opened = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.001)


def decide_pair(ledger: Ledger, task: str) -> None:
    for run_id, arm, turns in ((f"{task}-c", "control", 3), (f"{task}-k", "exact-reuse", 1)):
        batch = read_traces(run_spans(run_id=run_id, arm=arm, turns=turns, task=task), Reader())
        seen = read_logs(observation(run_id), Reader())
        ledger.add(batch.facts, seen.observations, arrived_ns=START_NS)
    ledger.decide(SETTINGS, now_ns=NOW_NS, final=True)


def announced(ledger, backend: Backend, *, then: Callable[[], object]) -> list[list[str]]:
    """Run an announcer until it was closed; what ``then`` decides comes after it has begun."""

    async def run() -> None:
        with ThreadPoolExecutor(1) as threads:
            announcer = Announcer(
                ledger, Everything(), backend, Bell(), threads, resource=lambda _: {}
            )
            await announcer.begin()
            then()
            work = asyncio.create_task(announcer.run())
            await asyncio.wait_for(backend.took.wait(), DEADLINE_S)
            announcer.close()
            await work

    asyncio.run(run())
    return backend.taken


def test_each_verdict_is_handed_on_once(ledger) -> None:
    taken = announced(ledger, Backend(), then=lambda: [decide_pair(ledger, t) for t in "ab"])

    assert [len(spans) for spans in taken] == [2]


def test_what_an_older_ledger_holds_is_not_handed_on(ledger) -> None:
    decide_pair(ledger, "old")
    taken = announced(ledger, Backend(), then=lambda: decide_pair(ledger, "new"))

    assert [len(spans) for spans in taken] == [1]


def test_a_full_queue_is_tried_again(ledger) -> None:
    backend = Backend()
    backend.refusals = 3
    taken = announced(ledger, backend, then=lambda: decide_pair(ledger, "a"))

    assert [len(spans) for spans in taken] == [1]


def test_what_was_taken_but_not_remembered_is_handed_on_again_as_the_same_span(ledger) -> None:
    taken = announced(Forgetful(ledger), Backend(), then=lambda: decide_pair(ledger, "a"))

    assert len(taken) == 2
    assert taken[0] == taken[1]


def test_many_verdicts_go_in_several_requests(ledger, monkeypatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 2)
    taken = announced(ledger, Backend(), then=lambda: [decide_pair(ledger, t) for t in "abcde"])

    assert [len(spans) for spans in taken] == [2, 2, 1]


def test_a_restart_goes_on_where_it_was(ledger) -> None:
    first = announced(ledger, Backend(), then=lambda: decide_pair(ledger, "a"))
    second = announced(ledger, Backend(), then=lambda: decide_pair(ledger, "b"))

    assert [len(first), len(second)] == [1, 1]
    assert first != second
