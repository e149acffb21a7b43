"""What the operator's configuration says about spans that do not say it themselves."""

from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.facts import Fault, InvokeDetail, SpanFact, encode_evidence, resolved
from otel_turnavoid.judge.settings import ArmRule, PurposeRule, Settings
from otel_turnavoid.vocabulary import (
    Arm,
    Entry,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    Rejection,
)

CONTROL = ArmRule(arm=Arm.CONTROL)
FUSED = ArmRule(
    arm=Arm.FUSED_BATCH,
    variant="v",
    experiment="e",
    mechanism=Mechanism.FUSED_BATCH,
    lifecycle=Lifecycle.REALIZED,
    reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
)
ARMS = Settings(arms={"deployment.arm": {"old": CONTROL, "new": FUSED, "true": FUSED, "7": FUSED}})


def read(
    settings: Settings,
    attributes: dict[str, Any],
    resource: dict[str, Any] | None = None,
    scope: str = "s",
) -> SpanFact:
    found = Reader(settings).read(
        SpanView(
            trace_id="a" * 32,
            span_id="b" * 16,
            scope=scope,
            attributes={"gen_ai.operation.name": "invoke_agent", **attributes},
            resource=resource or {},
        )
    )
    assert isinstance(found, SpanFact)
    return resolved(found)


def test_what_the_configuration_adds_is_no_part_of_the_evidence() -> None:
    view = SpanView(
        trace_id="a" * 32,
        span_id="b" * 16,
        scope="s",
        attributes={"gen_ai.operation.name": "chat", "deployment.arm": "new"},
    )
    plain, configured = Reader().read(view), Reader(ARMS).read(view)

    assert isinstance(plain, SpanFact)
    assert isinstance(configured, SpanFact)
    assert configured != plain
    assert encode_evidence(configured) == encode_evidence(plain)


def test_a_call_too_carries_what_a_rule_says_of_its_run() -> None:
    """A run of others may have no span for its Invoke."""
    found = read(ARMS, {"gen_ai.operation.name": "chat", "deployment.arm": "new"})

    assert found.invoke == InvokeDetail(
        mechanism=Mechanism.FUSED_BATCH,
        lifecycle=Lifecycle.REALIZED,
        reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
    )


@pytest.mark.parametrize("value", ["new", True, 7])
def test_an_attribute_value_can_name_the_arm_and_what_was_changed(value: object) -> None:
    found = read(ARMS, {"deployment.arm": value})

    assert (found.arm, found.variant, found.experiment) == (Arm.FUSED_BATCH, "v", "e")
    assert found.invoke == InvokeDetail(
        mechanism=Mechanism.FUSED_BATCH,
        lifecycle=Lifecycle.REALIZED,
        reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
    )


def test_the_attribute_may_stand_on_the_resource_and_the_span_outweighs_it() -> None:
    assert read(ARMS, {}, {"deployment.arm": "new"}).arm is Arm.FUSED_BATCH
    assert read(ARMS, {"deployment.arm": "old"}, {"deployment.arm": "new"}).arm is Arm.CONTROL


def test_a_call_without_an_invoke_gets_the_arm_too() -> None:
    found = read(ARMS, {"gen_ai.operation.name": "chat", "deployment.arm": "new"})

    assert (found.entry, found.arm, found.variant) == (Entry.LLM_CALL, Arm.FUSED_BATCH, "v")


def test_a_value_that_is_not_listed_says_nothing() -> None:
    assert read(ARMS, {"deployment.arm": "New"}).arm is None


def test_what_the_span_says_itself_stands() -> None:
    found = read(
        ARMS,
        {
            "turnavoid.arm": "fused-batch",
            "turnavoid.variant": "mine",
            "turnavoid.lifecycle": "attempted",
            "deployment.arm": "new",
        },
    )

    assert (found.variant, found.experiment) == ("mine", "e")
    assert found.invoke == InvokeDetail(
        mechanism=Mechanism.FUSED_BATCH,
        lifecycle=Lifecycle.ATTEMPTED,
        reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
    )


def test_a_rule_for_another_arm_than_the_span_says_does_not_apply() -> None:
    found = read(ARMS, {"turnavoid.arm": "control", "deployment.arm": "new"})

    assert (found.arm, found.variant, found.invoke) == (Arm.CONTROL, None, InvokeDetail())


def test_a_configured_attribute_does_not_make_a_span_one_about_agents() -> None:
    view = SpanView(trace_id="a" * 32, span_id="b" * 16, attributes={"deployment.arm": "new"})

    assert Reader(ARMS).read(view) is None


def test_a_scope_can_have_a_run_id_of_its_own_name() -> None:
    settings = Settings(runs={"s": "thread.id"})

    assert read(settings, {"thread.id": "t-1"}).run_id == "t-1"
    assert read(settings, {"thread.id": 5}).run_id == "5"
    assert read(settings, {}, {"thread.id": "t-2"}).run_id == "t-2"
    assert read(settings, {"thread.id": "t-1"}, scope="other").run_id is None
    assert read(settings, {"thread.id": "t-1", "turnavoid.run.id": "r"}).run_id == "r"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            f"trace:{'a' * 32}/{'b' * 16}",
            "names no run: trace: starts the ids of runs that are made from traces",
        ),
        ("a\nb", "names no run: has control characters: 'a\\nb'"),
        ("  ", "names no run: want a name, got an empty one"),
        ("a\n", "names no run: has surrounding space: 'a\\n'"),
    ],
)
def test_a_configured_run_id_cannot_pass_for_that_of_another_run(given: str, problem: str) -> None:
    found = read(Settings(runs={"s": "thread.id"}), {"thread.id": given})

    assert found.run_id is None
    assert found.faults == (Fault(Rejection.VOCABULARY, "thread.id", problem),)


def test_a_call_without_a_purpose_gets_that_of_the_first_rule_it_fulfils() -> None:
    settings = Settings(
        purposes=(
            PurposeRule(attribute="gen_ai.agent.name", equals="judge", purpose=Purpose.VALIDATION),
            PurposeRule(attribute="title", equals="true", purpose=Purpose.SIDE),
        )
    )
    chat = {"gen_ai.operation.name": "chat"}

    def purpose(attributes: dict[str, Any]) -> Purpose | None:
        call = read(settings, {**chat, **attributes}).call
        assert call is not None
        return call.purpose

    assert purpose({}) is None
    assert purpose({"title": True}) is Purpose.SIDE
    assert purpose({"title": True, "gen_ai.agent.name": "judge"}) is Purpose.VALIDATION
    assert purpose({"title": True, "turnavoid.call.purpose": "agent"}) is Purpose.AGENT


DIGEST = Settings(digest=("task", "state"))


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("cancel order 42", '"cancel order 42"'),
        ('{"b": 1.0, "a": [true, null]}', '{"a":[true,null],"b":1}'),
        (' [ "x" ]', '["x"]'),
        ("[see below", None),
        ('{"a": "cut he', None),
        ('{"a": 1} and more', None),
        (["a", 1], '["a",1]'),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        (5, "5"),
        (True, "true"),
        ("", '""'),
        ("5", '"5"'),
        (b"bytes", None),
        (float("nan"), None),
        (2**60, None),
    ],
)
def test_values_that_make_a_digest_are_kept_as_canonical_json_or_refused(
    value: object, canonical: str | None
) -> None:
    found = read(DIGEST, {"task": value})

    if canonical is None:
        assert found.digest_parts == {}
        assert [(fault.cause, fault.attribute) for fault in found.faults] == [
            (Rejection.DIGEST, "task")
        ]
    else:
        assert (found.digest_parts, found.faults) == ({"task": canonical}, ())


def test_a_cut_value_says_so() -> None:
    [fault] = read(DIGEST, {"task": '{"a": "cut he'}).faults

    assert fault.problem == (
        "cannot identify an input: cut or broken JSON (Input data was truncated); "
        'got \'{"a": "cut he\''
    )


def test_a_digest_of_the_span_itself_makes_the_configured_one_unnecessary() -> None:
    found = read(DIGEST, {"task": "x", "turnavoid.input.digest": "sha256:" + "ab" * 32})

    assert found.digest_parts == {}


def test_all_configured_keys_are_wanted_from_the_wire() -> None:
    settings = Settings(
        arms={"k.arm": {}},
        digest=("k.digest",),
        runs={"s": "k.run"},
        purposes=(PurposeRule(attribute="k.purpose", equals="x", purpose=Purpose.SIDE),),
    )

    assert Reader(settings).wanted - Reader().wanted == {
        "k.arm",
        "k.digest",
        "k.run",
        "k.purpose",
    }
