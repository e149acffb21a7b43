"""Which arm a run is in, without a change of code: flags, environment, resource."""

from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid import invoke
from otel_turnavoid.testing import Telemetry

pytest.importorskip("openfeature")

from openfeature import api
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

ARMS = {"off": "control", "on": {"arm": "exact-reuse", "variant": "memory-v2"}}


@pytest.fixture
def flags() -> Any:
    api.set_provider(
        InMemoryProvider(
            {
                "memory": InMemoryFlag("on", {"on": True, "off": False}),
                "arm": InMemoryFlag("fused-batch", {"fused-batch": "b", "control": "c"}),
            }
        )
    )
    yield api.get_client()
    api.shutdown()


def said(telemetry: Telemetry, **given: Any) -> dict[str, Any]:
    given.setdefault("tracer_provider", telemetry.tracer_provider)
    with invoke("a", **given):
        pass
    return dict(telemetry.spans[-1].attributes or {})


def test_an_openfeature_evaluation_assigns_the_arm(telemetry: Telemetry, flags: Any) -> None:
    details = flags.get_boolean_details("memory", default_value=False)
    found = said(telemetry, flag=details, arms=ARMS)

    assert {key: found[key] for key in found if key.startswith("feature_flag.")} == {
        "feature_flag.key": "memory",
        "feature_flag.result.variant": "on",
        "feature_flag.result.value": True,
        "feature_flag.result.reason": "static",
    }
    assert found["turnavoid.arm"] == "exact-reuse"
    assert found["turnavoid.variant"] == "memory-v2"
    assert found["turnavoid.experiment.id"] == "memory"


def test_variants_named_as_the_arms_need_no_map(telemetry: Telemetry, flags: Any) -> None:
    details = flags.get_string_details("arm", default_value="")

    assert said(telemetry, flag=details)["turnavoid.arm"] == "fused-batch"


def test_a_failed_evaluation_assigns_no_arm_even_where_the_environment_has_one(
    telemetry: Telemetry, flags: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNAVOID_ARM", "control")
    details = flags.get_boolean_details("no such flag", default_value=True)
    found = said(telemetry, flag=details, arms={"true": "control"})

    assert "turnavoid.arm" not in found
    assert found["error.type"] == "flag_not_found"


@pytest.mark.parametrize(
    ("attributes", "arm"),
    [
        ({"feature_flag.key": "memory", "feature_flag.result.variant": "off"}, "control"),
        ({"feature_flag.key": "memory", "feature_flag.variant": "on"}, "exact-reuse"),
        ({"feature_flag.key": "memory", "feature_flag.result.value": "on"}, "exact-reuse"),
    ],
)
def test_so_do_attributes_of_the_conventions(
    telemetry: Telemetry, attributes: dict[str, str], arm: str
) -> None:
    assert said(telemetry, flag=attributes, arms=ARMS)["turnavoid.arm"] == arm


def test_a_decorated_agent_asks_at_the_start_of_each_run(telemetry: Telemetry) -> None:
    variants = iter(["off", "on"])

    def evaluate() -> dict[str, str]:
        return {"feature_flag.key": "memory", "feature_flag.result.variant": next(variants)}

    @invoke(flag=evaluate, arms=ARMS, tracer_provider=telemetry.tracer_provider)
    def agent() -> None: ...

    agent()
    agent()
    arms = [span.attributes["turnavoid.arm"] for span in telemetry.spans]
    assert arms == ["control", "exact-reuse"]


def test_a_boolean_without_a_variant_is_mapped_by_its_value(telemetry: Telemetry) -> None:
    flag = {"feature_flag.key": "memory", "feature_flag.result.value": False}

    assert said(telemetry, flag=flag, arms={"false": "control"})["turnavoid.arm"] == "control"


ENVIRONMENT = {
    "TURNAVOID_ARM": "exact-reuse",
    "TURNAVOID_VARIANT": "v",
    "TURNAVOID_EXPERIMENT": "e",
    "TURNAVOID_UNIT": "u",
    "TURNAVOID_MECHANISM": "exact-reuse",
    "TURNAVOID_LIFECYCLE": "realized",
    "TURNAVOID_REASON": "exact-match",
}
MEANT = {
    "turnavoid.arm": "exact-reuse",
    "turnavoid.variant": "v",
    "turnavoid.experiment.id": "e",
    "turnavoid.unit.id": "u",
    "turnavoid.mechanism": "exact-reuse",
    "turnavoid.lifecycle": "realized",
    "turnavoid.reason": "exact-match",
}


def test_everything_may_stand_in_the_environment(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    found = said(telemetry)
    assert {key: found.get(key) for key in MEANT} == MEANT


def test_or_on_the_resource() -> None:
    telemetry = Telemetry(resource=MEANT)

    found = said(telemetry)
    assert {key: found.get(key) for key in MEANT} == MEANT


def test_a_control_on_the_resource_says_what_every_control_says() -> None:
    found = said(Telemetry(resource={"turnavoid.arm": "control"}))

    assert found["turnavoid.lifecycle"] == "realized"
    assert found["turnavoid.mechanism"] == "control"


def test_parameters_come_before_the_flag_the_environment_and_the_resource(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telemetry = Telemetry(resource={"turnavoid.arm": "control", "turnavoid.unit.id": "resource"})
    monkeypatch.setenv("TURNAVOID_ARM", "control")
    monkeypatch.setenv("TURNAVOID_EXPERIMENT", "environment")
    flag = {"feature_flag.key": "flag", "feature_flag.result.variant": "fused-batch"}

    found = said(telemetry, flag=flag, variant="given")
    assert found["turnavoid.arm"] == "fused-batch"
    assert found["turnavoid.variant"] == "given"
    assert found["turnavoid.experiment.id"] == "flag"
    assert found["turnavoid.unit.id"] == "resource"
    assert said(telemetry, flag=flag, arm="exact-reuse")["turnavoid.arm"] == "exact-reuse"
