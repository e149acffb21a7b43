"""The agents of the demo: one process an arm, instrumented as a user's agent would be.

The model is a script; everything else is real: the tools change a database, and every entry is
a span on its way over OTLP. ``python -m otel_turnavoid.demo.agent ARM SHOPS ENDPOINT``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import set_tracer_provider

from otel_turnavoid import agent_turn, current_invoke, invoke, llm_call, tool_turn, user_turn
from otel_turnavoid.demo.scenario import EXPERIMENT, MODEL, PLAYS, VALIDATOR, Play, Step, Use
from otel_turnavoid.demo.shop import Shop

SERVICE: Final = "customer-desk"
MODEL_S: Final = 0.015
TOOL_S: Final = 0.004
USD_PER_TOKEN: Final = (2e-6, 8e-6)
"""What a token costs, input and output."""


class OverloadedError(Exception):
    """The model's provider answers 503."""


def play(part: Play, shop: Shop) -> None:
    """Serve one customer."""
    with invoke(
        SERVICE,
        run_id=part.run_id,
        arm=part.arm,
        experiment=EXPERIMENT,
        unit=part.task.name,
        input={"request": part.task.request, "orders": part.task.orders},
        mechanism=part.mechanism,
        lifecycle=part.lifecycle,
        reason=part.reason,
    ) as run:
        with user_turn():
            pass  # the customer's words; they are not recorded
        if part.validated:
            _ask(Step("Does the stored plan fit?", tokens=(120, 4)), VALIDATOR, "validation")
        if part.retained is not None:
            tokens, latency_ms = part.retained
            run.retained(tokens=tokens, latency_ms=latency_ms)
        _loop(part.steps, shop)


def _loop(steps: tuple[Step, ...], shop: Shop) -> None:
    """Take turns until the script ends: ask the model, then do what its answer asks for."""
    for step in steps:
        with agent_turn() as turn:
            if step.discarded:
                _ask(step, MODEL, "speculation")
                turn.set(disposition="discarded")
            else:
                _ask_until_answered(step)
        if step.subagent:
            with invoke("warehouse"):
                _loop(step.subagent, shop)
        _use(step.uses, shop)


def _ask_until_answered(step: Step) -> None:
    for _ in range(step.failed_attempts):
        with suppress(OverloadedError):
            _ask(step, MODEL, "agent", overloaded=True)
    _ask(step, MODEL, "agent")


def _ask(step: Step, model: str, purpose: str, *, overloaded: bool = False) -> None:
    with llm_call(model, provider="scripted", purpose=purpose, input=step.says) as call:
        time.sleep(MODEL_S)
        if overloaded:
            raise OverloadedError
        count = step.tokens
        call.usage(input=count[0], output=count[1], cache_read=step.cache_read)
        call.cost(sum(price * tokens for price, tokens in zip(USD_PER_TOKEN, count, strict=True)))
        if purpose == "speculation":
            call.set(disposition="discarded")


def _use(uses: tuple[Use, ...], shop: Shop) -> None:
    """Execute the tools that one answer asked for: several at the same time."""
    if not uses:
        return
    run = current_invoke()
    together = Barrier(len(uses))  # none ends before all have begun, however busy the machine

    def execute(use: Use) -> None:
        disposition = "reused" if use.reused else "executed"
        with run.attached(), tool_turn(use.tool, disposition=disposition):
            together.wait()
            if not use.reused:
                time.sleep(TOOL_S)
                shop.tools[use.tool](**use.arguments)

    with ThreadPoolExecutor(len(uses)) as threads:
        list(threads.map(execute, uses))


@contextmanager
def telemetry(arm: str, endpoint: str) -> Iterator[None]:
    """Send spans over OTLP for the time of the block; all of them are sent when it ends."""
    resource = Resource.create(
        {SERVICE_NAME: SERVICE, SERVICE_INSTANCE_ID: f"{SERVICE}-{arm}"},
    )
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()


def main(arm: str, shops: Path, endpoint: str) -> None:
    """Play all runs of an arm."""
    with telemetry(arm, endpoint):
        for part in PLAYS.values():
            if part.arm == arm:
                with Shop.open(shops / f"{part.run_id}.db") as shop:
                    play(part, shop)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
