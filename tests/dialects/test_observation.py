from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from otel_turnavoid.dialects import Reader, Refusal, SpanView
from otel_turnavoid.judge.facts import Observation, SpanFact

ATTRIBUTES = {
    "turnavoid.run.id": "r",
    "turnavoid.observer.id": "orders-db/v1",
    "turnavoid.effects.labels": ["b", "a", "a"],
}


def read(
    attributes: dict[str, Any], name: str = "turnavoid.effects.observed"
) -> SpanFact | Observation | Refusal | None:
    return Reader().read(
        SpanView(
            trace_id="a" * 32,
            span_id="b" * 16,
            name=name,
            start_ns=1,
            end_ns=2,
            attributes=attributes,
            resource={"service.name": "billing", "service.instance.id": "i"},
        )
    )


OBSERVED = Observation(
    run_id="r",
    observer="orders-db/v1",
    labels=("b", "a", "a"),
    observed_ns=2,
    service="billing",
    instance="i",
)


def test_a_span_observes_at_its_end_and_keeps_order_and_repetition() -> None:
    assert read(ATTRIBUTES) == OBSERVED


@pytest.mark.parametrize(("stated", "ordered"), [(True, True), (False, False), (None, False)])
def test_an_observer_may_declare_its_list_ordered(*, stated: bool | None, ordered: bool) -> None:
    assert read({**ATTRIBUTES, "turnavoid.effects.ordered": stated}) == replace(
        OBSERVED, ordered=ordered
    )


def test_what_is_no_boolean_declares_nothing_and_is_refused() -> None:
    assert read({**ATTRIBUTES, "turnavoid.effects.ordered": "true"}) == Refusal(
        "turnavoid.effects.observed: turnavoid.effects.ordered: want a boolean,"
        " got a string of 4 characters"
    )


def test_a_span_with_effects_is_an_observation_whatever_its_name() -> None:
    assert read(ATTRIBUTES, name="look at the orders") == OBSERVED


def test_a_span_of_the_name_without_effects_is_refused() -> None:
    assert read({"turnavoid.run.id": "r", "turnavoid.observer.id": "o"}) == Refusal(
        "turnavoid.effects.observed: turnavoid.effects.labels: "
        "missing; want an array of strings, empty where nothing was seen"
    )


def test_an_entry_of_a_run_never_observes_it() -> None:
    """The agent is no observer: effects on one of its own entries are not evidence."""
    assert isinstance(read({**ATTRIBUTES, "turnavoid.entry": "tool_turn"}), SpanFact)


def test_resource_attributes_do_not_fill_what_an_observer_must_say() -> None:
    found = read({key: value for key, value in ATTRIBUTES.items() if key != "turnavoid.run.id"})

    assert found == Refusal("turnavoid.effects.observed: turnavoid.run.id: missing")
