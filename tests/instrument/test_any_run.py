"""Whatever a run consists of, it proves itself complete."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_turnavoid import (
    agent_turn,
    invoke,
    llm_call,
    system_turn,
    tool_turn,
    user_turn,
    validation,
)
from otel_turnavoid.testing import Telemetry


class StopHere(Exception):  # noqa: N818 - ends one entry, nobody's error
    pass


KINDS: dict[str, Any] = {
    "invoke": lambda: invoke("helper"),
    "user_turn": user_turn,
    "system_turn": system_turn,
    "agent_turn": agent_turn,
    "side_call": lambda: llm_call("m", purpose="side"),
    "call": lambda: llm_call("m"),
    "call_q1": lambda: llm_call("m", input="q1"),
    "call_q2": lambda: llm_call("m", input="q2"),
    "continuation": lambda: llm_call("m", samplings=0),
    "validation": validation,
    "tool_turn": lambda: tool_turn("t"),
}

trees = st.recursive(
    st.tuples(st.sampled_from(sorted(KINDS)), st.booleans(), st.just(())),
    lambda inner: st.tuples(
        st.sampled_from(sorted(KINDS)), st.booleans(), st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)


def perform(tree: Any) -> None:
    kind, fails, children = tree
    # An explicit turn with calls of several inputs is bad use, and counted all the same.
    with suppress(StopHere), KINDS[kind]():
        for child in children:
            perform(child)
        if fails:
            raise StopHere


@pytest.mark.usefixtures("production")
@given(st.lists(trees, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_numbers_are_gapless_and_counts_are_those_of_the_spans(run: list[Any]) -> None:
    telemetry = Telemetry()
    with invoke("outer", tracer_provider=telemetry.tracer_provider):
        for tree in run:
            perform(tree)

    attributes = [dict(span.attributes or {}) for span in telemetry.spans]
    attributes = [a for a in attributes if "turnavoid.overhead.kind" not in a]
    kinds = [a["turnavoid.entry"] for a in attributes]
    assert sorted(a["turnavoid.seq"] for a in attributes) == list(range(len(attributes)))
    assert {
        key: value
        for key, value in attributes[-1].items()
        if key.startswith("turnavoid.invoke.") and isinstance(value, int)
    } == {
        "turnavoid.invoke.agent_turns": kinds.count("agent_turn"),
        "turnavoid.invoke.llm_calls": kinds.count("llm_call"),
        "turnavoid.invoke.tool_turns": kinds.count("tool_turn"),
        "turnavoid.invoke.entries": len(kinds),
    }
    assert all("turnavoid.invoke.entries" not in a for a in attributes[:-1])
