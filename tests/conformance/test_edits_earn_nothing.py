"""Whatever is changed, lost or repeated in the spans of a run, it earns no turn more than before.

Left out are only the words that nobody can check (README, "Limits"): what a call was for, and that
a call failed or a turn was thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute
from otel_turnavoid.judge.judging import judge
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.testing import START_NS, observation, run_spans
from otel_turnavoid.vocabulary import Attr

RUNS = {"c": run_spans(run_id="c", turns=5), "k": run_spans(run_id="k", arm="fused-batch", turns=4)}
EARNED = 1
SPANS = 14
"""Entries of the shorter run: Invoke, UserTurn, and a turn, a call and a tool four times."""

Edit = Callable[[Any], None]
"""Changes the spans of one request."""

places = st.integers(0, SPANS - 1)
times = st.integers(START_NS - 10 * SECOND, START_NS + 10 * SECOND)
words = st.sampled_from(
    [
        *((Attr.SEQ, number) for number in (0, 1, 5, SPANS, 2**63 - 1, -1)),
        *((Attr.ENTRY, word) for word in ("invoke", "user_turn", "agent_turn", "llm_call")),
        *((Attr.ENTRY, word) for word in ("tool_turn", "system_turn", "unheard of")),
        *((Attr.CALL_SAMPLINGS, number) for number in (0, 1, 2, -1)),
        *((Attr.CALL_ATTEMPT, number) for number in (0, 1, 7)),
        *((Attr.CALL_INPUT_DIGEST, f"sha256:{number:064x}") for number in (1, 2)),
        *((Attr.TOOL_DISPOSITION, word) for word in ("executed", "reused", "denied", "discarded")),
        *((Attr.TOOL_CALLER, word) for word in ("model", "code")),
        *((Attr.INVOKE_STATE, word) for word in ("completed", "paused", "failed")),
        *((Attr.INVOKE_ENTRIES, number) for number in (0, SPANS - 1, SPANS + 1)),
        *((Attr.INVOKE_LLM_CALLS, number) for number in (0, 3, 6)),
        *((Attr.INVOKE_AGENT_TURNS, number) for number in (0, 3, 6)),
        *((Attr.ARM, word) for word in ("control", "exact-reuse")),
        (Attr.RUN_ID, "another"),
        ("gen_ai.operation.name", "embeddings"),
        ("gen_ai.usage.input_tokens", 0),
    ]
)


def say(place: int, word: tuple[str, str | int]) -> Edit:
    def edit(spans: Any) -> None:
        key, value = word
        without(place, key)(spans)
        said = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
        spans[place % len(spans)].attributes.append(KeyValue(key=key, value=said))

    return edit


def without(place: int, key: str) -> Edit:
    def edit(spans: Any) -> None:
        attributes = spans[place % len(spans)].attributes
        kept = [
            KeyValue.FromString(one.SerializeToString()) for one in attributes if one.key != key
        ]
        del attributes[:]
        attributes.extend(kept)

    return edit


def timed(place: int, start_ns: int | None, end_ns: int | None) -> Edit:
    def edit(spans: Any) -> None:
        span = spans[place % len(spans)]
        span.start_time_unix_nano = start_ns or span.start_time_unix_nano
        span.end_time_unix_nano = end_ns or span.end_time_unix_nano

    return edit


def moved(place: int, parent: int) -> Edit:
    def edit(spans: Any) -> None:
        spans[place % len(spans)].parent_span_id = spans[parent % len(spans)].span_id

    return edit


def repeated(place: int, span_id: bytes) -> Edit:
    def edit(spans: Any) -> None:
        copy = Span.FromString(spans[place % len(spans)].SerializeToString())
        copy.span_id = span_id
        spans.append(copy)

    return edit


def lost(place: int) -> Edit:
    def edit(spans: Any) -> None:
        if len(spans) > 1:
            del spans[place % len(spans)]

    return edit


keys = st.sampled_from([Attr.ENTRY, Attr.SEQ, Attr.RUN_ID, Attr.ARM, Attr.CALL_INPUT_DIGEST])
edits = st.one_of(
    st.builds(say, places, words),
    st.builds(without, places, keys),
    st.builds(timed, places, st.none() | times, st.none() | times),
    st.builds(moved, places, places),
    st.builds(repeated, places, st.binary(min_size=8, max_size=8).filter(any)),
    st.builds(lost, places),
)


def assembled(run_id: str, body: bytes) -> Run | None:
    """Return a run that its observer saw do all that is required, if there is any of it."""
    reader = Reader()
    members = attribute(read_traces(body, reader).facts).runs.get(run_id)
    seen = read_logs(observation(run_id), reader).observations
    return assemble(run_id, members, seen, Settings()) if members else None


def edited(body: bytes, changes: list[Edit]) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    for change in changes:
        change(request.resource_spans[0].scope_spans[0].spans)
    return request.SerializeToString()


def earned(changed: str, changes: list[Edit]) -> int:
    """Return the turns that the pair earns where one of its runs was edited."""
    bodies = {**RUNS, changed: edited(RUNS[changed], changes)}
    runs = [assembled(run_id, body) for run_id, body in bodies.items()]
    control, candidate = runs
    if control is None or candidate is None or not (control.pairable and candidate.pairable):
        return 0
    return judge(control, candidate, Settings()).avoided


@pytest.mark.parametrize("changed", RUNS)
def test_the_runs_as_they_are_earn_what_they_saved(changed: str) -> None:
    assert earned(changed, []) == EARNED


@pytest.mark.parametrize("changed", RUNS)
@settings(deadline=None)  # other work on the machine is no fault of ours
@given(changes=st.lists(edits, min_size=1, max_size=3))
def test_no_edit_of_a_run_earns_a_turn_more(changed: str, changes: list[Edit]) -> None:
    assert earned(changed, changes) <= EARNED
