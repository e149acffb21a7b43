"""The span processor stamps and counts spans that are not ours, or shows that it could not."""

from __future__ import annotations

import logging
import os
from threading import Thread
from typing import Any

import pytest
from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Span, set_span_in_context

from otel_turnavoid import agent_turn, hop, invoke, join, llm_call, resume, tool_turn
from otel_turnavoid.judge.run import Run

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
AGENT = {"gen_ai.operation.name": "invoke_agent"}


def control(bench: Any, run_id: str = "r") -> Any:
    return invoke(run_id=run_id, arm="control", input="…", tracer_provider=bench.provider)


def start(bench: Any, name: str, attributes: Any = None, **options: Any) -> Span:
    tracer = bench.provider.get_tracer("some.framework")
    return tracer.start_span(name, attributes=attributes, **options)


def call(bench: Any, *operations: dict[str, str]) -> None:
    for attributes in operations:
        start(bench, attributes["gen_ai.operation.name"], attributes).end()


def shape(run: Run) -> tuple[Any, ...]:
    return (run.evidence.value, run.model_turns, run.llm_calls, run.tool_calls)


def causes(run: Run) -> list[str]:
    return [cause.value for cause in run.causes]


def test_calls_and_tools_of_others_are_declared(bench: Any) -> None:
    with control(bench):
        agent = start(bench, "invoke_agent", AGENT)
        token = context.attach(set_span_in_context(agent))
        call(bench, CHAT, TOOL, CHAT)
        context.detach(token)
        agent.end()

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 2, 2, 1), [])
    ours = dict(bench.spans[-1].attributes or {})
    assert {key: ours[key] for key in ours if key.startswith("turnavoid.invoke.")} == {
        "turnavoid.invoke.kind": "user_send",
        "turnavoid.invoke.state": "completed",
        "turnavoid.invoke.agent_turns": 0,
        "turnavoid.invoke.llm_calls": 2,
        "turnavoid.invoke.tool_turns": 1,
        "turnavoid.invoke.entries": 1,
    }


def test_every_span_inside_is_stamped_with_run_arm_and_variant(bench: Any) -> None:
    with invoke(run_id="r", arm="fused-batch", variant="v2", tracer_provider=bench.provider):
        start(bench, "GET", {"http.request.method": "GET"}).end()
    start(bench, "outside").end()

    assert dict(bench.named("GET").attributes or {}) == {
        "http.request.method": "GET",
        "turnavoid.run.id": "r",
        "turnavoid.arm": "fused-batch",
        "turnavoid.variant": "v2",
    }
    assert dict(bench.named("outside").attributes or {}) == {}


def test_what_a_span_says_of_its_run_itself_stands(bench: Any) -> None:
    with control(bench):
        start(bench, "x", {"turnavoid.variant": "mine"}).end()

    assert (bench.named("x").attributes or {})["turnavoid.variant"] == "mine"


def test_ours_and_theirs_around_one_call_are_one_call(bench: Any) -> None:
    """A01: both stand in the counts as raw spans; copies are merged by the processor."""
    with control(bench), agent_turn(), llm_call("m"):
        call(bench, CHAT)

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 1, 1, 0), [])


def test_a_sub_agents_calls_count_in_its_callers_run(bench: Any) -> None:
    with control(bench):
        call(bench, CHAT)
        with tool_turn("ask"), invoke("helper"):
            call(bench, CHAT, CHAT)

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 3, 3, 1), [])


def test_spans_are_found_by_their_parent_where_the_context_was_lost(bench: Any) -> None:
    """Callback handlers keep their spans and start children from any thread."""
    with control(bench):
        workflow = start(bench, "workflow")

        def in_thread() -> None:
            parent = set_span_in_context(workflow, Context())
            start(bench, "chat", CHAT, context=parent).end()

        thread = Thread(target=in_thread)
        thread.start()
        thread.join()
        workflow.end()

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 1, 1, 0), [])


def test_spans_in_a_trace_of_their_own_belong_to_the_current_run(bench: Any) -> None:
    """A29: frameworks that start new traces within a run."""
    with control(bench):
        for _ in range(3):
            start(bench, "chat", CHAT, context=Context()).end()

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 3, 3, 0), [])
    assert len({span.context.trace_id for span in bench.spans if span.context}) == 4


def test_threads_with_the_runs_context_count(bench: Any) -> None:
    with control(bench) as run_handle:

        def in_thread() -> None:
            with run_handle.attached():
                call(bench, CHAT)

        threads = [Thread(target=in_thread) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run = bench.runs()["r"]
    assert (run.llm_calls, causes(run)) == (8, [])


def test_two_open_runs_are_kept_apart(bench: Any) -> None:
    first = control(bench, "a").begin()
    second = control(bench, "b").begin()
    with first.attached():
        call(bench, CHAT, CHAT)
    with second.attached():
        call(bench, CHAT)
    first.end()
    second.end()

    runs = bench.runs()
    assert [runs[name].llm_calls for name in "ab"] == [2, 1]
    assert causes(runs["a"]) + causes(runs["b"]) == []


def test_a_failed_call_and_its_retry_are_one_turn(bench: Any) -> None:
    with control(bench):
        start(bench, "chat", CHAT | {"error.type": "500"}).end()
        call(bench, CHAT)

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 1, 2, 0), [])


def test_runs_on_another_provider_than_the_calls_count_too(bench: Any) -> None:
    agents = bench.provider
    bench.add_provider()
    with invoke(run_id="r", arm="control", input="…", tracer_provider=agents):
        call(bench, CHAT)

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 1, 1, 0), [])


def test_a_call_that_ends_after_its_invoke_was_declared_and_is_there(bench: Any) -> None:
    with control(bench):
        late = start(bench, "chat", CHAT)
    late.end()

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 1, 1, 0), [])


def test_a_call_that_never_ends_leaves_the_run_incomplete(bench: Any) -> None:
    with control(bench):
        lost = start(bench, "chat", CHAT)

    run = bench.runs()["r"]
    assert causes(run) == ["incomplete-run"]
    assert run.problems == ("1 LlmCalls declared, 0 seen",)
    lost.end()


def test_an_open_span_that_does_not_say_what_it_is_counts_as_a_call(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with control(bench):
        call(bench, CHAT)
        unknown = start(bench, "step")  # of an instrumentation that has shown calls

    assert causes(bench.runs()["r"]) == ["incomplete-run"]
    assert caplog.messages == [
        "span 'step' is open at its run's end and counts as a call: the run is incomplete"
    ]
    unknown.end()


@pytest.mark.parametrize(
    "attributes",
    [{"http.request.method": "POST"}, AGENT, {"gen_ai.operation.name": "execute_task"}],
)
def test_an_open_span_that_is_no_call_is_no_matter(bench: Any, attributes: dict[str, str]) -> None:
    with control(bench):
        call(bench, CHAT)
        open_span = start(bench, "other", attributes)

    assert causes(bench.runs()["r"]) == []
    open_span.end()


def test_an_open_span_of_the_application_is_no_matter(bench: Any) -> None:
    with control(bench):
        call(bench, CHAT)
        step = bench.provider.get_tracer("my.application").start_span("step")

    assert causes(bench.runs()["r"]) == []
    step.end()


def test_a_run_that_pauses_and_goes_on_declares_the_calls_of_both_segments(bench: Any) -> None:
    with control(bench) as first:
        call(bench, CHAT, TOOL)
        handover = first.pause()
    with resume(handover, tracer_provider=bench.provider):
        call(bench, CHAT, CHAT)

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 3, 3, 1), [])


def test_calls_beyond_a_hop_are_declared_by_the_caller(bench: Any) -> None:
    here, there = bench.provider, bench.add_provider()  # each with a processor, as two processes
    with invoke(run_id="r", arm="control", input="…", tracer_provider=here), hop() as sent:
        headers = sent.headers()
        token = context.attach(Context())
        with join(headers, tracer_provider=there) as joined:
            call(bench, CHAT, TOOL)
            reply = joined.report()
        context.detach(token)
        sent.report(reply)

    run = bench.runs()["r"]
    assert (shape(run), causes(run)) == (("declared", 1, 1, 1), [])


def test_calls_beyond_a_hop_that_never_reports_back_leave_the_run_unproven(bench: Any) -> None:
    with control(bench), hop() as sent:
        headers = sent.headers()
        token = context.attach(Context())
        with join(headers, tracer_provider=bench.provider):
            call(bench, CHAT)
        context.detach(token)

    assert "completeness-unproven" in causes(bench.runs()["r"])


def test_a_call_that_starts_after_its_invoke_ended_leaves_the_run_incomplete(bench: Any) -> None:
    with control(bench) as run_handle:
        call(bench, CHAT)
    with run_handle.attached():
        call(bench, CHAT)

    run = bench.runs()["r"]
    assert causes(run) == ["incomplete-run"]
    assert run.problems == ("1 LlmCalls declared, 2 seen",)


def test_a_span_that_is_recorded_and_not_exported_leaves_the_run_incomplete(bench: Any) -> None:
    class RecordsChat(Sampler):
        def should_sample(self, *arguments: Any, **_: Any) -> SamplingResult:
            _, _, name, _, attributes, *_ = arguments
            chat = name == "chat"
            decision = Decision.RECORD_ONLY if chat else Decision.RECORD_AND_SAMPLE
            return SamplingResult(decision, attributes)

        def get_description(self) -> str:
            return "RecordsChat"

    bench.add_provider(sampler=RecordsChat())
    with control(bench):
        call(bench, CHAT, CHAT)

    assert "completeness-unproven" in causes(bench.runs()["r"])


@pytest.mark.parametrize(
    ("sampler", "declares"),
    [
        (ALWAYS_ON, True),
        (ParentBased(ALWAYS_ON), True),
        (TraceIdRatioBased(1.0), True),
        (TraceIdRatioBased(0.9999999), False),
        (ParentBased(TraceIdRatioBased(0.9999999)), False),
        (ParentBased(ALWAYS_ON, local_parent_sampled=ALWAYS_OFF), False),
    ],
    ids=lambda value: value.get_description() if isinstance(value, Sampler) else str(value),
)
def test_counts_are_declared_only_where_no_span_can_be_left_out(
    bench: Any, sampler: Sampler, declares: Any
) -> None:
    bench.add_provider(sampler=sampler)
    with control(bench):
        pass

    (span,) = bench.spans
    assert ("turnavoid.invoke.llm_calls" in (span.attributes or {})) is declares


def test_another_providers_sampler_counts_too(bench: Any) -> None:
    agents = bench.provider
    bench.add_provider(sampler=ParentBased(TraceIdRatioBased(0.9999999)))
    with invoke(run_id="r", arm="control", input="…", tracer_provider=agents):
        call(bench, CHAT)

    assert causes(bench.runs()["r"]) == ["completeness-unproven"]


def test_a_span_that_lost_attributes_to_a_limit_counts_as_a_call(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.add_provider(limits=SpanLimits(max_span_attributes=8))
    with control(bench):
        span = start(bench, "chat", CHAT)
        span.set_attributes({f"content.{number}": "…" for number in range(20)})
        span.end()

    assert "turnavoid.run.id" not in (bench.named("chat").attributes or {})
    assert "lost attributes to a limit" in caplog.text


def test_a_call_outside_every_run_while_one_is_open_proves_that_context_was_lost(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A28: thread pools do not copy context, and a call that nobody counts looks avoided."""
    with control(bench):
        call(bench, CHAT)
        thread = Thread(target=call, args=(bench, CHAT))
        thread.start()
        thread.join()

    assert causes(bench.runs()["r"]) == ["completeness-unproven"]
    (said,) = caplog.messages
    assert said == (
        "'chat' ran outside every run while one was open: its context was lost, so the open runs"
        " declare no counts (if it belongs to no run: TurnAvoidSpanProcessor(other_calls=True))"
    )


def test_such_a_call_that_is_still_open_proves_it_too(bench: Any) -> None:
    spans: list[Span] = []
    with control(bench):
        thread = Thread(target=lambda: spans.append(start(bench, "chat", CHAT)))
        thread.start()
        thread.join()

    assert causes(bench.runs()["r"]) == ["completeness-unproven"]
    spans[0].end()


def test_other_calls_of_the_process_can_be_allowed(bench: Any) -> None:
    bench.add_provider(other_calls=True)
    with control(bench):
        call(bench, CHAT)
        thread = Thread(target=call, args=(bench, CHAT))
        thread.start()
        thread.join()

    assert causes(bench.runs()["r"]) == []


def test_calls_outside_runs_are_no_matter_while_none_is_open(bench: Any) -> None:
    call(bench, CHAT)
    with control(bench):
        call(bench, CHAT)
    call(bench, CHAT)

    assert causes(bench.runs()["r"]) == []


def test_nothing_is_kept_of_runs_that_ended(bench: Any) -> None:
    with control(bench):
        call(bench, CHAT, TOOL)
        late = start(bench, "chat", CHAT)
    late.end()

    (processor,) = bench._processors
    assert (processor._runs, processor._homes, processor._outside) == ({}, {}, {})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_knows_none_of_its_parents_runs(bench: Any) -> None:
    (processor,) = bench._processors
    with control(bench):
        child = os.fork()
        if not child:
            os._exit(len(processor._runs))
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def test_an_exporter_that_drops_spans_leaves_the_run_incomplete(bench: Any) -> None:
    with control(bench):
        call(bench, CHAT, CHAT)
    bench.deliver(bench.spans[1:])

    assert causes(bench.runs()["r"]) == ["incomplete-run"]


def test_the_processor_says_nothing_where_all_is_well(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with control(bench):
        call(bench, CHAT, TOOL)

    assert caplog.messages == []
