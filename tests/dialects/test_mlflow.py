"""MLflow's tracing: the type of a span, and figures, written as JSON."""

from __future__ import annotations

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import CallDetail, Usage
from otel_turnavoid.vocabulary import Entry

TYPE = "mlflow.spanType"


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ('"CHAT_MODEL"', Entry.LLM_CALL),
        ('"LLM"', Entry.LLM_CALL),
        ("LLM", Entry.LLM_CALL),
        ('"TOOL"', Entry.TOOL_TURN),
        ('"AGENT"', Entry.INVOKE),
        ('"CHAIN"', None),
        ('"EMBEDDING"', None),
        ('"UNKNOWN"', None),
        ("[]", None),
        ("[" * 900 + "]" * 900, None),
    ],
)
def test_the_type_of_a_span_says_what_it_is(fact_of, kind: str, entry) -> None:
    found = fact_of({TYPE: kind})

    assert (found.entry, found.dialect) == (entry, "mlflow")


@pytest.mark.parametrize(
    ("used", "usage"),
    [
        (
            '{"input_tokens": 120, "output_tokens": 20, "total_tokens": 140}',
            Usage(input=120, output=20),
        ),
        ('{"input_tokens": 120, "cache_read_input_tokens": 80}', Usage(input=120, cache_read=80)),
        ('{"input_tokens": 12', Usage()),
        ("[" * 900 + "]" * 900, Usage()),
        (None, Usage()),
    ],
)
def test_a_call_has_its_model_and_tokens(fact_of, used: str | None, usage: Usage) -> None:
    said = {TYPE: '"CHAT_MODEL"', "mlflow.llm.model": '"gpt-5"', "mlflow.chat.tokenUsage": used}

    assert fact_of(said).call == CallDetail(model="gpt-5", usage=usage)


def test_an_operation_of_the_conventions_is_read_as_theirs(fact_of) -> None:
    assert fact_of({TYPE: '"CHAIN"', "gen_ai.operation.name": "chat"}).dialect == "gen_ai"


def test_the_mark_of_a_span_is_among_the_needles() -> None:
    assert any(needle in TYPE.encode() for needle in Reader().prefixes)
