"""Ten thousand exports of real instrumentations, each damaged on its way.

Spans are lost, sent twice and shuffled, attributes lost or absurd, ids empty, bytes flipped and
cut: no crash, no hang, no wrong count, no memory growth. Seeded, so that a failure comes again;
``TURNAVOID_TEST_EXPORTS=100000`` makes more of them.
"""

from __future__ import annotations

import gc
import os
import random
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from fuzz import wire
from fuzz.chain import accounts
from fuzz.choices import Choices
from fuzz.mutating import HARMLESS, mutated
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import Batch, read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation

pytestmark = pytest.mark.corpus

EXPORTS: Final = int(os.environ.get("TURNAVOID_TEST_EXPORTS", "10000"))
COMPARED: Final = 8
"""One of so many is read by the full decoder, too."""
JUDGED: Final = 20
"""One of so many is taken on to the accounts."""
PATIENCE_S: Final = 5.0
"""Processor time for one export, whatever else the machine does; they take milliseconds."""
GROWTH: Final = 512 * 1024
"""Bytes that may stay after reading a thousand exports again: caches that are not full yet."""
SEED: Final = 20261130
NAMED: Final = Settings(digest=("deployment.task",))
"""Takes the identity of a task from an attribute, as recorded runs have no digest."""


class Export(NamedTuple):
    """A recorded request, and bytes that decide on its damage."""

    path: Path
    body: bytes
    decisions: bytes

    def damaged(self) -> bytes:
        return mutated(self.body, Choices(self.decisions))


@pytest.fixture(scope="module")
def captures(shared: Path) -> dict[Path, bytes]:
    folder = shared / "corpus" / "captures"
    paths = sorted(path for path in folder.rglob("*.pb") if ".logs." not in path.name)
    assert paths
    return {path.relative_to(folder): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def calling(captures: dict[Path, bytes]) -> list[Path]:
    """Those that show a model call."""
    return [
        path
        for path, body in captures.items()
        if any(fact.call for fact in read_traces(body, wire.PLAIN).facts)
    ]


def exports(captures: dict[Path, bytes], count: int, seed: int = SEED) -> Iterator[Export]:
    chance = random.Random(seed)
    # Each in turn, and small ones as often as large ones.
    for number in range(count):
        path = list(captures)[number % len(captures)]
        yield Export(path, captures[path], chance.randbytes(96))


def read(body: bytes, reader: Reader = wire.PLAIN) -> Batch | None:
    try:
        return read_traces(body, reader)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either is right
        return None


def test_every_export_is_read_or_refused_in_time_and_counted_rightly(
    captures: dict[Path, bytes],
) -> None:
    slowest = 0.0
    refused = 0
    for number, export in enumerate(exports(captures, EXPORTS)):
        where = f"{export.path}, {export.decisions.hex()}"
        body = export.damaged()
        began = time.thread_time()
        batch = read(body)
        slowest = max(slowest, time.thread_time() - began)
        assert slowest < PATIENCE_S, where
        if batch is None:
            refused += 1
            continue
        taken = len(batch.facts) + len(batch.observations)
        assert batch.spans == taken + batch.ignored + batch.rejected, where
        if number % COMPARED == 0:
            wire.traces(body)
        if number % JUDGED == 0:
            assert accounts(batch.facts, batch.observations) == [], where
            assert time.thread_time() - began < PATIENCE_S, where

    # Both happen: the damage is neither too little nor too much.
    assert 0 < refused < EXPORTS


def test_reading_again_what_was_read_leaves_nothing_behind(captures: dict[Path, bytes]) -> None:
    bodies = [export.damaged() for export in exports(captures, min(EXPORTS, 1000))]
    for body in bodies:
        read(body)
    gc.collect()
    tracemalloc.start()
    try:
        for body in bodies:
            read(body)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert left < GROWTH


def armed(body: bytes, arm: str, run_id: str) -> bytes:
    """Let the resource of a recorded export say what pairs need, as deployments do."""
    request = ExportTraceServiceRequest.FromString(body)
    said = {
        "turnavoid.run.id": run_id,
        "turnavoid.arm": arm,
        "turnavoid.lifecycle": "realized",
        "deployment.task": "refund the cheaper order",
    }
    for each in request.resource_spans:
        each.resource.attributes.extend(
            KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in said.items()
        )
    return request.SerializeToString()


@pytest.mark.parametrize("number", range(40))
def test_no_damage_earns_credit_and_a_harmless_delivery_changes_no_run(
    captures: dict[Path, bytes], calling: list[Path], tmp_path: Path, number: int
) -> None:
    """Nothing declares what a recorded run consists of, so that nothing of it may be credited."""
    chance = random.Random(f"{SEED} {number}")
    path = chance.choice([path for path in calling if path.parent.name.startswith("control")])
    alike = [each for each in calling if each.parts[0] == path.parts[0]]
    control = armed(captures[path], "control", "a")
    candidate = armed(captures[chance.choice(alike)], "fused-batch", "b")
    seen = [
        found
        for run_id in ("a", "b")
        for found in read_logs(observation(run_id), Reader()).observations
    ]

    def judged(name: str, *bodies: bytes) -> tuple[list[int], list[object]]:
        facts: list[SpanFact] = [
            fact
            for body in bodies
            for batch in [read(body, Reader(NAMED))]
            if batch
            for fact in batch.facts
        ]
        with Ledger.open(f"sqlite:///{tmp_path / name}.db") as ledger:
            ledger.add(facts, seen, arrived_ns=1)
            made = ledger.decide(NAMED, now_ns=10**18, final=True)
            runs: list[object] = [
                (line.run.run_id, line.run.model_turns, line.run.llm_calls, line.run.tool_calls)
                for line in ledger.runs()
            ]
            return [each.avoided for each in made if isinstance(each, PairDecided)], runs

    whole = judged("whole", control, candidate)
    request = ExportTraceServiceRequest.FromString(candidate)
    for harmless in HARMLESS:
        harmless(request, Choices(chance.randbytes(32)))
    again = judged("again", candidate, request.SerializeToString(), control)
    damaged = judged("damaged", control, mutated(candidate, Choices(chance.randbytes(96))))

    assert whole == again
    assert whole[0] == [0]
    assert sum(damaged[0]) == 0
