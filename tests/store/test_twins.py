"""Copies of one call in traces that arrive one after the other."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from otel_turnavoid.judge.facts import CallDetail, InvokeDetail, SpanFact, Usage
from otel_turnavoid.otlp import Batch
from otel_turnavoid.vocabulary import Entry

MS = 1_000_000
AGENT, CALL, COPY = "a" * 16, "b" * 16, "c" * 16


def span(trace_id: str, span_id: str, start_ms: int, end_ms: int, **said) -> SpanFact:
    given = {"dialect": "gen_ai", "service": "s", "instance": "i", "scope": "framework", **said}
    return SpanFact(
        trace_id=trace_id * 32,
        span_id=span_id,
        start_ns=start_ms * MS,
        end_ns=end_ms * MS,
        **given,
    )


def call(**said) -> dict:
    detail = CallDetail(**{"usage": Usage(input=120, output=20), **said})
    return {"entry": Entry.LLM_CALL, "call": detail}


def framework(start_ms: int = 0, **said) -> list[SpanFact]:
    """An agent's trace, as its framework shows it."""
    agent = {"entry": Entry.INVOKE, "invoke": InvokeDetail()}
    return [
        span("1", AGENT, start_ms, start_ms + 1000, **agent),
        span("1", CALL, start_ms + 10, start_ms + 110, parent_id=AGENT, **call(**said)),
    ]


def provider(start_ms: int = 20, **said) -> list[SpanFact]:
    """The provider's own span of a call, in a trace of its own."""
    return [span("2", COPY, start_ms, start_ms + 80, scope="provider", **call(**said))]


def shown(bench) -> list[tuple[str, int | None, str]]:
    return [
        (line.run.run_id, line.run.llm_calls, line.outcome.value) for line in bench.ledger.runs()
    ]


WHOLE = [(f"trace:{'1' * 32}/{AGENT}", 1, "rejected")]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"response_id": "r1"}, {"response_id": "r1"}),
        ({"asks": "c1"}, {"asks": "c1", "response_id": "r1"}),
        ({}, {"response_id": "r1"}),
        ({"response_id": "r1"}, {}),
        ({}, {}),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_traces_that_show_one_call_come_together_in_either_order(
    bench, one, two, *, backwards: bool
) -> None:
    pieces = [framework(**one), provider(**two)]
    for at, facts in enumerate(reversed(pieces) if backwards else pieces):
        bench.add(Batch(facts=facts), at=at)
        bench.decide(at)

    assert shown(bench) == WHOLE


def test_any_order_of_arrival_gives_the_same_bytes(bench, tmp_path) -> None:
    spans = [*framework(), *provider(response_id="r1")]
    seen = set()
    for number, order in enumerate(permutations(spans)):
        other = type(bench)(f"sqlite:///{tmp_path / f'{number}.db'}")
        for at, fact in enumerate(order):
            other.add(Batch(facts=[fact]), at=at)
            other.decide(at)
        seen.add(msgspec.json.encode([line.run for line in other.ledger.runs()]))
        other.ledger.close()

    assert len(seen) == 1


def test_another_call_stays_unattributed(bench) -> None:
    bench.add(Batch(facts=framework(response_id="r1")), at=0)
    bench.add(Batch(facts=provider(response_id="r2")), at=1)
    bench.decide(1)

    assert shown(bench) == [*WHOLE, (f"trace:{'2' * 32}", 1, "unattributed")]


def test_two_spans_of_a_call_without_a_run_are_one_line(bench) -> None:
    [lone] = provider(start_ms=20, response_id="r1")
    bench.add(Batch(facts=[framework(response_id="r1")[1]]), at=0)
    bench.decide(0)
    bench.add(Batch(facts=[lone]), at=1)
    bench.decide(1)

    assert shown(bench) == [(f"trace:{'1' * 32}", 1, "unattributed")]
