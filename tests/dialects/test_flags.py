"""Arms from feature flags that were evaluated in a span: events of OpenTelemetry's conventions."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.facts import SpanFact, encode_evidence, resolved
from otel_turnavoid.judge.settings import ArmRule, Settings
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.vocabulary import Arm, Rejection

RULES = Settings(
    arms={
        "feature_flag.memory": {
            "off": ArmRule(arm=Arm.CONTROL),
            "on": ArmRule(arm=Arm.EXACT_REUSE, variant="v2"),
            "true": ArmRule(arm=Arm.FUSED_BATCH),
        }
    }
)
KEY, VARIANT = "feature_flag.key", "feature_flag.result.variant"
ON = {KEY: "memory", VARIANT: "on"}
OFF = {KEY: "memory", VARIANT: "off"}


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    def value(given: Any) -> AnyValue:
        if isinstance(given, bool):
            return AnyValue(bool_value=given)
        return AnyValue(string_value=given)

    return [KeyValue(key=key, value=value(given)) for key, given in attributes.items()]


def read(
    *evaluations: dict[str, Any],
    settings: Settings = RULES,
    name: str = "feature_flag.evaluation",
    span_id: int = 1,
    **attributes: Any,
) -> SpanFact:
    """The fact of an agent's span with these events."""
    said = {"gen_ai.operation.name": "invoke_agent"} | attributes
    span = Span(
        trace_id=b"t" * 16,
        span_id=bytes([span_id]) * 8,
        attributes=pairs(said),
        events=[Span.Event(name=name, attributes=pairs(each)) for each in evaluations],
    )
    scopes = [ScopeSpans(spans=[span])]
    request = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=scopes)])
    [fact] = read_traces(request.SerializeToString(), Reader(settings)).facts
    return fact


@pytest.mark.parametrize(
    ("name", "evaluation"),
    [
        ("feature_flag.evaluation", ON),
        ("feature_flag", {KEY: "memory", "feature_flag.variant": "on"}),
        ("feature_flag.evaluation", {KEY: "memory", "feature_flag.result.value": "on"}),
    ],
)
def test_an_evaluation_names_the_arm_in_new_and_old_spelling(
    name: str, evaluation: dict[str, Any]
) -> None:
    fact = resolved(read(evaluation, name=name))

    assert (fact.arm, fact.variant) == (Arm.EXACT_REUSE, "v2")


def test_a_flag_without_variants_has_its_value() -> None:
    assert resolved(read({KEY: "memory", "feature_flag.result.value": True})).arm == "fused-batch"


def test_the_variant_wins_over_the_value() -> None:
    assert resolved(read(OFF | {"feature_flag.result.value": True})).arm is Arm.CONTROL


@pytest.mark.parametrize(
    "evaluation",
    [
        ON | {KEY: "other"},
        ON | {VARIANT: "unlisted"},
        ON | {"error.type": "provider_not_ready"},
        {KEY: "memory"},
        {VARIANT: "on"},
    ],
)
def test_other_flags_and_failed_evaluations_name_no_arm(evaluation: dict[str, Any]) -> None:
    fact = resolved(read(evaluation))

    assert (fact.arm, fact.variant) == (None, None)


def test_events_of_other_names_are_no_evaluations() -> None:
    assert read(ON, name="feature_flag.changed").configured is None


def test_without_a_rule_no_event_is_looked_at() -> None:
    plain = Settings(arms={VARIANT: {"on": ArmRule(arm=Arm.CONTROL)}})

    assert read(ON, settings=plain).configured is None
    assert not Reader(plain).flags


def test_an_attribute_of_that_name_and_an_arm_of_the_span_win() -> None:
    assert resolved(read(ON, **{"feature_flag.memory": "off"})).arm is Arm.CONTROL
    assert resolved(read(ON, **{"turnavoid.arm": "control"})).variant is None


def test_the_same_evaluation_twice_is_one() -> None:
    fact = resolved(read(ON, ON))

    assert (fact.arm, fact.faults) == (Arm.EXACT_REUSE, ())


def test_two_variants_in_one_span_are_refused() -> None:
    run = assemble("r", [read(OFF, ON)], (), RULES)

    assert Rejection.VOCABULARY in run.rejections
    assert run.problems[0].endswith(
        "feature_flag.memory: one span was given several variants: 'off', 'on'"
    )


def test_two_variants_in_one_run_are_two_arms() -> None:
    run = assemble("r", [read(OFF), read(ON, span_id=2)], (), RULES)

    assert Rejection.RUN_ID_REUSED in run.rejections


def test_an_evaluation_is_configuration_and_no_evidence() -> None:
    assert encode_evidence(read(ON)) == encode_evidence(read(ON, settings=Settings()))
