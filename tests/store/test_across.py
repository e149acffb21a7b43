"""Runs that have to do with each other, in whatever order their spans arrive.

``c`` is a control run of three turns and ``k`` a candidate of two; ``s`` is a sub-agent of ``k``
to which the run id was not passed on: four turns below a span of ``k``, under an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.otlp import Batch
from otel_turnavoid.testing import START_NS

Make = Callable[..., Batch]
TRACE = bytes(range(16))
WAIT = 600
AVOIDED = [("pair", "c", "k", 1, 0, None), ("run", "c", "paired"), ("run", "k", "paired")]
UNPROVEN = [("pair", "c", "k", 0, 1, "completeness-unproven"), *AVOIDED[1:]]
CONFLICT = [("pair", "c", "k", 0, 1, "conflicting-evidence"), *AVOIDED[1:]]


@pytest.fixture
def known(run: Make, seen: Make) -> list[Batch]:
    """The pair with everything it needs."""
    k = run("k", "fused-batch", turns=2, trace_id=TRACE)
    return [run("c"), k, seen("c"), seen("k")]


@pytest.fixture
def s(run: Make, known: list[Batch]) -> Batch:
    sub = run("s", None, turns=4, trace_id=TRACE, digest="")
    invoke, *entries = sub.facts
    tool = known[1].facts[4]
    return replace(sub, facts=[replace(invoke, parent_id=tool.span_id), *entries])


def arrive(bench: Any, known: list[Batch], sub: Batch, order: Iterable[int]) -> None:
    """Each part is assembled before the next arrives."""
    control, k, *observations = known
    for place in order:
        bench.add((control, k, sub)[place], at=0)
        bench.decide(0)
        bench.reopen()
    bench.add(*observations, at=0)


def problems(bench: Any, run_id: str) -> tuple[str, ...]:
    return next(line.run.problems for line in bench.ledger.runs() if line.run.run_id == run_id)


def test_a_sub_agent_under_an_id_of_its_own_leaves_its_caller_unproven(
    bench: Any, known: list[Batch], s: Batch
) -> None:
    bench.add(*known, s, at=0)

    assert bench.decide(1) == []
    assert bench.decide(WAIT)[:3] == UNPROVEN
    assert problems(bench, "k") == (
        (
            "another run began inside of this one, under an id of its own, and its turns are not in"
            " the count: s"
        ),
    )


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_whichever_arrives_first(
    bench: Any, known: list[Batch], s: Batch, order: tuple[int, ...]
) -> None:
    arrive(bench, known, s, order)

    assert bench.decide(WAIT)[:3] == UNPROVEN


def test_the_span_it_began_below_may_arrive_last(bench: Any, known: list[Batch], s: Batch) -> None:
    control, k, *observations = known
    tool = k.facts[4]
    bench.add(control, replace(k, facts=[f for f in k.facts if f is not tool]), s, at=0)
    bench.add(*observations, at=0)
    bench.decide(0)
    bench.ledger.add([tool], arrived_ns=0)

    assert bench.decide(WAIT)[:3] == UNPROVEN


def test_a_span_between_them_that_belongs_to_no_run_may_arrive_last(
    bench: Any, known: list[Batch], s: Batch
) -> None:
    invoke, *entries = s.facts
    between = replace(
        invoke,
        span_id="b" * 16,
        entry=None,
        own=False,
        invoke=None,
        run_id=None,
        seq=None,
    )
    bench.add(*known, replace(s, facts=[replace(invoke, parent_id="b" * 16), *entries]), at=0)
    bench.decide(0)
    bench.ledger.add([between], arrived_ns=0)

    assert bench.decide(WAIT)[:3] == UNPROVEN


def test_a_sub_agent_that_is_seen_after_the_verdict_contradicts_it(
    bench: Any, known: list[Batch], s: Batch
) -> None:
    bench.add(*known, at=0)
    assert bench.decide(1) == AVOIDED
    bench.add(s, at=2)
    bench.decide(3)

    assert bench.contradicted() == AVOIDED[:1]


@pytest.fixture
def behind(s: Batch) -> Batch:
    """The sub-agent below a web server's span, which is stored nowhere."""
    invoke, *entries = s.facts
    return replace(s, facts=[replace(invoke, parent_id="5" * 16), *entries])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_sub_agent_behind_a_server_leaves_its_caller_unproven_whichever_arrives_first(
    bench: Any, known: list[Batch], behind: Batch, order: tuple[int, ...]
) -> None:
    arrive(bench, known, behind, order)

    assert bench.decide(1) == []
    assert bench.decide(WAIT)[:3] == UNPROVEN
    assert problems(bench, "k") == (
        (
            "another run began in the trace of this one, below a span that is not here, and nothing"
            " shows that its turns are not this one's: s"
        ),
    )


def test_a_sub_agent_behind_a_server_that_is_seen_after_the_verdict_contradicts_it(
    bench: Any, known: list[Batch], behind: Batch
) -> None:
    bench.add(*known, at=0)
    assert bench.decide(1) == AVOIDED
    bench.add(behind, at=2)
    bench.decide(3)

    assert bench.contradicted() == AVOIDED[:1]


def test_two_runs_below_one_server_are_two_runs(
    bench: Any, known: list[Batch], behind: Batch
) -> None:
    control, k, *observations = known
    invoke, *entries = k.facts
    below = replace(k, facts=[replace(invoke, parent_id="5" * 16), *entries])
    bench.add(control, below, *observations, behind, at=0)

    assert bench.decide(1)[0] == AVOIDED[0]


def test_two_runs_of_one_trace_are_two_runs(bench: Any, run: Make, seen: Make) -> None:
    """A37: a trace id made from a session, or a harness around both."""
    c, k = run("c", trace_id=TRACE), run("k", "fused-batch", turns=2, trace_id=TRACE)
    bench.add(c, k, seen("c"), seen("k"), at=0)

    assert bench.decide(1) == AVOIDED


def test_a_span_that_another_run_claims_is_evidence_of_neither(
    bench: Any, known: list[Batch], run: Make
) -> None:
    thief = run("thief", None, turns=1, trace_id=TRACE, digest="")
    claimed = replace(thief.facts[1], span_id=known[1].facts[1].span_id)
    bench.add(*known, at=0)
    bench.decide(0)
    bench.ledger.add([thief.facts[0], claimed], arrived_ns=0)

    assert bench.decide(1)[:3] == CONFLICT
    assert problems(bench, "k") == ("spans of this run are claimed by another one too: thief",)
    assert "spans of this run are claimed by another one too: k" in problems(bench, "thief")


def test_a_claim_after_the_verdict_contradicts_it(
    bench: Any, known: list[Batch], run: Make
) -> None:
    thief = run("thief", None, turns=1, trace_id=TRACE, digest="")
    bench.add(*known, at=0)
    assert bench.decide(1) == AVOIDED
    claimed = replace(thief.facts[1], span_id=known[1].facts[1].span_id)
    bench.ledger.add([claimed], arrived_ns=0)
    bench.decide(2)

    assert bench.contradicted() == AVOIDED[:1]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The spans that were read from the ledger, as they lie there."""
    from otel_turnavoid.store import gathering  # noqa: PLC0415 - patched here

    bodies: list[bytes] = []
    plain = gathering.decode_span

    def counted(body: bytes) -> Any:
        bodies.append(body)
        return plain(body)

    monkeypatch.setattr(gathering, "decode_span", counted)
    return bodies


def test_many_runs_of_one_trace_are_not_read_for_one_of_them(
    bench: Any, run: Make, decoded: list[bytes]
) -> None:
    """A session that goes on for days under one trace id."""
    for number in range(30):
        bench.add(run(f"r{number}", trace_id=TRACE, start_ns=START_NS + number), at=0)
    bench.decide(1)
    decoded.clear()
    late = run("late", trace_id=TRACE, start_ns=START_NS + 99)
    bench.add(late, at=2)
    bench.decide(3)

    assert len(decoded) == len(late.facts)


def test_nor_where_each_lies_behind_a_server_of_its_own(
    bench: Any, run: Make, decoded: list[bytes]
) -> None:
    def behind(number: int) -> Batch:
        one = run(f"r{number}", trace_id=TRACE, start_ns=START_NS + number * 3_600 * SECOND)
        invoke, *entries = one.facts
        return replace(one, facts=[replace(invoke, parent_id=f"{number:016x}"), *entries])

    for number in range(30):
        bench.add(behind(number), at=0)
    bench.decide(1)
    decoded.clear()
    late = behind(31)
    bench.add(late, at=2)
    bench.decide(3)

    assert len(decoded) == len(late.facts) + 31
