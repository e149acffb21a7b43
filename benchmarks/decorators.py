"""What a decorated call costs: against a plain span with the same attributes, and against others.

All record into the same SDK with a processor that drops what it gets, in short alternating rounds
of one process; a ratio is the median over the rounds, so that what else the machine does weighs
on all alike. The plain side does by hand what a careful user would: ``start_as_current_span``
with the starting attributes, ``set_attributes`` with the rest. The decorated functions take two
short messages and return a sentence, as model calls do. The decorators of OpenInference and
Traceloop are measured where they are installed (``pip install openinference-instrumentation
traceloop-sdk``, in an environment of their own; ``TRACELOOP_TELEMETRY=FALSE`` keeps Traceloop
from reporting its use).

Like is held against like: model call against model call, tool against tool, a stretch of work
against a stretch of work. Traceloop has no decorator for a model call. What stands for one is
its ``task`` around a function that states six attributes more, so that both spans say eleven
things. The bare ``task`` says five. Against it the plain span is measured as well, and a span
that is only started and ended, for what eleven attributes cost in the SDK alone.

Run: ``python benchmarks/decorators.py [calls per round] [--check]``; with ``--check`` it fails
where a ratio is above the limit beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.vocabulary import SCOPE

ROUNDS = 41
MOST_OF_PLAIN = 1.25
MOST_OF_OTHERS = 0.5
MOST_OF_LESS = 0.55
"""Of a decorator whose spans say less than half as much."""
UNLIMITED = float("inf")

MESSAGES = [
    {"role": "system", "content": "You serve the customers of a small shop."},
    {"role": "user", "content": "Please cancel order 42 and tell me when the refund arrives."},
]
ANSWER = "Order 42 is cancelled; the refund arrives within three working days."

Call = Callable[[Any], Any]


class Theirs(NamedTuple):
    """Decorated functions of another library."""

    call: Call
    """A model call."""
    task: Call | None
    """A stretch of work, if there is a decorator for it."""
    tool: Call
    """A tool."""
    around: Callable[[Callable[[], float]], float]
    """Runs the others inside."""


@llm_call("gpt-5.1", provider="openai")
def decorated_call(_messages: Any) -> str:
    """Stand for a model call."""
    return ANSWER


def managed_call(_messages: Any) -> str:
    with llm_call("gpt-5.1", provider="openai"):
        return ANSWER


@tool_turn
def lookup_order(_messages: Any) -> str:
    """Stand for a tool."""
    return ANSWER


@agent_turn
def think(_messages: Any) -> str:
    """Stand for a turn without instrumented calls."""
    return ANSWER


class Plain(NamedTuple):
    """Spans by hand."""

    call: Call
    """A model call."""
    bare_call: Call
    """One that nothing is current in: the SDK's work alone."""
    tool: Call
    """A tool."""


def plain_spans(provider: TracerProvider) -> Plain:
    tracer = provider.get_tracer(SCOPE)
    asked = {
        "turnavoid.entry": "llm_call",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.1",
        "turnavoid.run.id": "r",
        "turnavoid.arm": "control",
        "turnavoid.call.purpose": "agent",
        "turnavoid.call.attempt": 1,
        "turnavoid.seq": 7,
    }
    answered = {"turnavoid.call.disposition": "committed", "turnavoid.call.samplings": 1}

    def plain_call(_messages: Any) -> str:
        with tracer.start_as_current_span(
            "chat gpt-5.1", kind=SpanKind.CLIENT, attributes=asked
        ) as span:
            span.set_attributes(answered)
            return ANSWER

    def bare_call(_messages: Any) -> str:
        span = tracer.start_span("chat gpt-5.1", kind=SpanKind.CLIENT, attributes=asked)
        span.set_attributes(answered)
        span.end()
        return ANSWER

    def plain_tool(_messages: Any) -> str:
        with tracer.start_as_current_span(
            "execute_tool lookup_order",
            attributes={
                "turnavoid.entry": "tool_turn",
                "gen_ai.operation.name": "execute_tool",
                "turnavoid.tool.caller": "model",
                "turnavoid.tool.disposition": "executed",
                "gen_ai.tool.name": "lookup_order",
                "turnavoid.run.id": "r",
                "turnavoid.arm": "control",
                "turnavoid.seq": 7,
            },
        ):
            return ANSWER

    return Plain(plain_call, bare_call, plain_tool)


def openinference(provider: TracerProvider) -> Theirs | None:
    try:
        from openinference.instrumentation import OITracer, TraceConfig  # noqa: PLC0415
    except ImportError:
        return None
    tracer = OITracer(provider.get_tracer("openinference"), TraceConfig())

    @tracer.llm
    def call(_messages: Any) -> str:
        return ANSWER

    @tracer.tool
    def tool(_messages: Any) -> str:
        return ANSWER

    @tracer.agent
    def around(work: Callable[[], float]) -> float:
        return work()

    return Theirs(call, None, tool, around)


def traceloop(provider: TracerProvider) -> Theirs | None:
    try:
        from traceloop.sdk import Traceloop  # noqa: PLC0415
        from traceloop.sdk.decorators import task, tool, workflow  # noqa: PLC0415
    except ImportError:
        return None
    trace.set_tracer_provider(provider)  # it takes the global one and adds its processors to it
    Traceloop.init(
        app_name="bench",
        processor=SpanProcessor(),
        instruments=set(),
        telemetry_enabled=False,
        traceloop_sync_enabled=False,
    )

    @task(name="call")
    def call(_messages: Any) -> str:
        trace.get_current_span().set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-5.1",
                "run.id": "r",
                "arm": "control",
                "purpose": "agent",
            }
        )
        return ANSWER

    @task(name="work")
    def work(_messages: Any) -> str:
        return ANSWER

    @tool(name="lookup_order")
    def use(_messages: Any) -> str:
        return ANSWER

    @workflow(name="bench")
    def around(inside: Callable[[], float]) -> float:
        return inside()

    return Theirs(call, work, use, around)


def timed(call: Call, calls: int) -> float:
    started = perf_counter()
    for _ in range(calls):
        call(MESSAGES)
    return perf_counter() - started


class Contest(NamedTuple):
    """Who is measured against whom, and how much of the other's time it may take."""

    ours: Call
    other: Call
    most: float
    around: Callable[[Callable[[], float]], float] = lambda work: work()


def main(calls: int, *, check: bool) -> int:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SpanProcessor())
    plain = plain_spans(provider)
    contests: dict[str, Contest] = {
        "@llm_call of a plain span": Contest(decorated_call, plain.call, MOST_OF_PLAIN),
        "with llm_call of a plain span": Contest(managed_call, plain.call, MOST_OF_PLAIN),
        "@tool_turn of a plain span": Contest(lookup_order, plain.tool, MOST_OF_PLAIN),
    }
    for name, made in (("OpenInference", openinference), ("Traceloop", traceloop)):
        theirs = TracerProvider(shutdown_on_exit=False)
        theirs.add_span_processor(SpanProcessor())
        found = made(theirs)
        if found is None:
            print(f"{name} is not installed: not compared")
            continue
        most, around, task = MOST_OF_OTHERS, found.around, found.task
        called = "llm" if task is None else "task that says as much"
        contests[f"@llm_call of {name}'s {called}"] = Contest(
            decorated_call, found.call, most, around
        )
        contests[f"@tool_turn of {name}'s tool"] = Contest(lookup_order, found.tool, most, around)
        if task is not None:
            contests |= {
                f"@agent_turn of {name}'s task": Contest(think, task, most, around),
                f"@llm_call of {name}'s bare task": Contest(
                    decorated_call, task, MOST_OF_LESS, around
                ),
                f"a plain span of {name}'s bare task": Contest(plain.call, task, UNLIMITED, around),
                f"its start and end of {name}'s bare task": Contest(
                    plain.bare_call, task, UNLIMITED, around
                ),
            }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contests}
    with invoke("bench", run_id="r", arm="control", tracer_provider=provider), agent_turn():
        for _ in range(ROUNDS):
            for name, contest in contests.items():
                ours = timed(contest.ours, calls)
                times[name].append((ours, contest.around(partial(timed, contest.other, calls))))
    failed = 0
    for name, rounds in times.items():
        ratio = median(ours / other for ours, other in rounds)
        ours_us, other_us = (min(each) / calls * 1e6 for each in zip(*rounds, strict=True))
        most = contests[name].most
        failed += ratio > most
        limit = "" if most == UNLIMITED else f" (at most {most})"
        print(f"{name}: {ours_us:.2f} us of {other_us:.2f} us, ratio {ratio:.2f}{limit}")
    return min(failed, 1) if check else 0


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each != "--check"]
    sys.exit(main(numbers[0] if numbers else 300, check="--check" in sys.argv))
