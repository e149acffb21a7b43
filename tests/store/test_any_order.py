"""The same facts in any order, batching and duplication, across restarts: the same bytes."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided, encode, reference
from otel_turnavoid.ledger import empty_report, fold, report_json
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.trace import trace_rows
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation, run_spans
from otel_turnavoid.vocabulary import Evidence

NOW_NS = 1_790_000_000 * SECOND
SETTLE_NS = SECOND // 2
WAITED_NS = NOW_NS + 601 * SECOND
EXPIRED_NS = NOW_NS + 25 * 3600 * SECOND

SETTINGS = Settings(accept=frozenset(Evidence))

Piece = SpanFact | Observation


class Outcome(NamedTuple):
    """What a ledger came to, as bytes."""

    decisions: list[bytes]
    runs: list[bytes]
    report: bytes


class MadeUpRun(NamedTuple):
    """One run as it may go; most go well."""

    task: int
    arm: str
    variant: str | None
    turns: int
    lost: tuple[int, ...]
    state: str
    counts: bool
    effects: tuple[tuple[str, ...], ...]
    """What the observer said, each time it said something."""
    changed: bool = False
    """Two spans came with three contents each."""
    foreign: bool = False
    """Shown by another instrumentation: no run id, no numbers, only a trace."""
    inside: bool = False
    """Begun below a span of the run before it, in its trace."""
    claims: bool = False
    """One of its spans has the id of one of the run before it."""


def mostly(usual: object, *others: object) -> st.SearchStrategy[object]:
    return st.one_of(*[st.just(usual)] * 4, st.sampled_from(others))


seldom = st.integers(0, 4).map(lambda number: number == 0)

made_up_runs = st.builds(
    MadeUpRun,
    task=st.integers(1, 2),
    arm=st.sampled_from(["control", "control", "exact-reuse", "fused-batch"]),
    variant=mostly(None, "b"),
    turns=st.integers(0, 3),
    lost=mostly((), (0,), (2,), (3,)),
    state=mostly("completed", "failed", "paused"),
    counts=seldom.map(lambda left_out: not left_out),
    effects=mostly(
        (("a", "b"),), (), (("a",),), (("b", "a"),), (("a", "b", "b"),), (("a",), ("a", "b"))
    ),
    changed=seldom,
    foreign=seldom,
    inside=seldom,
    claims=seldom,
)


def pieces(made_up: Sequence[MadeUpRun]) -> list[Piece]:
    """Return the facts of all runs in the order in which they happened."""
    found: list[Piece] = []
    before: list[SpanFact] = []
    for number, one in enumerate(made_up):
        run_id, start_ns = f"run-{number}", START_NS + number * SECOND
        request = run_spans(
            run_id=run_id,
            arm=one.arm,
            variant=None if one.arm == "control" else one.variant,
            turns=one.turns,
            task=one.task,
            lost=one.lost,
            state=one.state,
            counts=one.counts,
            start_ns=start_ns,
        )
        facts = read_traces(request, Reader()).facts
        if one.foreign:
            run_id = f"trace:{facts[0].trace_id}/{facts[0].span_id}" if facts else run_id
            facts = [
                msgspec.structs.replace(fact, own=False, run_id=None, seq=None) for fact in facts
            ]
        if before and facts:
            facts = meeting(facts, before, inside=one.inside, claims=one.claims)
        before = facts or before
        found += facts
        if one.changed and facts:
            found += [
                msgspec.structs.replace(fact, end_ns=fact.end_ns + longer)
                for fact in (facts[0], facts[-1])
                for longer in (1, 2)
            ]
        for effects in one.effects:
            found += read_logs(observation(run_id, effects), Reader()).observations
    return found


def meeting(
    facts: list[SpanFact], before: list[SpanFact], *, inside: bool, claims: bool
) -> list[SpanFact]:
    """Give one run something to do with another one."""
    replace = msgspec.structs.replace
    if inside or claims:
        facts = [replace(fact, trace_id=before[0].trace_id) for fact in facts]
    if inside:
        facts[0] = replace(facts[0], parent_id=before[-1].span_id)
    if claims:
        facts[-1] = replace(facts[-1], span_id=before[-1].span_id)
    return facts


def add(ledger: Ledger, batch: Sequence[Piece], arrived_ns: int) -> None:
    ledger.add(
        [piece for piece in batch if isinstance(piece, SpanFact)],
        [piece for piece in batch if isinstance(piece, Observation)],
        arrived_ns=arrived_ns,
    )


def concluded(ledger: Ledger) -> Outcome:
    """Let every wait pass; return the outcome without the order in which it was reached."""
    ledger.decide(SETTINGS, now_ns=WAITED_NS)
    ledger.decide(SETTINGS, now_ns=EXPIRED_NS)
    decisions = [decision for _, decision in ledger.decisions()]
    rows = trace_rows([made for made in decisions if isinstance(made, PairDecided)])
    return Outcome(
        [encode(made) for made in sorted(decisions, key=reference)],
        [msgspec.json.encode(line) for line in ledger.runs()],
        report_json(fold(rows) if rows else empty_report()),
    )


def at_once(found: Sequence[Piece]) -> Outcome:
    with in_a_new_ledger() as url, Ledger.open(url) as ledger:
        add(ledger, found, NOW_NS)
        return concluded(ledger)


class in_a_new_ledger:  # noqa: N801 - reads as what it is
    """Give the URL of a ledger that is gone afterwards."""

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory()
        return f"sqlite:///{Path(self._folder.name) / 'ledger.db'}"

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def piecemeal(found: Sequence[Piece], rng: random.Random) -> Outcome:
    """Deliver in any order and grouping, some more than once, with restarts in between."""
    with in_a_new_ledger() as url:
        return piecemeal_into(url, found, rng)


def piecemeal_into(url: str, found: Sequence[Piece], rng: random.Random) -> Outcome:
    delivered = [piece for piece in found for _ in range(rng.choice([1, 1, 2]))]
    rng.shuffle(delivered)
    cuts = sorted(rng.choices(range(len(delivered) + 1), k=rng.randint(0, 6)))
    moments = sorted(rng.choices(range(SETTLE_NS), k=len(cuts) + 1))
    ledger = Ledger.open(url)
    for start, end, moment in zip([0, *cuts], [*cuts, None], moments, strict=True):
        add(ledger, delivered[start:end], NOW_NS + moment)
        if rng.random() < 0.5:
            assert ledger.decide(SETTINGS, now_ns=NOW_NS + moment) == []
        if rng.random() < 0.3:
            ledger.close()
            ledger = Ledger.open(url)
    outcome = concluded(ledger)
    ledger.close()
    return outcome


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(st.lists(made_up_runs, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_order_batching_duplication_and_restarts_change_no_byte(
    made_up: list[MadeUpRun], rng: random.Random
) -> None:
    found = pieces(made_up)
    if not found:
        return

    assert piecemeal(found, rng) == at_once(found)


@pytest.mark.postgresql
@settings(
    max_examples=settings().max_examples // 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    made_up=st.lists(made_up_runs, min_size=1, max_size=6),
    rng=st.randoms(use_true_random=False),
)
def test_both_databases_give_the_same_bytes(
    made_up: list[MadeUpRun], rng: random.Random, cluster: Any, postgresql_url: str
) -> None:
    found = pieces(made_up)
    if not found:
        return
    cluster.empty()

    assert piecemeal_into(postgresql_url, found, rng) == at_once(found)


def test_the_made_up_runs_do_earn_credit() -> None:
    """The property would hold of a judge that never decides: this one does."""
    usual = {"task": 1, "variant": None, "lost": (), "state": "completed", "effects": (("a",),)}
    control = MadeUpRun(arm="control", turns=3, counts=True, **usual)
    candidate = MadeUpRun(arm="fused-batch", turns=1, counts=True, **usual)

    outcome = at_once(pieces([control, candidate]))

    assert b'"avoided":2' in outcome.decisions[0]
