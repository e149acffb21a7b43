"""One round of the background: in which order, how much of it at once, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.components import LedgerExtension
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.rounds import PRUNE_STEPS, PUBLISHED_TOGETHER, Rounds
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.store.deciding import Step
from otel_turnavoid.store.pruning import Pruned
from otel_turnavoid.store.shares import Author

HOUR = 3600 * SECOND
DAY = 24 * HOUR
AUTHOR = Author(3, "me")


class FakeLedger:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.removes: list[Pruned] = []
        self.asked: list[tuple] = []
        self.taken = 0

    def deciding(self, settings, *, now_ns, author, max_open_runs) -> Iterator[Step]:
        assert settings == Settings()
        self.asked.append(("decide", now_ns, author, max_open_runs))
        for step in self.steps:
            self.taken += 1
            yield step

    def prune(self, before_ns) -> Iterator[Pruned]:
        self.asked.append(("prune", before_ns))
        return iter(self.removes)


class FakeTenure:
    author = AUTHOR


class FakeJournal:
    reads = 0

    def read_on(self) -> bool:
        self.reads += 1
        return True


class Scene:
    def __init__(self, **limits) -> None:
        self.ledger, self.journal, self.own = FakeLedger(), FakeJournal(), Telemetry()
        self.now_ns = 100 * DAY
        self.round = Rounds(
            self.ledger,
            FakeTenure(),
            self.journal,
            settings=Settings(),
            limits=LedgerExtension(**limits),
            own=self.own,
            clock=lambda: self.now_ns,
        )

    def pruned(self) -> list[int]:
        return [before for what, before, *_ in self.ledger.asked if what == "prune"]


def test_a_round_decides_for_the_share_that_is_held_and_reads_the_journal_on():
    scene = Scene(max_open_runs=7)

    assert scene.round() is True
    assert scene.ledger.asked == [("decide", 100 * DAY, AUTHOR, 7)]
    assert scene.journal.reads == 1


def test_a_backlog_is_published_bit_by_bit():
    scene = Scene()
    scene.ledger.steps = [Step((None,) * (PUBLISHED_TOGETHER // 2))] * 5

    scene.round()

    assert (scene.ledger.taken, scene.journal.reads) == (2, 1)


def test_what_expired_is_counted_by_reason():
    scene = Scene()
    scene.ledger.steps = [Step(expired=3), Step(displaced=2), Step(expired=1)]

    scene.round()

    assert scene.own.value(telemetry.EXPIRED_RUNS, "age") == 4
    assert scene.own.value(telemetry.EXPIRED_RUNS, "limit") == 2


def test_without_retention_nothing_is_removed():
    scene = Scene()

    scene.round()

    assert scene.pruned() == []


def test_retention_is_looked_after_at_once_and_then_every_24th_of_it():
    scene = Scene(retention=Duration(48 * HOUR))
    scene.round()
    scene.now_ns += 2 * HOUR - 1
    scene.round()
    scene.now_ns += 1
    scene.round()

    assert scene.pruned() == [98 * DAY, 98 * DAY + 2 * HOUR]


def test_what_is_removed_is_counted_and_spread_over_rounds():
    scene = Scene(retention=Duration(2 * DAY))
    scene.ledger.removes = [Pruned(1, 10, 2)] * (PRUNE_STEPS + 1)

    scene.round()
    assert scene.own.value(telemetry.PRUNED, "runs") == PRUNE_STEPS
    scene.round()
    scene.round()

    counts = [scene.own.value(telemetry.PRUNED, kind) for kind in ("runs", "facts", "observations")]
    assert counts == [each * (PRUNE_STEPS + 1) for each in (1, 10, 2)]


def test_the_journal_is_read_on_where_deciding_fails():
    scene = Scene()

    def fail(*_, **__):
        raise LedgerError("share 3 was taken over")

    scene.ledger.deciding = fail
    with pytest.raises(LedgerError):
        scene.round()

    assert scene.journal.reads == 1
