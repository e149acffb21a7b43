"""Timelines: entries in order, turns numbered, and what is not as usual in words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from otel_turnavoid.publish.explanation import (
    Copy,
    EffectsCompared,
    EntryLine,
    Figures,
    Merged,
    PairExplained,
    RunExplained,
    TurnLine,
    Why,
)
from otel_turnavoid.publish.timeline import (
    effects_table,
    pair_timelines,
    run_timeline,
    steps,
    turns_strip,
)
from otel_turnavoid.vocabulary import Arm, Entry, WithheldCause


def entry(seq: int | None, kind: Entry, name: str = "", **changes: Any) -> EntryLine:
    values: dict[str, Any] = {
        "became": "",
        "at_ms": float(10 * (seq or 0)),
        "took_ms": 10.0,
        "trace_id": "t",
        "span_id": f"s{seq}",
        "scope": "scope",
        **changes,
    }
    return EntryLine(seq=seq, entry=kind, name=name, **values)


def turn(number: int | None, of: str, because: str = "") -> TurnLine:
    return TurnLine(number=number, of=of, because=because, calls=())


def run(*entries: EntryLine, **changes: Any) -> RunExplained:
    values: dict[str, Any] = {
        "run_id": "r",
        "arm": Arm.CONTROL,
        "variant": None,
        "mechanism": "control",
        "lifecycle": "realized",
        "reason": "baseline",
        "evidence": "declared",
        "outcome": None,
        "final": True,
        "state": "completed",
        "start_ns": 0,
        "took_ms": 100.0,
        "experiment": "",
        "digest": None,
        "unit": "",
        "turn_index": 0,
        "trace_ids": (),
        "services": (),
        "model_turns": 1,
        "llm_calls": 2,
        "tool_calls": 1,
        "turns": (),
        "merged": (),
        "repeated": 0,
        "declared": None,
        "missing": (),
        "problems": (),
        "observations": (),
        "why": (),
        "unknown": (),
        **changes,
    }
    return RunExplained(entries=entries, **values)


USUAL = run(
    entry(0, Entry.INVOKE, "desk", became="completed", took_ms=100.0),
    entry(1, Entry.AGENT_TURN, became="committed"),
    entry(2, Entry.LLM_CALL, "model", became="failed"),
    entry(3, Entry.LLM_CALL, "model", became="committed, attempt 2"),
    entry(4, Entry.TOOL_TURN, "cancel", became="executed"),
    entry(5, Entry.AGENT_TURN, became="discarded"),
    turns=(turn(1, "entry 1"), turn(None, "entry 5", "its result was thrown away")),
)


def test_entries_come_in_order_with_their_turn_and_what_is_unusual() -> None:
    assert [(step.kind, step.title, step.name, step.note) for step in steps(USUAL)] == [
        ("other", "Invoke", "desk", ""),
        ("turn", "Turn 1", "", ""),
        ("call", "call", "model", "failed"),
        ("call", "call", "model", "attempt 2"),
        ("tool", "tool", "cancel", ""),
        ("other", "agent turn", "", "discarded, no turn: its result was thrown away"),
    ]


def test_a_call_outside_of_agent_turns_is_its_own_turn() -> None:
    found = run(entry(None, Entry.LLM_CALL, "model", span_id="a"), turns=(turn(1, "span a"),))

    assert [(step.kind, step.title, step.name) for step in steps(found)] == [
        ("turn", "Turn 1", "model")
    ]


def test_a_call_that_two_spans_show_comes_once() -> None:
    copy = Copy(span_id="b", scope="other", rule="response id")  # type: ignore[arg-type]
    found = run(
        entry(None, Entry.LLM_CALL, span_id="a"),
        entry(None, Entry.LLM_CALL, span_id="b"),
        merged=(Merged(of="span a", scope="scope", copies=(copy,)),),
    )

    assert [step.entry.span_id for step in steps(found)] == ["a"]


def test_a_run_says_its_counts_and_what_it_does_not_know() -> None:
    text = run_timeline(run(model_turns=None, state="aborted"), "Control")

    assert (
        '<p class="facts">committed turns unknown · 2 calls · 1 tool · took 100 ms ·'
        " ended as aborted</p>"
    ) in text
    assert 'aria-label="Control run r"' in text


def test_drawings_on_one_scale_show_the_shorter_run_shorter() -> None:
    short = run(entry(1, Entry.LLM_CALL, at_ms=0.0, took_ms=50.0), took_ms=50.0)

    assert 'width="100.00%"' in run_timeline(short, "Control")
    assert 'width="50.00%"' in run_timeline(short, "Control", scale_ms=100.0)


def test_what_was_thrown_away_is_drawn_fainter() -> None:
    classes = re.findall(r'<rect [^>]*class="([^"]+)"', run_timeline(USUAL, "Control"))

    assert classes == ["turn", "call lost", "call", "tool", "turn lost"]


def test_a_record_without_times_has_no_drawing_and_no_durations() -> None:
    untimed = run(entry(1, Entry.LLM_CALL, "model", took_ms=0.0, at_ms=0.0), took_ms=0.0)

    text = run_timeline(untimed, "Control")

    assert "<svg" not in text
    assert " ms" not in text


def test_long_runs_say_how_much_is_left_out_and_where_to_see_it() -> None:
    long = run(*(entry(seq, Entry.LLM_CALL) for seq in range(10)))

    text = run_timeline(long, "Control", most=4)

    assert text.count("<li") == 4
    assert "… and 6 more: turnavoid explain r" in text


def test_names_from_senders_are_escaped() -> None:
    text = run_timeline(run(entry(0, Entry.TOOL_TURN, "<script>\x1b"), run_id="<r>"), "Control")

    assert "<script>" not in text
    assert r"&lt;script&gt;\x1b" in text
    assert "<r>" not in text


def test_effects_say_what_is_missing_and_what_was_added() -> None:
    text = effects_table(
        EffectsCompared(
            observer="watcher",
            compared=True,
            control=("a", "b"),
            candidate=("b", "c"),
            missing=("a",),
            added=("c",),
        )
    )

    cells = re.findall(r'<th scope="row">(\w)</th><td>(.*?)</td><td.*?>(.*?)</td>', text)
    assert cells == [("a", "seen", "missing"), ("b", "seen", "seen"), ("c", "-", "added")]
    assert "Effects as watcher saw them" in text


@pytest.mark.parametrize(("withheld", "title"), [(2, "What was withheld, and why:"),
                                                 (0, "What stands against a credit:")])  # fmt: skip
def test_a_pair_shows_both_runs_its_effects_and_its_causes(withheld: int, title: str) -> None:
    pair = PairExplained(
        number=1,
        decided_ns=0,
        control="c",
        candidate="k",
        arm=Arm.EXACT_REUSE,
        variant=None,
        mechanism="exact-reuse",
        lifecycle="realized",
        reason="exact-match",
        comparison=None,
        verdict=Figures(
            control_turns=3,
            candidate_turns=1,
            potential=2,
            avoided=0,
            withheld=withheld,
            added=0,
            causes=(WithheldCause.EFFECTS_UNOBSERVED,),
        ),
        effects=EffectsCompared(
            observer=None, compared=False, control=(), candidate=(), missing=(), added=()
        ),
        why=(
            Why(
                cause="effects-unobserved",
                what="nobody looked",
                found=("no observation of the control counts",),
                wanted="an observer",
            ),
        ),
        for_credit=(),
        contradicted_ns=None,
        today=None,
        today_effects=None,
    )

    text = pair_timelines(pair, run(run_id="c"), run(run_id="k"))

    assert 'aria-label="Control run c"' in text
    assert 'aria-label="Candidate (exact-reuse) run k"' in text
    assert "No effect was observed in either run." in text
    assert f"<p>{title}</p>" in text
    assert (
        "<li><code>effects-unobserved</code>: nobody looked. no observation of the control"
        " counts</li>"
    ) in text


def test_turns_of_which_only_the_count_is_known_are_squares() -> None:
    text = turns_strip(3, "candidate")

    assert text.count('<i class="candidate"></i>') == 3
    assert text.endswith("</span> 3 turns</p>\n")
