"""Model calls that arrive twice, late, in part or not at all (``A…``: shared/pitfalls.md).

``c`` is a control run, ``k`` a candidate. Entries of a made-up run are numbered: 0 the Invoke,
1 the UserTurn, then an AgentTurn, its call and its tool, turn by turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, Turn, run_spans, shatter

CHAT = {"gen_ai.operation.name": "chat"}


def control(**options: Any) -> bytes:
    return run_spans(run_id="c", **options)


def candidate(**options: Any) -> bytes:
    return run_spans(run_id="k", arm="fused-batch", **options)


def test_a06_the_same_export_request_again_after_a_restart(bench) -> None:
    for _ in range(2):
        bench.traces(control(), candidate(turns=1))
        bench.observed("c", "k")
        bench.pairs()
        bench.restart()

    assert bench.avoided() == 2
    assert {run.llm_calls for run in bench.runs().values()} == {3, 1}


def test_a08_500_spans_without_ids_are_500_rejects(bench, spans, edited) -> None:
    def without_ids(sent: Any) -> None:
        for span in sent:
            span.span_id = b""

    many = spans()
    for _ in range(500):
        many.add(CHAT)
    [batch] = bench.traces(edited(many.request(), without_ids))

    assert (batch.rejected, batch.facts, bench.runs()) == (500, [], {})
    assert "the span id is missing" in batch.problem


def test_a13_a_call_whose_stream_was_abandoned_is_not_avoided(bench) -> None:
    """It was declared, and its span and its turn's never ended."""
    bench.traces(control(turns=3), candidate(turns=3, lost={8, 9}))
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 1, 0, "incomplete-run")]


def test_a14_a_cancelled_run_whose_invoke_never_ended_earns_nothing(bench) -> None:
    """Cancelled in its third turn of five: neither that turn nor the Invoke was exported."""
    bench.traces(control(turns=5), candidate(turns=5, lost={0, *range(8, 17)}))
    bench.observed("c", "k")

    assert bench.pairs() == []
    assert bench.outcomes() == {"c": "unpaired", "k": "incomplete"}


def test_a16_a_gap_in_the_numbers_makes_the_run_incomplete(bench) -> None:
    """Turns 1, 2 and 4 arrive."""
    plan = [Turn(tools=())] * 4
    bench.traces(control(turns=plan), candidate(turns=plan, lost={6, 7}))
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 1, 0, "incomplete-run")]
    assert "2 sequence numbers never arrived: 6, 7" in bench.runs()["k"].problems


def test_a20_two_processors_on_one_ledger_pair_what_each_saw_half_of(bench) -> None:
    bench.traces(control(turns=3))
    with Ledger.open(bench.url) as other:
        first, bench.ledger = bench.ledger, other
        bench.traces(candidate(turns=2))
        bench.observed("c", "k")
        bench.ledger = first

    assert bench.pairs() == [(1, 0, 0, "")]


@pytest.mark.parametrize("arm", ["control", "fused-batch"])
def test_a20_without_a_shared_ledger_each_half_is_unpaired(bench, arm) -> None:
    bench.traces(run_spans(run_id="r", arm=arm))
    bench.observed("r")

    assert (bench.pairs(), bench.outcomes()) == ([], {"r": "unpaired"})


def test_a21_redelivery_after_a_restart_earns_nothing_again(bench) -> None:
    sent = [control(turns=3), candidate(turns=2)]
    bench.traces(*sent)
    bench.observed("c", "k")
    assert bench.pairs() == [(1, 0, 0, "")]

    bench.restart()
    bench.traces(*sent, *(part for body in sent for part in shatter(body)), at=2)
    bench.observed("c", "k")

    assert (bench.pairs(at=3), bench.avoided()) == ([], 1)


def test_a22_fewer_calls_seen_than_the_invoke_says_is_incomplete(bench) -> None:
    bench.traces(control(turns=5), candidate(turns=5, lost={3, 6}))
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 0, 0, "incomplete-run")]
    assert "5 LlmCalls declared, 3 seen" in bench.runs()["k"].problems


def test_a24_a_candidate_that_never_came_is_not_one_without_turns(bench) -> None:
    bench.traces(control(turns=6))
    bench.observed("c")

    assert (bench.pairs(), bench.avoided()) == ([], 0)
    assert bench.outcomes() == {"c": "unpaired"}


def test_a26_a_run_of_1500_spans_in_one_request_is_counted_exactly(bench) -> None:
    [batch] = bench.traces(control(turns=500))

    run = bench.runs()["c"]
    assert (batch.spans, batch.rejected) == (1502, 0)
    assert (run.model_turns, run.llm_calls, run.tool_calls, run.causes) == (500, 500, 500, ())


def test_a27_one_malformed_span_leaves_the_99_others_counted(bench, spans, edited) -> None:
    def break_one(sent: Any) -> None:
        sent[50].trace_id = bytes(16)

    many = spans({"turnavoid.run.id": "r"})
    for _ in range(100):
        many.add(CHAT)
    [batch] = bench.traces(edited(many.request(), break_one))

    assert (batch.rejected, bench.runs()["r"].llm_calls) == (1, 99)
    assert "the trace id is all zeros" in batch.problem


def test_a19_a_call_after_the_verdict_contradicts_it_and_changes_no_figure(bench) -> None:
    bench.traces(control(turns=3), candidate(turns=2))
    bench.observed("c", "k")
    assert bench.pairs() == [(1, 0, 0, "")]

    late = run_spans(run_id="k", arm="fused-batch", turns=3, start_ns=START_NS)
    bench.traces(late, at=900)

    assert (bench.pairs(at=901), bench.avoided()) == ([], 1)
    assert len(bench.ledger.contradicted()) == 1


def test_a01_a_call_shown_by_framework_and_provider_is_one(bench, spans) -> None:
    sent = spans({"turnavoid.run.id": "r"})
    agent = sent.add({"gen_ai.operation.name": "invoke_agent"}, scope="langchain", ms=0)
    outer = sent.add(CHAT, agent, scope="langchain", ms=0)
    sent.add(CHAT, outer, scope="anthropic")
    bench.traces(sent.request())

    assert (bench.runs()["r"].model_turns, bench.runs()["r"].llm_calls) == (1, 1)


def test_a04_a_span_in_29_requests_is_one(bench) -> None:
    bench.traces(*[control(turns=5)] * 29)

    assert (bench.runs()["c"].llm_calls, bench.runs()["c"].causes) == (5, ())


def test_a09_a_run_exported_again_under_fresh_ids_is_one(bench, edited) -> None:
    def with_fresh_ids(sent: Any) -> None:
        for span in sent:
            span.trace_id = span.trace_id[::-1]
            span.span_id = span.span_id[::-1]
            span.parent_span_id = span.parent_span_id[::-1]

    bench.traces(control(turns=5), edited(control(turns=5), with_fresh_ids))

    run = bench.runs()["c"]
    assert (run.model_turns, run.llm_calls, run.causes) == (5, 5, ())


def test_a10_a_call_made_up_again_from_its_log_event_is_one(bench, spans) -> None:
    """In another trace, with the same response id."""
    said = CHAT | {"gen_ai.response.id": "msg_1"}
    sent = spans({})
    agent = sent.add({"gen_ai.operation.name": "invoke_agent"}, scope="real", ms=0)
    sent.add(said, agent, scope="real", ms=0)
    sent.add(said, scope="synthetic", trace=2)
    bench.traces(sent.request())

    assert [run.llm_calls for run in bench.runs().values()] == [1]
