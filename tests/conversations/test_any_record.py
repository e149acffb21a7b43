"""Whatever JSON a file holds, it is read or passed over: never an error of ours."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.conversations import read_record, read_session, recorded
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import Settings

RULES = Rules(Settings())
WORDS = st.sampled_from(
    [
        *("assistant", "user", "tool", "system", "llm_usage", "assistant_item", "tool_result"),
        *("invoke", "run_completed", "segment_start", "tool_call", "finished", "user_send"),
        *("2026-01-01T00:00:00Z", "9999-12-31T23:59:59", "", "m1", "c1", "\x00"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
KEYS = st.sampled_from(
    [
        *("role", "id", "content", "tool_calls", "function", "function_call", "usage", "name"),
        *("k", "msg", "round", "ts", "calls", "call", "in", "out", "latency_ms", "action"),
        *("kind", "item", "segments", "trigger", "history_len", "result", "is_error", "call_id"),
        *("type", "tool_use_id", "tool_call_id", "model", "block", "input_total_tokens"),
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
ENTRIES = st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=6)
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            *("task_id", "trial", "run", "run_id", "id", "model", "reward", "reward_info"),
            *("task", "policy_sha256", "input_sha256", "scenario_sha256", "start", "end"),
            *("db_match", "communicate_match", "correct", "status", "exit_code", "termination"),
            *("turnavoid.arm", "turnavoid.run.id", "goal_hash", "observed_hash"),
        ]
    ),
    VALUES,
    max_size=8,
)


def assemblable(facts: list[SpanFact]) -> bool:
    return not facts or assemble(facts[0].run_id or "r", facts, (), Settings()) is not None


@given(FIELDS, ENTRIES, st.sampled_from(["messages", "events", "nothing"]))
def test_any_record_is_read_or_passed_over(
    fields: dict[str, Any], entries: list[dict[str, Any]], key: str
) -> None:
    found = read_record({**fields, key: entries}, "file", 1, RULES)

    assert found is None or assemblable(found.facts)


@given(VALUES)
def test_any_value_is_read_or_passed_over(value: Any) -> None:
    found = read_record(value, "file", 1, RULES)

    assert found is None or assemblable(found.facts)


@given(ENTRIES)
def test_any_session_log_is_read(entries: list[dict[str, Any]]) -> None:
    runs = read_session([{"kind": "segment_start", "ts": 1}, *entries], "file")

    assert all(assemblable(recorded(run, RULES).facts) for run in runs)
