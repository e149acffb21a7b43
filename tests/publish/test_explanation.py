"""Every cause in words, how turns were counted, and how copies were known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.calls import Rule
from otel_turnavoid.judge.facts import CallDetail, SpanFact, ToolDetail, Usage
from otel_turnavoid.judge.judging import judge, judge_null
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.causes import REJECTED, STANDS, WITHHELD
from otel_turnavoid.publish.explained_pair import explain_null, explain_pair
from otel_turnavoid.publish.explained_run import explain_run
from otel_turnavoid.publish.explanation import (
    Explanation,
    PairExplained,
    RunExplained,
    explanation_json,
)
from otel_turnavoid.publish.explanation_text import RULES, explanation_text
from otel_turnavoid.publish.layout import clean, duration
from otel_turnavoid.store.reading import Material, Record
from otel_turnavoid.testing import START_NS, observation, run_spans
from otel_turnavoid.testing.runs import Call, Turn
from otel_turnavoid.vocabulary import (
    Disposition,
    Entry,
    InvokeState,
    Outcome,
    Purpose,
    Rejection,
    WithheldCause,
)

README = Path(__file__).parents[2] / "README.md"
SETTINGS = Settings()
READER = Reader(SETTINGS)
MS = 1_000_000


def material(body: bytes, *observations: bytes) -> Material:
    seen = [each for one in observations for each in read_logs(one, READER).observations]
    return Material(list(read_traces(body, READER).facts), seen)


def run_of(known: Material) -> Run:
    run_id = next(fact.run_id for fact in known.facts if fact.run_id)
    return assemble(run_id, known.facts, known.observations, SETTINGS)


def explained(known: Material, **said: Any) -> RunExplained:
    settings = said.pop("settings", SETTINGS)
    return explain_run(
        run_of(known), known, **{"outcome": Outcome.UNPAIRED, **said}, settings=settings
    )


def pair_of(control: Run, candidate: Run) -> PairExplained:
    decision = judge(control, candidate, SETTINGS)
    return explain_pair(Record(7, decision, START_NS, None), None, SETTINGS)


def made(run_id: str, arm: str, *, seen: Sequence[bytes] | None = None, **knobs: Any) -> Run:
    observed = [observation(run_id)] if seen is None else seen
    return run_of(material(run_spans(run_id=run_id, arm=arm, **knobs), *observed))


def test_the_words_are_those_of_the_readme() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]{20,}) \|$", README.read_text(), re.MULTILINE)

    assert rows == [(cause.value, meaning.what) for cause, meaning in WITHHELD.items()], (
        "write the same words in README.md and publish/causes.py"
    )


def test_every_word_has_its_meaning_in_the_order_of_the_vocabulary() -> None:
    assert list(WITHHELD) == list(WithheldCause)
    assert list(REJECTED) == list(Rejection)
    assert list(STANDS) == list(Outcome)
    assert list(RULES) == list(Rule)


def test_every_cause_says_what_would_have_to_be_true() -> None:
    meanings = [*WITHHELD.values(), *REJECTED.values()]

    assert [meaning for meaning in meanings if not (meaning.what and meaning.wanted)] == []


def test_a_pair_without_a_cause_says_what_was_in_order() -> None:
    pair = pair_of(made("c", "control", turns=3), made("k", "fused-batch", turns=1))

    assert pair.why == ()
    assert pair.for_credit == (
        "the candidate's lifecycle is realized",
        "both runs ended as completed, and nothing that they declare is missing",
        "orders-db/v1, which by its identity is none of the agents, looked at both runs",
        "it saw the same 2 required effects of both",
        "models and instrumentation are comparable",
    )


def test_credit_with_more_calls_beside_the_turns_than_the_control_says_whose_word_that_is() -> None:
    side = [Turn([Call(purpose=Purpose.SIDE)]), Turn([Call(purpose=Purpose.VALIDATION)])]
    candidate = made("k", "fused-batch", turns=[Turn([Call()]), *side])

    assert pair_of(made("c", "control", turns=4), candidate).for_credit[-1] == (
        "the candidate made 2 model calls that added no turn, the control 0;"
        " what such calls were for is the agent's own word, so look at them below"
    )


@pytest.mark.parametrize(
    ("knobs", "cause", "found"),
    [
        (
            {"lifecycle": "attempted"},
            WithheldCause.LIFECYCLE_NOT_REALIZED,
            ("the candidate's lifecycle is attempted",),
        ),
        (
            {"state": InvokeState.FAILED},
            WithheldCause.RUN_NOT_COMPLETED,
            ("the candidate ended as failed",),
        ),
        (
            {"counts": False},
            WithheldCause.COMPLETENESS_UNPROVEN,
            (
                (
                    "in the candidate: the Invoke declares no counts,"
                    " so nothing proves that all spans arrived"
                ),
            ),
        ),
        (
            {"seen": []},
            WithheldCause.EFFECTS_UNOBSERVED,
            ("no observation of the candidate counts",),
        ),
        (
            {"seen": [observation("k", observer="mails/v1")]},
            WithheldCause.OBSERVER_MISMATCH,
            (
                "the control was observed by orders-db/v1",
                "the candidate was observed by mails/v1",
            ),
        ),
        (
            {"seen": [observation("k", service="agent", instance="agent-k")]},
            WithheldCause.OBSERVER_NOT_INDEPENDENT,
            (
                "orders-db/v1 saw the candidate as agent / agent-k",
                "the agents ran as agent / agent-c, agent / agent-k",
            ),
        ),
        (
            {"seen": [observation("k", ["order:42=cancelled"])]},
            WithheldCause.EFFECTS_SUPPRESSED,
            ("missing after the candidate: refund:42=19.90",),
        ),
        (
            {"seen": [observation("k", ["order:42=cancelled", "refund:42=19.90", "mail:a"])]},
            WithheldCause.EFFECTS_ADDED,
            ("only after the candidate: mail:a",),
        ),
        (
            {"model": "other"},
            WithheldCause.MODEL_MISMATCH,
            ("the control used gpt-5.1", "the candidate used other"),
        ),
        (
            {"scope": "other"},
            WithheldCause.INSTRUMENTATION_MISMATCH,
            ("the control has spans of otel_turnavoid", "the candidate has spans of other"),
        ),
    ],
    ids=lambda value: value.value if isinstance(value, WithheldCause) else "",
)
def test_a_cause_says_what_was_found_in_this_pair(
    knobs: dict[str, Any], cause: WithheldCause, found: tuple[str, ...]
) -> None:
    pair = pair_of(made("c", "control", turns=3), made("k", "fused-batch", turns=1, **knobs))

    assert [(why.cause, why.found) for why in pair.why] == [(cause, found)]


@pytest.mark.parametrize(
    ("turn", "number", "because"),
    [
        (Turn(), 1, "an AgentTurn, with a successful generation"),
        (
            Turn(calls=(Call(disposition=Disposition.FAILED), Call())),
            1,
            (
                "an AgentTurn, with a successful generation after 1 failed attempt"
                " at the same input (retries add no turn)"
            ),
        ),
        (
            Turn(calls=(Call(), Call(samplings=0))),
            1,
            "an AgentTurn, with a successful generation; a continuation samples nothing new",
        ),
        (Turn(calls=()), 1, "an AgentTurn that says so; no call inside it was seen"),
        (
            Turn(disposition=Disposition.DISCARDED),
            None,
            "its result was thrown away; its work is overhead",
        ),
        (
            Turn(calls=(Call(disposition=Disposition.FAILED),), disposition=Disposition.FAILED),
            None,
            "every attempt failed; its work is overhead",
        ),
        (Turn(calls=(), disposition=Disposition.FAILED), None, "it failed"),
        (
            Turn(calls=(Call(purpose=Purpose.VALIDATION),)),
            None,
            "calls for validation are no turns of the agent",
        ),
        (Turn(calls=(Call(samplings=0),)), None, "nothing new was sampled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_turn_says_why_it_counts_or_not(turn: Turn, number: int | None, because: str) -> None:
    (line,) = explained(material(run_spans(run_id="r", turns=[turn]))).turns

    assert (line.number, line.of, line.because) == (number, "entry 2", because)


def foreign(known: Material, of: Entry, **changes: Any) -> SpanFact:
    """Return another instrumentation's span beside the first call or tool of a run."""
    first = next(fact for fact in known.facts if fact.entry is of)
    return msgspec.structs.replace(
        first,
        **{
            "span_id": "f" * 16,
            "own": False,
            "scope": "provider",
            "run_id": None,
            "seq": None,
            "arm": None,
            **changes,
        },
    )


@pytest.mark.parametrize(
    ("of", "changes", "rule"),
    [
        (Entry.LLM_CALL, {"parent_id": "first"}, Rule.NESTED),
        (Entry.LLM_CALL, {"parent_id": "e" * 16}, Rule.INSIDE_OURS),
        (
            Entry.LLM_CALL,
            {"parent_id": "invoke", "call": CallDetail(response_id="resp-1", usage=Usage(input=1))},
            Rule.RESPONSE_ID,
        ),
        (
            Entry.TOOL_TURN,
            {"parent_id": "invoke", "tool": ToolDetail(name="lookup_order", call_id="call-1")},
            Rule.TOOL_CALL_ID,
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Rule) else "",
)
def test_a_copy_says_by_which_rule_it_was_known(
    of: Entry, changes: dict[str, Any], rule: Rule
) -> None:
    known = material(run_spans(run_id="r", turns=1))
    facts = [
        msgspec.structs.replace(fact, call=msgspec.structs.replace(fact.call, response_id="resp-1"))
        if fact.call is not None
        else msgspec.structs.replace(
            fact, tool=msgspec.structs.replace(fact.tool, call_id="call-1")
        )
        if fact.tool is not None
        else fact
        for fact in known.facts
    ]
    ids = {
        "first": next(fact.span_id for fact in facts if fact.entry is of),
        "invoke": next(fact.span_id for fact in facts if fact.entry is Entry.INVOKE),
    }
    parent = changes["parent_id"]
    copy = foreign(known, of, **{**changes, "parent_id": ids.get(parent, parent)})

    shown = explained(Material([*facts, copy], []))

    (merged,) = shown.merged
    assert [(each.span_id, each.scope, each.rule) for each in merged.copies] == [
        ("f" * 16, "provider", rule)
    ]
    text = " ".join(explanation_text(Explanation(asked="r", runs=(shown,))).split())
    assert f"= span {'f' * 16} (provider): {RULES[rule]}" in text


def test_entries_stand_by_sequence_and_spans_of_others_by_time() -> None:
    known = material(run_spans(run_id="r", turns=1))
    late = foreign(known, Entry.LLM_CALL, parent_id="e" * 16)
    # The clock of the process that made entry 4 is wrong by a minute.
    skewed = [
        msgspec.structs.replace(
            fact, start_ns=fact.start_ns + 60_000 * MS, end_ns=fact.end_ns + 60_000 * MS
        )
        if fact.seq == 4
        else fact
        for fact in known.facts
    ]

    shown = explained(Material([*reversed(skewed), late], []))

    assert [entry.seq for entry in shown.entries] == [0, 1, 2, 3, None, 4]


def test_another_export_of_an_entry_is_counted_as_one() -> None:
    known = material(run_spans(run_id="r", turns=1))
    again = msgspec.structs.replace(known.facts[2], span_id="a" * 16, parent_id=None)

    shown = explained(Material([*known.facts, again], []))

    assert shown.repeated == 1
    assert "1 entry came again under another span id, and counted once" in explanation_text(
        Explanation(asked="r", runs=(shown,))
    )


def test_declared_and_missing_stand_side_by_side() -> None:
    shown = explained(material(run_spans(run_id="r", turns=2, lost=(3,))))

    assert shown.declared is not None
    assert shown.declared.llm_calls == 2
    assert "2 LlmCalls declared, 1 seen" in shown.missing


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (observation("r"), ""),
        (
            observation("r", observed_ns=START_NS - 3_600_000 * MS),
            "3600 s before the run; at most 300 s counts (observation_skew)",
        ),
        (
            observation("r", observed_ns=START_NS + 3_601_101 * MS + 200 * MS),
            "3600 s after the run; at most 300 s counts (observation_skew)",
        ),
        (
            observation("r", service="agent", instance="agent-r"),
            "the observer is not provably another process than the run's",
        ),
    ],
    ids=["counts", "early", "late", "the agent"],
)
def test_an_observation_says_whether_it_counts(one: bytes, problem: str) -> None:
    (seen,) = explained(material(run_spans(run_id="r", turns=1), one)).observations

    assert (seen.counts, seen.problem) == (not problem, problem)
    assert seen.effects == ("order:42=cancelled", "refund:42=19.90")


def test_json_carries_everything_and_is_read_back() -> None:
    shown = Explanation(
        asked="r",
        runs=(explained(material(run_spans(run_id="r"), observation("r"))),),
        pairs=(pair_of(made("c", "control"), made("k", "exact-reuse")),),
    )

    assert msgspec.json.decode(explanation_json(shown), type=Explanation) == shown


def test_a_verdict_is_no_pair_of_controls() -> None:
    decision = judge(made("c", "control"), made("k", "exact-reuse"), SETTINGS)

    with pytest.raises(TypeError, match="decision 3 is not about two controls"):
        explain_null(Record(3, decision, START_NS, None))


def test_two_controls_are_no_verdict() -> None:
    first, second = made("c", "control", turns=3), made("d", "control", turns=2)
    record = Record(3, judge_null(first, second, SETTINGS), START_NS, None)

    with pytest.raises(TypeError, match="decision 3 is not about a pair"):
        explain_pair(record, None, SETTINGS)
    shown = explanation_text(Explanation(asked="3", nulls=(explain_null(record),)))
    assert shown.startswith(
        "c with d (two controls: noise)\n"
        "  3 and 2 turns: 1 avoided, 0 added by chance; decision 3\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü", "plain ü"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202egood", "\\u202egood"),
        ("", ""),
    ],
)
def test_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 ms"),
        (999.4, "999 ms"),
        (1000, "1.0 s"),
        (119_949, "119.9 s"),
        (120_000, "2 min 0 s"),
        (-400_000, "-6 min 40 s"),
        (3 * 86_400_000 + 60_000, "72 h 1 min"),
    ],
)
def test_a_duration_is_said_as_people_say_it(milliseconds: float, shown: str) -> None:
    assert duration(milliseconds) == shown


def test_a_pair_with_more_turns_says_added() -> None:
    pair = pair_of(made("c", "control", turns=1), made("k", "fused-batch", turns=3))

    lines = explanation_text(Explanation(asked="c k", pairs=(pair,))).splitlines()

    assert lines[:2] == ["c with k (fused-batch)", "  2 model turns added"]
