"""What is a turn, and what only looks like one (``A…``: shared/pitfalls.md).

``c`` is a control run, ``k`` a candidate.
"""

from __future__ import annotations

import json
from typing import Any

from otel_turnavoid.judge.settings import PurposeRule
from otel_turnavoid.testing import Call, Turn, run_spans
from otel_turnavoid.vocabulary import Evidence, Purpose

CHAT = {"gen_ai.operation.name": "chat"}
AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
JUDGE = Call(purpose=Purpose.VALIDATION)
COMPACTION = Call(purpose=Purpose.COMPACTION)
OF_OTHERS = {
    "c": {"turnavoid.arm": "control", "turnavoid.lifecycle": "realized"},
    "k": {"turnavoid.arm": "fused-batch", "turnavoid.lifecycle": "realized"},
}
DIGEST = "sha256:" + "5" * 64


def control(turns: Any) -> bytes:
    return run_spans(run_id="c", turns=turns)


def candidate(turns: Any) -> bytes:
    return run_spans(run_id="k", arm="fused-batch", turns=turns)


def of_others(run_id: str) -> dict[str, str]:
    """What the resource says of a run that another instrumentation shows."""
    said = {"turnavoid.run.id": run_id, "turnavoid.input.digest": DIGEST, "service.name": "agent"}
    return OF_OTHERS[run_id] | said


def test_a51_leaving_out_the_calls_for_a_title_avoids_no_turn(bench, spans) -> None:
    title = PurposeRule(attribute="query_source", equals="title", purpose=Purpose.SIDE)
    bench.configured(accept=frozenset(Evidence), purposes=(title,))
    for run_id, titles in (("c", 2), ("k", 0)):
        sent = spans(of_others(run_id))
        agent = sent.add(AGENT, ms=0)
        for _ in range(5):
            sent.add(CHAT | {"query_source": "loop"}, agent)
        for _ in range(titles):
            sent.add(CHAT | {"query_source": "title"}, agent)
        bench.traces(sent.request())
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 0, 0, "")]
    runs = bench.runs()
    assert [(runs[name].model_turns, runs[name].llm_calls) for name in "ck"] == [(5, 7), (5, 5)]


def test_a51_the_same_by_the_input_messages_alone(bench, spans) -> None:
    """No attribute tells the titles from the loop; the one at the end could be either."""
    bench.configured(accept=frozenset(Evidence), prefix_chain=True)
    loop = "abcde"
    for run_id, order in (("c", "axbcyde"), ("k", "abcde"), ("unclear", "abcdez")):
        sent = spans(of_others(run_id) if run_id in OF_OTHERS else {"turnavoid.run.id": run_id})
        agent = sent.add(AGENT, ms=0)
        for letter in order:
            before = loop.partition(letter)[0] if letter in loop else ""
            said = json.dumps([{"role": "user", "content": text} for text in before + letter])
            sent.add(CHAT | {"gen_ai.input.messages": said}, agent)
        bench.traces(sent.request())
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 0, 0, "")]
    runs = bench.runs()
    assert [(runs[name].model_turns, runs[name].llm_calls) for name in "ck"] == [(5, 7), (5, 5)]
    assert "completeness-unproven" in runs["unclear"].causes


def test_a52_a_judge_in_every_turn_adds_calls_and_no_turn(bench) -> None:
    bench.traces(control(3), candidate([Turn(calls=(Call(), JUDGE))] * 3))
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 0, 0, "")]
    assert (bench.runs()["k"].model_turns, bench.runs()["k"].llm_calls) == (3, 6)


def test_a53_compaction_is_no_turn_and_the_reads_repeated_after_it_are(bench) -> None:
    read = Turn(tools=("read_file",))
    compaction = Turn(calls=(COMPACTION,), tools=())
    bench.traces(control([read] * 4), candidate([*[read] * 4, compaction, *[read] * 3]))
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 0, 3, "")]
    assert (bench.runs()["k"].model_turns, bench.runs()["k"].llm_calls) == (7, 8)


def test_a55_a_wrong_answer_from_a_cache_earns_nothing(bench) -> None:
    bench.traces(control(4), candidate([]))
    bench.observed("c", labels=["order:42=cancelled"])
    bench.observed("k", labels=["order:42=confirmed"])

    assert bench.pairs() == [(0, 4, 0, "effects-suppressed effects-added")]


def test_a59_one_arm_shown_call_by_call_and_the_other_not_is_no_comparison(bench, spans) -> None:
    """The control's provider is instrumented; the candidate has one model span for all calls."""
    bench.configured(accept=frozenset(Evidence))
    for run_id, calls, scope in (("c", 7, "provider"), ("k", 1, "framework")):
        sent = spans(of_others(run_id))
        agent = sent.add(AGENT, scope="framework", ms=0)
        for _ in range(calls):
            sent.add(CHAT, agent, scope=scope)
        for _ in range(6):
            sent.add(TOOL, agent, scope="framework")
        bench.traces(sent.request())
    bench.observed("c", "k")

    assert bench.pairs() == [(0, 6, 0, "instrumentation-mismatch")]


def test_a61_607_internal_spans_are_ignored_and_counted_as_such(bench, spans) -> None:
    sent = spans({"turnavoid.run.id": "r"})
    root = sent.add(AGENT, scope="codex", ms=0)
    for number in range(607):
        sent.add({"code.function": "poll"}, root, scope="codex_core", trace=number % 22, ms=1)
    sent.add(CHAT, root, scope="codex")
    [batch] = bench.traces(sent.request())

    assert (batch.spans, batch.ignored) == (609, 607)
    assert (bench.runs()["r"].model_turns, bench.runs()["r"].llm_calls) == (1, 1)
