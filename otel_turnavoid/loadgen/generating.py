"""Plan -> shipments: requests, and the accounts that they come to. Equal plans, equal bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import count
from typing import Final, NamedTuple

from otel_turnavoid.loadgen.accounts import Accounts, Sent
from otel_turnavoid.loadgen.plan import Plan, Spread
from otel_turnavoid.loadgen.shapes import (
    RUN_ID_LENGTH,
    SECOND,
    ForeignShape,
    ObservationShape,
    RunShape,
    unit_name,
)
from otel_turnavoid.vocabulary import Arm

APART_NS: Final = 1_000_000
"""Between the starts of one pair and the next, so that no two look like one another."""

_OBSERVED_AFTER_NS: Final = SECOND


class Export(NamedTuple):
    """One request."""

    signal: str
    """``traces`` or ``logs``."""
    body: bytes
    items: int
    """Spans or log records."""
    again: bool
    """Whether it is sent a second time."""


class Shipment(NamedTuple):
    """Some pairs, whole: their runs first, then what the observer saw of them."""

    number: int
    runs: int
    spans: int
    """Of agents, those that are never sent left out."""
    foreign: int
    lost: int
    exports: tuple[Export, ...]
    accounts: Accounts
    """What the shipment comes to, if all of it arrives."""


class _Pair(NamedTuple):
    number: int
    control: Sent
    candidate: Sent


def shipments(plan: Plan) -> Iterator[Shipment]:
    """Yield what the plan asks for, made one by one.

    Raises:
        UsageError: The plan makes no sense.
    """
    plan.checked()
    maker = _Maker(plan)
    for index in count():
        first = index * plan.batch
        size = plan.batch if plan.pairs is None else min(plan.batch, plan.pairs - first)
        if size <= 0:
            return
        yield maker.shipment(index, range(first, first + size))


class _Maker:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._observation = ObservationShape(plan.effects)
        self._suppressed = ObservationShape(plan.effects - 1)
        self._foreign = ForeignShape()
        self._shape = cache(self._made)

    def _made(self, arm: Arm, turns: int, failed: bool) -> RunShape:  # noqa: FBT001 - cached
        plan = self._plan
        variant = None if arm is Arm.CONTROL else plan.variant
        return RunShape(
            arm,
            turns,
            failed=failed,
            experiment=plan.experiment,
            units=bool(plan.units),
            variant=variant,
        )

    def shipment(self, index: int, numbers: range) -> Shipment:
        pairs = [_drawn(self._plan, number) for number in numbers]
        dice = random.Random(f"{self._plan.seed}/shipment/{index}")  # noqa: S311 - a load
        accounts = Accounts()
        for pair in pairs:
            accounts.add_pair(pair.control, pair.candidate)
        foreign = 0
        exports = []
        for arm in (Arm.CONTROL, self._plan.arm):
            runs = [
                (pair, pair.control if arm is Arm.CONTROL else pair.candidate) for pair in pairs
            ]
            spans = sum(run.entries - len(run.lost) for _, run in runs)
            others = self._others(sum(run.entries for _, run in runs), dice)
            start_ns = self._start_ns(pairs[0].number)
            body = b"".join(self._run(pair, run) for pair, run in runs)
            body += self._foreign.request(
                others, f"{self._plan.seed}/{index}/{arm.value}", start_ns
            )
            foreign += others
            if body:
                again = dice.random() < self._plan.duplicates
                exports.append(Export("traces", body, spans + others, again))
                accounts.duplicates += spans if again else 0
        records = [
            self._record(pair, run)
            for pair in pairs
            for run in (pair.control, pair.candidate)
            if run.observed
        ]
        again = dice.random() < self._plan.duplicates
        exports.append(Export("logs", self._observation.request(records), len(records), again))
        accounts.duplicates += len(records) if again else 0
        sent = [run for pair in pairs for run in (pair.control, pair.candidate)]
        return Shipment(
            index,
            len(sent),
            sum(run.entries - len(run.lost) for run in sent),
            foreign,
            sum(len(run.lost) for run in sent),
            tuple(exports),
            accounts,
        )

    def _run(self, pair: _Pair, run: Sent) -> bytes:
        plan = self._plan
        return self._shape(run.arm, run.turns, run.failed).request(
            _run_id(plan, pair.number, run.arm),
            _digest(plan, pair.number),
            unit_name(pair.number % plan.units if plan.units else 0),
            self._start_ns(pair.number),
            run.lost,
        )

    def _record(self, pair: _Pair, run: Sent) -> bytes:
        lasts_ns = self._shape(run.arm, run.turns, run.failed).lasts_ns
        shape = self._suppressed if run.suppressed else self._observation
        return shape.record(
            _run_id(self._plan, pair.number, run.arm),
            self._start_ns(pair.number) + lasts_ns + _OBSERVED_AFTER_NS,
        )

    def _others(self, spans: int, dice: random.Random) -> int:
        """Return how many foreign spans go with so many of agents, the rest by chance."""
        wanted = spans * self._plan.foreign / (1 - self._plan.foreign)
        return int(wanted) + (dice.random() < wanted % 1)

    def _start_ns(self, number: int) -> int:
        return self._plan.start_ns + number * APART_NS


def _drawn(plan: Plan, number: int) -> _Pair:
    """Return a pair with everything that is left to chance; the order of pairs changes nothing."""
    dice = random.Random(f"{plan.seed}/pair/{number}")  # noqa: S311 - a load, no secret

    def lost(turns: int) -> frozenset[int]:
        if not plan.lost:
            return frozenset()
        return frozenset(seq for seq in range(2 + 3 * turns) if dice.random() < plan.lost)

    before, after = (_number(spread, dice) for spread in (plan.turns, plan.candidate_turns))
    control = Sent(Arm.CONTROL, before, lost(before))
    candidate = Sent(
        plan.arm,
        after,
        lost(after),
        failed=dice.random() < plan.failed,
        suppressed=dice.random() < plan.suppressed,
        observed=dice.random() >= plan.unobserved,
    )
    return _Pair(number, control, candidate)


def _number(spread: Spread, dice: random.Random) -> int:
    return spread.least + int(dice.random() * (spread.most - spread.least + 1))


def _run_id(plan: Plan, number: int, arm: Arm) -> bytes:
    named = f"{plan.seed}/{plan.arm.value}/{plan.variant or ''}/{number}/{arm.value}"
    return b"load-" + sha256(named.encode()).hexdigest()[: RUN_ID_LENGTH - 5].encode()


def _digest(plan: Plan, number: int) -> bytes:
    return b"sha256:" + sha256(f"{plan.seed}/input/{number}".encode()).hexdigest().encode()
