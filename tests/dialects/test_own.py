from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.facts import (
    CallDetail,
    Counts,
    Fault,
    InvokeDetail,
    Retained,
    SpanFact,
    ToolDetail,
    Usage,
)
from otel_turnavoid.vocabulary import (
    Arm,
    Disposition,
    Entry,
    InvokeKind,
    InvokeState,
    Lifecycle,
    Mechanism,
    OverheadKind,
    Purpose,
    Reason,
    Rejection,
    ToolCaller,
    ToolDisposition,
)

DIGEST = "sha256:" + "ab" * 32
EMPTY_DIGEST = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def read(
    attributes: dict[str, Any], resource: dict[str, Any] | None = None, **view: Any
) -> SpanFact:
    found = Reader().read(
        SpanView(
            trace_id="a" * 32,
            span_id="b" * 16,
            start_ns=1,
            end_ns=2,
            scope="otel_turnavoid",
            attributes={"turnavoid.run.id": "r", **attributes},
            resource=resource or {},
            **view,
        )
    )
    assert isinstance(found, SpanFact)
    return found


def expected(**parts: Any) -> SpanFact:
    given = {
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
        "start_ns": 1,
        "end_ns": 2,
        "own": True,
        "dialect": "turnavoid",
        "scope": "otel_turnavoid",
        "run_id": "r",
    }
    return SpanFact(**{**given, **parts})


def faults(attributes: dict[str, Any]) -> list[tuple[Rejection, str, str]]:
    return [(fault.cause, fault.attribute, fault.problem) for fault in read(attributes).faults]


def test_an_invoke_says_everything_about_its_run() -> None:
    found = read(
        {
            "turnavoid.entry": "invoke",
            "turnavoid.seq": 0,
            "turnavoid.arm": "fused-batch",
            "turnavoid.variant": "v2",
            "turnavoid.experiment.id": "e",
            "turnavoid.unit.id": "u",
            "turnavoid.turn.index": 3,
            "turnavoid.decision.basis_through_turn": 2,
            "turnavoid.input.digest": DIGEST,
            "turnavoid.mechanism": "dependency-schedule",
            "turnavoid.lifecycle": "realized",
            "turnavoid.reason": "serial-round-trip-collapsed",
            "turnavoid.invoke.kind": "user_send",
            "turnavoid.invoke.state": "completed",
            "turnavoid.invoke.agent_turns": 4,
            "turnavoid.invoke.llm_calls": 5,
            "turnavoid.invoke.tool_turns": 3,
            "turnavoid.invoke.entries": 13,
            "turnavoid.retained.tokens_reduced": 128,
            "turnavoid.retained.latency_reduced_ms": 1.5,
            "gen_ai.agent.name": "refunds",
        },
        {"service.name": "agent", "service.instance.id": "agent-1"},
        parent_id="c" * 16,
    )

    assert found == expected(
        parent_id="c" * 16,
        entry=Entry.INVOKE,
        service="agent",
        instance="agent-1",
        seq=0,
        arm=Arm.FUSED_BATCH,
        variant="v2",
        experiment="e",
        unit="u",
        agent="refunds",
        retained=Retained(128, 1.5),
        invoke=InvokeDetail(
            kind=InvokeKind.USER_SEND,
            state=InvokeState.COMPLETED,
            counts=Counts(4, 5, 3, 13),
            digest=DIGEST,
            turn_index=3,
            decision_basis=2,
            mechanism=Mechanism.DEPENDENCY_SCHEDULE,
            lifecycle=Lifecycle.REALIZED,
            reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
        ),
    )


def test_a_call_says_what_it_was_for_and_what_it_used() -> None:
    found = read(
        {
            "turnavoid.entry": "llm_call",
            "turnavoid.seq": 2,
            "turnavoid.call.attempt": 2,
            "turnavoid.call.input_digest": DIGEST,
            "turnavoid.call.purpose": "validation",
            "turnavoid.call.disposition": "committed",
            "turnavoid.call.samplings": 0,
            "turnavoid.overhead.kind": "validation",
            "turnavoid.cost.usd": 1,
            "gen_ai.request.model": "asked",
            "gen_ai.response.model": "answered",
            "gen_ai.response.id": "resp_1",
            "gen_ai.usage.input_tokens": 200,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 0,
        }
    )

    assert found == expected(
        entry=Entry.LLM_CALL,
        seq=2,
        overhead=OverheadKind.VALIDATION,
        cost_usd=1.0,
        call=CallDetail(
            purpose=Purpose.VALIDATION,
            disposition=Disposition.COMMITTED,
            attempt=2,
            samplings=0,
            input_digest=DIGEST,
            model="answered",
            response_id="resp_1",
            usage=Usage(input=200, output=20, cache_read=0),
        ),
    )


def test_a_turn_says_what_became_of_it() -> None:
    found = read(
        {
            "turnavoid.entry": "agent_turn",
            "turnavoid.seq": 1,
            "turnavoid.turn.disposition": "discarded",
        }
    )

    assert found == expected(entry=Entry.AGENT_TURN, seq=1, turn=Disposition.DISCARDED)


def test_a_tool_turn_says_who_asked_and_whether_it_ran() -> None:
    found = read(
        {
            "turnavoid.entry": "tool_turn",
            "turnavoid.seq": 3,
            "turnavoid.tool.disposition": "reused",
            "turnavoid.tool.caller": "code",
            "gen_ai.tool.name": "lookup_order",
            "gen_ai.tool.call.id": "call_1",
        }
    )

    assert found == expected(
        entry=Entry.TOOL_TURN,
        seq=3,
        tool=ToolDetail(
            name="lookup_order",
            call_id="call_1",
            disposition=ToolDisposition.REUSED,
            caller=ToolCaller.CODE,
        ),
    )


@pytest.mark.parametrize("entry", ["user_turn", "system_turn"])
def test_the_other_turns_say_only_where_they_stand(entry: str) -> None:
    found = read({"turnavoid.entry": entry, "turnavoid.seq": 4})

    assert found == expected(entry=Entry(entry), seq=4)


def test_what_the_whole_run_shares_may_stand_on_the_resource() -> None:
    found = read(
        {"turnavoid.entry": "invoke", "turnavoid.seq": 0},
        {
            "turnavoid.arm": "control",
            "turnavoid.variant": "v",
            "turnavoid.experiment.id": "e",
            "turnavoid.mechanism": "control",
            "turnavoid.lifecycle": "realized",
            "turnavoid.reason": "baseline",
        },
    )

    assert (found.arm, found.variant, found.experiment) == (Arm.CONTROL, "v", "e")
    assert found.invoke == InvokeDetail(
        mechanism=Mechanism.CONTROL, lifecycle=Lifecycle.REALIZED, reason=Reason.BASELINE
    )


def test_the_span_outweighs_its_resource() -> None:
    found = read(
        {"turnavoid.entry": "user_turn", "turnavoid.arm": "control"},
        {"turnavoid.arm": "exact-reuse"},
    )

    assert found.arm is Arm.CONTROL


WORDS = "want one of {}; got {!r}"


@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        ("invoke", "turnavoid.arm", Arm),
        ("invoke", "turnavoid.mechanism", Mechanism),
        ("invoke", "turnavoid.lifecycle", Lifecycle),
        ("invoke", "turnavoid.reason", Reason),
        ("invoke", "turnavoid.invoke.kind", InvokeKind),
        ("invoke", "turnavoid.invoke.state", InvokeState),
        ("invoke", "turnavoid.overhead.kind", OverheadKind),
        ("agent_turn", "turnavoid.turn.disposition", Disposition),
        ("llm_call", "turnavoid.call.disposition", Disposition),
        ("llm_call", "turnavoid.call.purpose", Purpose),
        ("tool_turn", "turnavoid.tool.disposition", ToolDisposition),
        ("tool_turn", "turnavoid.tool.caller", ToolCaller),
    ],
)
def test_a_spelling_outside_a_closed_vocabulary_is_a_fault_and_never_coerced(
    entry: str, key: str, words: Any
) -> None:
    good = next(iter(words)).value
    for spelling in (good.upper(), f" {good}", "", 5, True, [good]):
        problem = WORDS.format(", ".join(words), spelling)
        assert faults({"turnavoid.entry": entry, key: spelling}) == [
            (Rejection.VOCABULARY, key, problem)
        ]


def test_a_misspelled_entry_is_kept_with_a_fault() -> None:
    found = read({"turnavoid.entry": "Invoke"})

    assert (found.own, found.entry, found.run_id) == (True, None, "r")
    assert [fault.attribute for fault in found.faults] == ["turnavoid.entry"]


@pytest.mark.parametrize(
    ("entry", "key", "least"),
    [
        ("user_turn", "turnavoid.seq", 0),
        ("user_turn", "turnavoid.retained.tokens_reduced", 0),
        ("invoke", "turnavoid.turn.index", 0),
        ("invoke", "turnavoid.invoke.agent_turns", 0),
        ("invoke", "turnavoid.invoke.llm_calls", 0),
        ("invoke", "turnavoid.invoke.tool_turns", 0),
        ("invoke", "turnavoid.invoke.entries", 0),
        ("invoke", "turnavoid.decision.basis_through_turn", -1),
        ("llm_call", "turnavoid.call.attempt", 1),
        ("llm_call", "turnavoid.call.samplings", 0),
    ],
)
def test_a_count_is_an_integer_and_nothing_like_one(entry: str, key: str, least: int) -> None:
    for value in (least - 1, 1.0, "1", True):
        assert faults({"turnavoid.entry": entry, key: value}) == [
            (
                Rejection.VOCABULARY,
                key,
                f"want an integer of at least {least}, got {value!r}",
            )
        ]


@pytest.mark.parametrize("key", ["turnavoid.cost.usd", "turnavoid.retained.latency_reduced_ms"])
def test_an_amount_is_no_larger_than_what_sums_can_hold(key: str) -> None:
    """Two amounts of 1e308 have no sum: the run was left out of every account."""
    assert faults({"turnavoid.entry": "user_turn", key: 1e15}) == []
    assert faults({"turnavoid.entry": "user_turn", key: 1e308}) == [
        (Rejection.VOCABULARY, key, "want a number up to 1e+15, got 1e+308")
    ]


@pytest.mark.parametrize("key", ["turnavoid.cost.usd", "turnavoid.retained.latency_reduced_ms"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1", True])
def test_an_amount_is_finite_and_not_negative(key: str, value: object) -> None:
    assert faults({"turnavoid.entry": "user_turn", key: value}) == [
        (Rejection.VOCABULARY, key, f"want a finite number of at least 0, got {value!r}")
    ]


@pytest.mark.parametrize(
    "key", ["turnavoid.run.id", "turnavoid.experiment.id", "turnavoid.unit.id", "turnavoid.variant"]
)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "want a name, got an empty one"),
        ("  ", "want a name, got an empty one"),
        (" x", "has surrounding space: ' x'"),
        ("x\n", "has surrounding space: 'x\\n'"),
        ("a\0b", "has control characters: 'a\\x00b'"),
        (7, "want a string, got 7"),
    ],
)
def test_a_name_is_text_without_surrounding_space(key: str, value: object, problem: str) -> None:
    assert (Rejection.VOCABULARY, key, problem) in faults(
        {"turnavoid.entry": "user_turn", key: value}
    )


def test_a_run_with_a_refused_name_still_keeps_its_spans_together() -> None:
    assert read({"turnavoid.entry": "user_turn", "turnavoid.run.id": " r\0"}).run_id == " r\\x00"


def test_an_entry_without_a_run_is_a_fault() -> None:
    found = read({"turnavoid.entry": "user_turn", "turnavoid.run.id": None})

    assert found.run_id is None
    assert found.faults == (
        Fault(Rejection.VOCABULARY, "turnavoid.run.id", "missing: every entry names its run"),
    )


@pytest.mark.parametrize(
    "value", [DIGEST.upper(), DIGEST[:-1], DIGEST + "0", "ab" * 32, "", 5, EMPTY_DIGEST]
)
def test_a_digest_that_identifies_nothing_is_a_fault_of_its_own(value: object) -> None:
    [(cause, key, _)] = faults({"turnavoid.entry": "invoke", "turnavoid.input.digest": value})

    assert (cause, key) == (Rejection.DIGEST, "turnavoid.input.digest")


def test_a_refused_digest_is_kept_for_inspection() -> None:
    found = read({"turnavoid.entry": "invoke", "turnavoid.input.digest": "sha256:cut"})

    assert found.invoke is not None
    assert found.invoke.digest == "sha256:cut"


def test_a_malformed_digest_of_a_call_is_a_fault() -> None:
    [(cause, key, _)] = faults(
        {"turnavoid.entry": "llm_call", "turnavoid.call.input_digest": "md5:1"}
    )

    assert (cause, key) == (Rejection.DIGEST, "turnavoid.call.input_digest")


@pytest.mark.parametrize(
    ("index", "basis", "leaks"),
    [
        (None, None, False),
        (None, -1, False),
        (None, 0, True),
        (0, None, False),
        (1, 0, False),
        (1, 1, True),
        (1, 2, True),
    ],
)
def test_a_decision_that_knew_its_own_turn_is_leakage(
    index: int | None, basis: int | None, *, leaks: bool
) -> None:
    found = faults(
        {
            "turnavoid.entry": "invoke",
            "turnavoid.turn.index": index,
            "turnavoid.decision.basis_through_turn": basis,
        }
    )

    problem = f"the decision knew turn {basis} and was made for turn {index or 0}"
    expected_fault = (Rejection.LEAKAGE, "turnavoid.decision.basis_through_turn", problem)
    assert found == ([expected_fault] if leaks else [])


def test_counts_that_are_not_all_there_declare_nothing() -> None:
    found = read(
        {
            "turnavoid.entry": "invoke",
            "turnavoid.invoke.agent_turns": 1,
            "turnavoid.invoke.llm_calls": 1,
            "turnavoid.invoke.tool_turns": 1,
        }
    )

    assert found.invoke is not None
    assert found.invoke.counts is None


@pytest.mark.parametrize(
    ("given", "failed"),
    [
        ({}, False),
        ({"status_error": True}, True),
    ],
)
def test_a_span_with_an_error_status_failed(given: dict[str, Any], *, failed: bool) -> None:
    assert read({"turnavoid.entry": "llm_call"}, **given).failed is failed


def test_a_span_with_an_error_type_failed() -> None:
    assert read({"turnavoid.entry": "llm_call", "error.type": "timeout"}).failed


def test_a_span_of_no_kind_can_carry_overhead() -> None:
    found = read({"turnavoid.overhead.kind": "recovery", "turnavoid.cost.usd": 0.5})

    assert found == expected(own=False, overhead=OverheadKind.RECOVERY, cost_usd=0.5)


def test_a_run_id_that_looks_like_one_made_from_a_trace_is_refused() -> None:
    found = read({"turnavoid.entry": "user_turn", "turnavoid.run.id": "trace:1"})

    assert found.run_id is None
    assert found.faults[0] == Fault(
        Rejection.VOCABULARY,
        "turnavoid.run.id",
        "trace: starts the ids of runs that are made from traces; got 'trace:1'",
    )
