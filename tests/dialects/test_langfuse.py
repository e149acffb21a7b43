"""Langfuse's SDK: observations by their type."""

from __future__ import annotations

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import CallDetail, Usage
from otel_turnavoid.vocabulary import Entry

TYPE = "langfuse.observation.type"


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("generation", Entry.LLM_CALL),
        ("tool", Entry.TOOL_TURN),
        ("agent", Entry.INVOKE),
        ("span", None),
        ("event", None),
        ("chain", None),
        ("retriever", None),
        ("evaluator", None),
        ("guardrail", None),
        ("embedding", None),
    ],
)
def test_the_type_of_an_observation_says_what_it_is(fact_of, kind: str, entry) -> None:
    found = fact_of({TYPE: kind})

    assert (found.entry, found.dialect) == (entry, "langfuse")


@pytest.mark.parametrize(
    ("details", "usage"),
    [
        ('{"input": 120, "output": 20, "total": 140}', Usage(input=120, output=20)),
        (
            '{"input_tokens": 120, "output_tokens": 20, "cache_read_input_tokens": 80}',
            Usage(input=120, output=20, cache_read=80),
        ),
        ('{"input": 120, "output": -1}', Usage(input=120)),
        ('{"input": 12', Usage()),
        ("[]", Usage()),
        ("[" * 900 + "]" * 900, Usage()),
    ],
)
def test_a_generation_has_its_tokens_in_one_text(fact_of, details: str, usage: Usage) -> None:
    found = fact_of(
        {
            TYPE: "generation",
            "langfuse.observation.model.name": "gpt-5",
            "langfuse.observation.usage_details": details,
        }
    )

    assert found.call == CallDetail(model="gpt-5", usage=usage)


def test_an_observation_of_the_level_error_failed(fact_of) -> None:
    assert fact_of({TYPE: "generation", "langfuse.observation.level": "ERROR"}).failed


def test_an_operation_of_the_conventions_is_read_as_theirs(fact_of) -> None:
    found = fact_of({TYPE: "span", "gen_ai.operation.name": "chat"})

    assert (found.entry, found.dialect) == (Entry.LLM_CALL, "gen_ai")


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in TYPE.encode() for needle in Reader().prefixes)
