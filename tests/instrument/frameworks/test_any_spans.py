"""Properties: whatever order spans start and end in, what is lost is seen to be lost."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_turnavoid import invoke

CHAT = {"gen_ai.operation.name": "chat"}
TOOL = {"gen_ai.operation.name": "execute_tool"}
PLAIN = {"http.request.method": "GET"}
NAMES = ("a", "b")

plans = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from((CHAT, TOOL, PLAIN)), st.integers(0, 5)),
    max_size=12,
)
"""Run, kind, and after how many further starts the span ends."""


def played(bench: Any, plan: list[tuple[str, dict[str, str], int]]) -> None:
    """Start and end spans of two open runs as planned; what is left open ends at the end."""
    tracer = bench.provider.get_tracer("some.framework")
    runs = {
        name: invoke(run_id=name, arm="control", input=name, tracer_provider=bench.provider).begin()
        for name in NAMES
    }
    open_spans: list[tuple[int, Any]] = []
    for now, (name, attributes, lasts) in enumerate(plan):
        for due, span in [each for each in open_spans if each[0] <= now]:
            span.end()
            open_spans.remove((due, span))
        with runs[name].attached():
            open_spans.append((now + lasts, tracer.start_span("x", attributes=attributes)))
    for handle in runs.values():
        handle.end()
    for _, span in open_spans:
        span.end()


def count(plan: list[tuple[str, dict[str, str], int]], name: str, kind: dict[str, str]) -> int:
    return sum(run == name and attributes is kind for run, attributes, _ in plan)


@settings(max_examples=40, deadline=None)
@given(plan=plans)
def test_all_that_arrives_is_what_was_declared(
    plan: list[tuple[str, dict[str, str], int]], make_bench: Any
) -> None:
    with ExitStack() as stack:
        bench = make_bench(Path(stack.enter_context(TemporaryDirectory())))
        stack.callback(bench.close)
        played(bench, plan)

        runs = bench.runs()
        for name in NAMES:
            assert runs[name].problems == ()
            assert runs[name].llm_calls == count(plan, name, CHAT)
            assert runs[name].tool_calls == count(plan, name, TOOL)


@settings(max_examples=40, deadline=None)
@given(plan=plans, data=st.data())
def test_a_call_or_tool_that_is_lost_leaves_its_run_incomplete(
    plan: list[tuple[str, dict[str, str], int]], data: st.DataObject, make_bench: Any
) -> None:
    with ExitStack() as stack:
        bench = make_bench(Path(stack.enter_context(TemporaryDirectory())))
        stack.callback(bench.close)
        played(bench, plan)
        counted = [
            span
            for span in bench.spans
            if span.name == "x" and "gen_ai.operation.name" in (span.attributes or {})
        ]
        if not counted:
            return
        lost = data.draw(st.sampled_from(counted))
        kept = [span for span in bench.spans if span is not lost]
        bench.deliver(kept)

        runs = bench.runs()
        name = (lost.attributes or {})["turnavoid.run.id"]
        assert [cause.value for cause in runs[name].causes] == ["incomplete-run"]
