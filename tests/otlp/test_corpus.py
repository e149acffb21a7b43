"""Recorded spans of others: what the dialects find is what the model's server counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.otlp import (
    logs_from_json,
    read_files,
    read_logs,
    read_traces,
    traces_from_json,
)
from otel_turnavoid.vocabulary import Entry

pytestmark = pytest.mark.corpus

CAPTURES = [
    "openai__opentelemetry-instrumentation-openai-v2",
    "openai__opentelemetry-instrumentation-openai-v2-legacy",
    "pydantic-ai__builtin",
    "strands__builtin",
    "google-adk__builtin",
]


def scenarios(shared: Path, capture: str) -> dict[str, Any]:
    folder = shared / "corpus" / "captures" / capture
    found: dict[str, Any] = json.loads((folder / "facts.json").read_text())["scenarios"]
    return found


def facts(shared: Path, capture: str, scenario: str, names: list[str]) -> list[SpanFact]:
    folder = shared / "corpus" / "captures" / capture / scenario
    paths = [folder / name for name in names]
    return [fact for batch in read_files(paths, Reader()) for fact in batch.facts]


@pytest.mark.parametrize("capture", CAPTURES)
def test_calls_tools_and_tokens_are_those_that_took_place(shared: Path, capture: str) -> None:
    for scenario, truth in scenarios(shared, capture).items():
        found = facts(shared, capture, scenario, truth["files"])
        calls = [fact.call for fact in found if fact.entry is Entry.LLM_CALL and not fact.failed]
        tools = [fact for fact in found if fact.entry is Entry.TOOL_TURN]
        cannot_tell = truth["spans_cannot_tell"]
        copies = truth.get("model_spans_more_than_calls", 0)

        if "model_turns" not in cannot_tell:
            assert len(calls) - copies == truth["expected_model_turns"], scenario
        if "tool_calls" not in cannot_tell:
            assert len(tools) == truth["expected_tool_calls"], scenario
        if "llm_calls" not in cannot_tell:
            attempts = [fact for fact in found if fact.entry is Entry.LLM_CALL]
            expected = truth["expected_llm_calls_including_retries"]
            assert len(attempts) - copies == expected, scenario
        usages = [call.usage for call in calls if call is not None]
        if scenario.startswith("stream-nousage"):
            assert {usage.input for usage in usages} == {None}, scenario
        elif "model_turns" not in cannot_tell and not copies:
            sums = (
                sum(usage.input or 0 for usage in usages),
                sum(usage.output or 0 for usage in usages),
            )
            truths = (truth["expected_input_tokens"], truth["expected_output_tokens"])
            assert sums == truths, scenario


@pytest.mark.parametrize("capture", CAPTURES[2:])
def test_every_parent_is_known_up_to_the_agent(shared: Path, capture: str) -> None:
    """Spans between a call and its agent are facts too, so that no chain of parents breaks."""
    for scenario, truth in scenarios(shared, capture).items():
        found = facts(shared, capture, scenario, truth["files"])
        by_id = {(fact.trace_id, fact.span_id): fact for fact in found}
        for fact in found:
            walk: SpanFact | None = fact
            while walk is not None and walk.entry is not Entry.INVOKE:
                walk = by_id.get((walk.trace_id, walk.parent_id or ""))
            assert walk is not None, (scenario, fact.span_id)


def test_verdict_cases_have_only_the_faults_that_they_are_about(shared: Path) -> None:
    faults: dict[str, set[str]] = {}
    for path in sorted((shared / "conformance" / "verdicts").glob("*.json")):
        for request in json.loads(path.read_text())["requests"]:
            body = json.dumps(request["body"]).encode()
            if request["signal"] == "traces":
                batch = read_traces(traces_from_json(body), Reader())
            else:
                batch = read_logs(logs_from_json(body), Reader())
            assert batch.ignored == 0, path.name
            if batch.rejected:
                faults.setdefault(path.stem, set()).add("rejected")
            for fact in batch.facts:
                for fault in fact.faults:
                    faults.setdefault(path.stem, set()).add(fault.cause.value)

    assert faults == {
        "refused-digest-cut": {"digest"},
        "refused-digest-of-empty-list": {"digest"},
        "refused-digest-of-nothing": {"digest"},
        "refused-digest-upper": {"digest"},
        "refused-leakage": {"leakage"},
        "refused-lifecycle-spelling": {"vocabulary"},
        "zero-span-id": {"rejected"},
    }
