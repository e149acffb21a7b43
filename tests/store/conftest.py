"""A ledger in a file, made-up runs, and a processor's clock that tests set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided
from otel_turnavoid.otlp import Batch, read_logs, read_traces
from otel_turnavoid.store import Added, Ledger
from otel_turnavoid.testing import observation, run_spans

EPOCH_NS = 1_790_000_000 * SECOND
"""When the processor's clock reads 0 here; unlike any time that the spans carry."""


@pytest.fixture
def url(either_url: str) -> str:
    return either_url


class Bench:
    """One ledger, with times in seconds of the processor's clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.settings = Settings()
        self.ledger = Ledger.open(url)

    def reopen(self) -> None:
        """What a restart does."""
        self.ledger.close()
        self.ledger = Ledger.open(self.url)

    def add(self, *batches: Batch, at: float) -> Added:
        facts = [fact for batch in batches for fact in batch.facts]
        observations = [seen for batch in batches for seen in batch.observations]
        return self.ledger.add(facts, observations, arrived_ns=_ns(at))

    def decide(self, at: float, *, final: bool = False) -> list[tuple[Any, ...]]:
        """Decide, and return what was decided in few words."""
        made = self.ledger.decide(self.settings, now_ns=_ns(at), final=final)
        return [in_short(decision) for decision in made]

    def journal(self) -> list[tuple[Any, ...]]:
        return [in_short(decision) for _, decision in self.ledger.decisions()]

    def outcomes(self) -> dict[str, str]:
        return {line.run.run_id: line.outcome.value for line in self.ledger.runs()}

    def contradicted(self) -> list[tuple[Any, ...]]:
        return [in_short(decision) for decision in self.ledger.contradicted().values()]


def _ns(at: float) -> int:
    return EPOCH_NS + round(at * SECOND)


def in_short(decision: Decision) -> tuple[Any, ...]:
    """Return ``("pair", control, candidate, avoided, withheld, first cause)`` and the like."""
    if isinstance(decision, PairDecided):
        cause = decision.causes[0].value if decision.causes else None
        ids = (decision.control.run_id, decision.candidate.run_id)
        return ("pair", *ids, decision.avoided, decision.withheld, cause)
    if isinstance(decision, NullDecided):
        ids = (decision.first.run_id, decision.second.run_id)
        return ("null", *ids, decision.avoided, decision.added)
    return ("run", decision.run.run_id, decision.outcome.value)


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    bench = Bench(url)
    yield bench
    bench.ledger.close()


@pytest.fixture
def run() -> Callable[..., Batch]:
    """Make the facts of a run; the options are those of ``testing.run_spans``."""

    def make(run_id: str, arm: str | None = "control", **options: Any) -> Batch:
        return read_traces(run_spans(run_id=run_id, arm=arm, **options), Reader())

    return make


@pytest.fixture
def seen() -> Callable[..., Batch]:
    """Make what an observer saw of a run; the options are those of ``testing.observation``."""

    def make(run_id: str, **options: Any) -> Batch:
        return read_logs(observation(run_id, **options), Reader())

    return make
