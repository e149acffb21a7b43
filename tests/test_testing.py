from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.testing import (
    EFFECTS,
    START_NS,
    Call,
    Reply,
    ScriptedModel,
    ScriptExhaustedError,
    SteppedClock,
    Telemetry,
    ToolCall,
    Turn,
    observation,
    observation_span,
    other_spans,
    run_spans,
    shatter,
)


def value(held: AnyValue) -> Any:
    which = held.WhichOneof("value")
    if which == "array_value":
        return [value(item) for item in held.array_value.values]
    return getattr(held, which or "string_value")


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: value(item.value) for item in span.attributes}


def spans(request: bytes) -> list[Span]:
    decoded = ExportTraceServiceRequest.FromString(request)
    return [
        span
        for resource in decoded.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


class TestRunSpans:
    def test_equal_arguments_give_equal_bytes(self) -> None:
        assert run_spans(run_id="c") == run_spans(run_id="c")

    def test_sequence_numbers_and_counts_agree(self) -> None:
        made = [attributes(span) for span in spans(run_spans(run_id="c", turns=4))]

        assert [span["turnavoid.seq"] for span in made] == list(range(14))
        assert [span["turnavoid.entry"] for span in made[:5]] == [
            "invoke",
            "user_turn",
            "agent_turn",
            "llm_call",
            "tool_turn",
        ]
        assert {
            key: held for key, held in made[0].items() if key.startswith("turnavoid.invoke.")
        } == {
            "turnavoid.invoke.kind": "user_send",
            "turnavoid.invoke.state": "completed",
            "turnavoid.invoke.agent_turns": 4,
            "turnavoid.invoke.llm_calls": 4,
            "turnavoid.invoke.tool_turns": 4,
            "turnavoid.invoke.entries": 14,
        }

    def test_a_lost_span_stays_declared(self) -> None:
        made = [attributes(span) for span in spans(run_spans(run_id="c", turns=1, lost={3}))]

        assert [span["turnavoid.seq"] for span in made] == [0, 1, 2, 4]
        assert made[0]["turnavoid.invoke.llm_calls"] == 1

    def test_retries_count_attempts_at_one_input(self) -> None:
        turn = Turn(calls=[Call("failed"), Call()], tools=())
        made = [attributes(span) for span in spans(run_spans(run_id="c", turns=[turn]))]

        first, second = made[3:]
        assert (first["turnavoid.call.attempt"], second["turnavoid.call.attempt"]) == (1, 2)
        assert first["turnavoid.call.input_digest"] == second["turnavoid.call.input_digest"]
        assert "gen_ai.usage.input_tokens" not in first

    @pytest.mark.parametrize("state", ["failed", "aborted"])
    def test_a_run_that_did_not_complete_is_an_error(self, state: str) -> None:
        invoke = spans(run_spans(run_id="c", state=state))[0]

        assert invoke.status.code == 2
        assert attributes(invoke)["turnavoid.invoke.state"] == state

    def test_knobs_leave_out_and_replace(self) -> None:
        invoke, *others = (
            attributes(span)
            for span in spans(
                run_spans(
                    run_id="c",
                    arm=None,
                    digest="",
                    counts=False,
                    lifecycle=None,
                    variant="v",
                    attributes={"turnavoid.invoke.kind": "notify", "app": True},
                )
            )
        )

        assert invoke == {
            "turnavoid.entry": "invoke",
            "turnavoid.seq": 0,
            "turnavoid.run.id": "c",
            "turnavoid.variant": "v",
            "turnavoid.invoke.kind": "notify",
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "orders",
            "turnavoid.invoke.state": "completed",
            "app": True,
        }
        assert all(span["turnavoid.variant"] == "v" for span in others)

    @pytest.mark.corpus
    def test_the_shape_is_that_of_the_conformance_cases(self, shared: Path) -> None:
        """A plain run differs from the case ``avoided`` in ids and values, never in keys."""
        case = json.loads((shared / "conformance/verdicts/avoided.json").read_text())
        body = next(r["body"] for r in case["requests"] if r["signal"] == "traces")
        wanted = ParseDict(_ids_as_base64(body), ExportTraceServiceRequest())
        ours = spans(run_spans(run_id="c", arm="control", turns=4, task="t"))
        control = [
            span
            for span in spans(wanted.SerializeToString())
            if attributes(span)["turnavoid.run.id"] == "c"
        ]

        extra = {"gen_ai.operation.name", "gen_ai.agent.name"}
        assert [set(attributes(span)) - extra for span in ours] == [
            set(attributes(span)) - extra for span in control
        ]
        for mine, theirs in zip(ours, control, strict=True):
            assert (mine.name, mine.kind, mine.trace_id, mine.flags) == (
                theirs.name,
                theirs.kind,
                theirs.trace_id,
                theirs.flags,
            )
            assert (mine.start_time_unix_nano, mine.end_time_unix_nano) == (
                theirs.start_time_unix_nano,
                theirs.end_time_unix_nano,
            )


def _ids_as_base64(node: Any) -> Any:
    """OTLP/JSON writes ids in hex where protobuf's JSON wants base64."""
    from base64 import b64encode  # noqa: PLC0415

    if isinstance(node, list):
        return [_ids_as_base64(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: b64encode(bytes.fromhex(item)).decode()
        if key in {"traceId", "spanId", "parentSpanId"}
        else _ids_as_base64(item)
        for key, item in node.items()
    }


def test_shatter_keeps_every_span_and_its_surroundings() -> None:
    whole = run_spans(run_id="c", turns=2, scope="s", service="a", instance="b")

    parts = list(shatter(whole))

    assert [len(spans(part)) for part in parts] == [1] * 8
    assert [spans(part)[0] for part in parts] == spans(whole)
    heads = {
        (
            MessageToDict(ExportTraceServiceRequest.FromString(part).resource_spans[0].resource)[
                "attributes"
            ][0]["value"]["stringValue"],
            ExportTraceServiceRequest.FromString(part).resource_spans[0].scope_spans[0].scope.name,
        )
        for part in parts
    }
    assert heads == {("a", "s")}


def test_an_observation_as_event() -> None:
    (logs,) = ExportLogsServiceRequest.FromString(observation("c")).resource_logs

    (record,) = logs.scope_logs[0].log_records
    assert record.event_name == "turnavoid.effects.observed"
    assert attributes(record) == {
        "turnavoid.run.id": "c",
        "turnavoid.observer.id": "orders-db/v1",
        "turnavoid.effects.labels": list(EFFECTS),
    }
    assert attributes(logs.resource) == {
        "service.name": "orders-observer",
        "service.instance.id": "observer-1",
    }


def test_an_observation_as_span() -> None:
    (span,) = spans(observation_span("c", ["x"], observer="o"))

    assert span.name == "turnavoid.effects.observed"
    assert attributes(span) == {
        "turnavoid.run.id": "c",
        "turnavoid.observer.id": "o",
        "turnavoid.effects.labels": ["x"],
    }


def test_other_spans_say_nothing_of_agents() -> None:
    made = spans(other_spans(5))

    assert len({span.span_id for span in made}) == 5
    keys = {key for span in made for key in attributes(span)}
    assert not {key for key in keys if key.startswith(("turnavoid.", "gen_ai."))}


class TestTelemetry:
    def test_ids_count_and_time_steps(self) -> None:
        telemetry = Telemetry(clock=SteppedClock(start_ns=100, step_ns=10))
        tracer = telemetry.tracer_provider.get_tracer("t")
        with tracer.start_as_current_span("a"), tracer.start_as_current_span("b"):
            pass

        assert [
            (s.name, s.context.trace_id, s.context.span_id, s.start_time, s.end_time)
            for s in telemetry.spans
        ] == [("b", 1, 2, 110, 120), ("a", 1, 1, 100, 130)]

    def test_times_that_are_given_stand(self) -> None:
        telemetry = Telemetry()
        telemetry.tracer_provider.get_tracer("t").start_span("a", start_time=5).end(7)

        assert (telemetry.spans[0].start_time, telemetry.spans[0].end_time) == (5, 7)

    def test_what_was_recorded_becomes_requests(self) -> None:
        telemetry = Telemetry(service="s", instance="i", resource={"deployment": "d"})
        telemetry.tracer_provider.get_tracer("t").start_span("a").end()
        telemetry.logger_provider.get_logger("l").emit(event_name="e")

        traces = ExportTraceServiceRequest.FromString(telemetry.trace_request())
        logs = ExportLogsServiceRequest.FromString(telemetry.logs_request())
        expected = {"service.name": "s", "service.instance.id": "i", "deployment": "d"}
        assert attributes(traces.resource_spans[0].resource).items() >= expected.items()
        assert attributes(logs.resource_logs[0].resource).items() >= expected.items()
        assert traces.resource_spans[0].scope_spans[0].spans[0].start_time_unix_nano == START_NS
        assert logs.resource_logs[0].scope_logs[0].log_records[0].event_name == "e"

    def test_clear_forgets(self) -> None:
        telemetry = Telemetry()
        telemetry.tracer_provider.get_tracer("t").start_span("a").end()
        telemetry.clear()

        assert Counter(s.name for s in telemetry.spans) == {}


class TestScriptedModel:
    def test_it_answers_in_order_and_remembers_what_it_was_asked(self) -> None:
        model = ScriptedModel([Reply(tool_calls=[ToolCall("t", {"x": 1})]), "done"])
        messages = ["hello"]
        first = model.complete(messages)
        messages.append("result")
        second = model.complete(messages)

        assert (first.finish_reason, second.finish_reason) == ("tool_call", "stop")
        assert (first.id, second.id) == ("reply-1", "reply-2")
        assert second.text == "done"
        assert model.requests == [["hello"], ["hello", "result"]]

    def test_a_failure_in_the_script_is_raised(self) -> None:
        model = ScriptedModel([TimeoutError("slow"), "done"])

        with pytest.raises(TimeoutError, match="slow"):
            model.complete([])
        assert model.complete([]).text == "done"

    def test_an_exhausted_script_says_so(self) -> None:
        with pytest.raises(ScriptExhaustedError, match="the script of m has no answer 1"):
            ScriptedModel([], name="m").complete([])
