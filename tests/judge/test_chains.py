"""The loop and its side calls, told apart by their input messages.

Letters stand for messages: a call on ``abc`` extends one on ``ab``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.facts import SpanFact, encode, encode_evidence
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import PurposeRule, Settings
from otel_turnavoid.vocabulary import Evidence, Purpose

MS = 1_000_000
CHAINED = Settings(accept=frozenset(Evidence), prefix_chain=True)
MESSAGES = "gen_ai.input.messages"
UNKNOWN = "purpose unknown: "


def messages(letters: str) -> str:
    return json.dumps([{"role": "user", "content": letter} for letter in letters])


def read(
    number: int,
    operation: str,
    settings: Settings = CHAINED,
    parent: int = 1,
    ms: int = 10,
    **said: Any,
) -> SpanFact:
    """A span at its number's time; the first lasts over all others."""
    found = Reader(settings).read(
        SpanView(
            trace_id="a" * 32,
            span_id=f"{number:016x}",
            parent_id=f"{parent:016x}" if number > 1 else None,
            start_ns=number * 10 * MS,
            end_ns=(number * 10 + (10_000 if number == 1 else ms)) * MS,
            scope="s",
            attributes={"gen_ai.operation.name": operation, **said},
        )
    )
    assert isinstance(found, SpanFact)
    return found


def run_of(*inputs: str | None, settings: Settings = CHAINED, **said: Any) -> Run:
    """An agent with calls on these inputs, one after the other; None: no content."""
    facts = [read(1, "invoke_agent", settings)]
    for number, letters in enumerate(inputs, start=2):
        given = {} if letters is None else {MESSAGES: messages(letters)}
        facts.append(read(number, "chat", settings, **given, **said))
    return assemble("r", facts, (), settings)


def doubts(run: Run) -> list[str]:
    return [line.removeprefix(UNKNOWN) for line in run.problems if line.startswith(UNKNOWN)]


@pytest.mark.parametrize(
    ("inputs", "turns"),
    [
        ("a abc abcde", 3),
        ("a", 1),
        ("t a abc abcde", 3),
        ("a t abc", 2),
        ("a abc t u abcde", 3),
        ("a t t abc", 2),
    ],
)
def test_calls_that_extend_each_other_are_the_loop(inputs: str, turns: int) -> None:
    run = run_of(*inputs.split())

    assert (run.model_turns, run.llm_calls, run.causes) == (turns, len(inputs.split()), ())


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ("a abc abx", "several calls extend the same input messages"),
        ("a abc t tuv", "2 conversations in one agent extend their input"),
        ("a t", "0 conversations in one agent extend their input"),
        ("a abc bcd", "a call on other input messages came after the loop's last"),
    ],
)
def test_what_is_not_decidable_is_withheld(inputs: str, problem: str) -> None:
    """Branches, compaction, and a history whose beginning was cut off."""
    run = run_of(*inputs.split())

    assert [str(cause) for cause in run.causes] == ["completeness-unproven"]
    assert doubts(run) == [problem]
    assert run.model_turns == len(inputs.split())


@pytest.mark.parametrize("given", [None, messages("a")[:-3], "", "[]", messages("a" * 513)])
def test_messages_that_are_not_there_whole_decide_nothing(given: str | None) -> None:
    said = {} if given is None else {MESSAGES: given}
    facts = [read(1, "invoke_agent"), read(2, "chat", **said)]
    facts.append(read(3, "chat", **{MESSAGES: messages("ab")}))
    run = assemble("r", facts, (), CHAINED)

    assert doubts(run) == ["1 of 2 calls show no whole input messages"]


def test_other_instructions_are_another_conversation() -> None:
    """A title is made of the very message that the loop begins with."""
    loop = ("a", "abc")
    facts = [read(1, "invoke_agent")]
    title = {"gen_ai.system_instructions": '[{"content": "Name this chat"}]'}
    facts.append(read(2, "chat", **title, **{MESSAGES: messages("a")}))
    facts += [read(3 + n, "chat", **{MESSAGES: messages(text)}) for n, text in enumerate(loop)]

    assert assemble("r", facts, (), CHAINED).model_turns == 2


def test_a_call_while_a_tool_ran_may_be_a_subagents() -> None:
    facts = [read(1, "invoke_agent"), read(2, "chat", **{MESSAGES: messages("a")})]
    facts += [read(3, "execute_tool", ms=15), read(4, "chat", **{MESSAGES: messages("t")})]
    facts.append(read(5, "chat", **{MESSAGES: messages("abc")}))

    assert doubts(assemble("r", facts, (), CHAINED)) == [
        "a call on other input messages came while a tool ran"
    ]


def test_a_subagent_has_a_conversation_of_its_own() -> None:
    facts = [read(1, "invoke_agent"), read(2, "chat", **{MESSAGES: messages("a")})]
    facts += [read(3, "invoke_agent"), read(4, "chat", parent=3, **{MESSAGES: messages("s")})]
    facts.append(read(5, "chat", **{MESSAGES: messages("abc")}))
    run = assemble("r", facts, (), CHAINED)

    assert (run.model_turns, run.causes) == (3, ())


def test_a_purpose_that_is_stated_or_configured_is_believed() -> None:
    rule = PurposeRule(attribute="kind", equals="judge", purpose=Purpose.VALIDATION)
    settings = Settings(accept=frozenset(Evidence), prefix_chain=True, purposes=(rule,))

    assert run_of("a", "abc", settings=settings, kind="judge").model_turns == 0


def test_unless_configured_nothing_of_the_messages_is_looked_at() -> None:
    plain = Settings(accept=frozenset(Evidence))

    assert run_of("a", "t", "abc", settings=plain).model_turns == 3
    assert MESSAGES not in Reader(plain).wanted


def test_of_the_messages_only_hashes_are_kept_and_none_as_evidence() -> None:
    said = {MESSAGES: '[{"content": "a secret"}]'}
    fact = read(2, "chat", **said)

    assert b"secret" not in encode(fact)
    assert encode_evidence(fact) == encode_evidence(read(2, "chat", Settings(), **said))


def test_a_call_shown_twice_is_known_by_either_spans_messages() -> None:
    """The framework records content, the provider's instrumentation does not."""
    facts = [read(1, "invoke_agent")]
    for number, text in ((2, "a"), (4, "t"), (6, "abc")):
        facts.append(read(number, "chat", ms=20, **{MESSAGES: messages(text)}))
        facts.append(read(number + 1, "chat", parent=number))
    run = assemble("r", facts, (), CHAINED)

    assert (run.model_turns, run.llm_calls, doubts(run)) == (2, 3, [])


def test_messages_as_text_and_as_values_are_alike() -> None:
    values = {MESSAGES: json.loads(messages("ab"))}

    assert read(2, "chat", **values) == read(2, "chat", **{MESSAGES: messages("ab")})
