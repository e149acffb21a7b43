"""Suppression, sampling, limits and missing SDKs: never a run that seems complete and is not."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

from otel_turnavoid import (
    agent_turn,
    current_call,
    current_invoke,
    hop,
    invoke,
    llm_call,
    tool_turn,
)
from otel_turnavoid.instrument import misuses
from otel_turnavoid.judge.run import Run
from otel_turnavoid.testing import Telemetry
from otel_turnavoid.vocabulary import WithheldCause

Judged = Callable[..., Run]


@contextmanager
def suppressed() -> Iterator[None]:
    token = context_api.attach(context_api.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # noqa: FBT003
    try:
        yield
    finally:
        context_api.detach(token)


def in_run(provider: Any) -> Any:
    return invoke("a", run_id="r", arm="control", input="x", tracer_provider=provider)


class TestSuppression:
    @pytest.mark.usefixtures("production")
    def test_a_suppressed_run_emits_nothing(self, telemetry: Telemetry) -> None:
        with suppressed():
            with in_run(telemetry.tracer_provider) as run, agent_turn(), llm_call("m") as call:
                call.usage(input=1)
                current_call().usage(output=1)
                run.realized()
                with hop() as away:
                    away.report(None)
                assert run.run_id is None
            with suppress(ConnectionError), tool_turn("t"):
                raise ConnectionError

        assert telemetry.spans == ()
        assert misuses() == {}

    @pytest.mark.usefixtures("production")
    def test_what_is_suppressed_inside_a_run_is_counted_so_that_the_run_is_incomplete(
        self, telemetry: Telemetry, judged: Judged
    ) -> None:
        with in_run(telemetry.tracer_provider):
            with llm_call("m", input="q"):
                pass
            with suppressed(), llm_call("m", input="hidden"):
                pass

        attributes = telemetry.spans[-1].attributes
        assert attributes["turnavoid.invoke.llm_calls"] == 2
        assert attributes["turnavoid.invoke.impaired"] == 1
        assert judged().causes == (WithheldCause.INCOMPLETE_RUN,)
        assert misuses() == {"impaired": 2}


class _Drops(Sampler):
    def __init__(self, name: str) -> None:
        self._name = name

    def should_sample(
        self,
        parent_context: Any,
        trace_id: int,
        name: str,
        *_: Any,
        attributes: Any = None,
        **__: Any,
    ) -> SamplingResult:
        del parent_context, trace_id
        if name == self._name:
            return SamplingResult(Decision.DROP)
        given = attributes if attributes is not None else (_[1] if len(_) > 1 else None)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, given)

    def get_description(self) -> str:
        return "drops"


def recorded(**options: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


class TestSampling:
    def test_a_run_that_is_sampled_out_emits_nothing_and_is_no_trouble(self) -> None:
        provider, exporter = recorded(sampler=ALWAYS_OFF)
        with in_run(provider), agent_turn(), llm_call("m"):
            pass

        assert exporter.get_finished_spans() == ()

    @pytest.mark.usefixtures("production")
    def test_a_run_that_is_sampled_in_part_says_so_and_counts_what_is_missing(self) -> None:
        provider, exporter = recorded(sampler=_Drops("execute_tool t"))
        with in_run(provider), tool_turn("t"):
            pass

        (span,) = exporter.get_finished_spans()
        assert span.attributes is not None
        assert span.attributes["turnavoid.invoke.entries"] == 2
        assert span.attributes["turnavoid.invoke.impaired"] == 1
        assert misuses() == {"impaired": 1}


class TestLimits:
    @pytest.mark.usefixtures("production")
    def test_a_limit_on_attributes_is_noticed(self) -> None:
        provider, exporter = recorded(span_limits=SpanLimits(max_span_attributes=8))
        with in_run(provider), agent_turn(), llm_call("m", provider="p"):
            pass

        call = exporter.get_finished_spans()[0]
        assert call.dropped_attributes
        assert misuses()["impaired"] >= 1

    @pytest.mark.usefixtures("production")
    def test_a_digest_that_was_cut_is_noticed(self, caplog: pytest.LogCaptureFixture) -> None:
        provider, exporter = recorded(span_limits=SpanLimits(max_span_attribute_length=32))
        with in_run(provider):
            pass

        (span,) = exporter.get_finished_spans()
        assert span.attributes is not None
        assert span.attributes["turnavoid.invoke.impaired"] == 1
        assert "span limits or a sampler cut turnavoid.input.digest" in caplog.text

    @pytest.mark.usefixtures("production")
    def test_limits_that_cut_nothing_are_no_trouble(self) -> None:
        provider, _ = recorded(
            span_limits=SpanLimits(max_span_attributes=64, max_span_attribute_length=80)
        )
        with in_run(provider), agent_turn(), llm_call("m", provider="p") as call:
            call.usage(input=1, output=1)

        assert misuses() == {}


def test_without_an_sdk_everything_works() -> None:
    with invoke("a", arm="control", input="x") as run:
        run.opportunity()
        with llm_call("m", input="q") as call:
            call.usage(input=1)
        assert current_invoke() is run
    assert run.run.counts().entries == 3


def test_a_global_provider_that_is_set_later_is_used(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool_turn
    def early() -> None: ...

    scope = invoke("a")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", telemetry.tracer_provider)
    with scope:
        early()

    assert [span.name for span in telemetry.spans] == ["execute_tool early", "invoke_agent a"]


def test_ended_entries_do_not_wait_for_the_cyclic_collector(telemetry: Telemetry) -> None:
    gc.disable()
    try:
        with in_run(telemetry.tracer_provider):
            with agent_turn() as turn, llm_call("m", input="q") as call, tool_turn("t") as tool:
                pass
            seen = [weakref.ref(handle) for handle in (turn, call, tool)]
            del turn, call, tool
            assert [each() for each in seen] == [None, None, None]
    finally:
        gc.enable()


class TestLateEnds:
    """A generator closed late or elsewhere takes nothing away that others made current."""

    def test_a_generator_with_an_entry_inside_is_closed_in_another_run(
        self, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
    ) -> None:
        def stream() -> Iterator[str]:
            with llm_call("m"):
                yield "a"
                yield "b"

        @llm_call("decorated")
        def better() -> Iterator[str]:
            with tool_turn("inner"):
                yield "a"
                yield "b"

        with in_run(telemetry.tracer_provider), agent_turn():
            tokens = better()
            next(tokens)
        with caplog.at_level(logging.DEBUG), in_run(telemetry.tracer_provider) as run:
            tokens.close()
            assert current_invoke() is run

        assert not [record for record in caplog.records if record.name.startswith("opentele")]

    def test_several_tasks_share_one_scope(self, telemetry: Telemetry) -> None:
        look_up = tool_turn("t")

        async def use(number: int) -> None:
            async with look_up as tool:
                tool.set(call_id=str(number))
                await asyncio.sleep(0)
                await asyncio.sleep(0 if number else 0.001)
                assert tool.span is trace.get_current_span()

        async def agent() -> None:
            async with in_run(telemetry.tracer_provider):
                await asyncio.gather(*map(use, range(3)))

        asyncio.run(agent())
        ended = [span.attributes.get("gen_ai.tool.call.id") for span in telemetry.spans[:-1]]
        assert sorted(ended) == ["0", "1", "2"]
        assert ended[-1] == "0"
