"""Costs from a maintained price library, where asked for."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest

from otel_turnavoid import agent_turn, invoke, llm_call
from otel_turnavoid.errors import UsageError
from otel_turnavoid.testing import Telemetry

genai_prices = pytest.importorskip("genai_prices")


def cost(telemetry: Telemetry, *, model: str = "gpt-4o", stated: float | None = None) -> Any:
    with (
        invoke("a", prices=True, tracer_provider=telemetry.tracer_provider),
        agent_turn(),
        llm_call(model, provider="openai") as call,
    ):
        call.usage(input=1000, output=100, cache_read=200)
        if stated is not None:
            call.cost(stated)
    return telemetry.spans[0].attributes.get("turnavoid.cost.usd")


def test_a_call_is_priced_by_its_usage(telemetry: Telemetry) -> None:
    usage = genai_prices.Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=200)
    expected = genai_prices.calc_price(usage, model_ref="gpt-4o", provider_id="openai").total_price

    assert isinstance(expected, Decimal)
    assert cost(telemetry) == float(expected) > 0


def test_a_stated_cost_stands(telemetry: Telemetry) -> None:
    assert cost(telemetry, stated=0.5) == 0.5


def test_a_model_without_a_price_has_no_cost(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    assert cost(telemetry, model="nobody's-model") is None
    assert 'no price is known for model "nobody\'s-model"' in caplog.text


def test_a_call_without_usage_has_no_cost(telemetry: Telemetry) -> None:
    with (
        invoke("a", prices=True, tracer_provider=telemetry.tracer_provider),
        agent_turn(),
        llm_call("gpt-4o"),
    ):
        pass

    assert "turnavoid.cost.usd" not in telemetry.spans[0].attributes


def test_by_default_nothing_is_priced_unless_the_environment_asks_for_it(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with (
            invoke("a", tracer_provider=telemetry.tracer_provider),
            agent_turn(),
            llm_call("gpt-4o") as call,
        ):
            call.usage(input=1, output=1)
        monkeypatch.setenv("TURNAVOID_PRICES", "true")

    calls = [span for span in telemetry.spans if span.name == "chat gpt-4o"]
    assert ["turnavoid.cost.usd" in span.attributes for span in calls] == [False, True]


def test_one_call_can_be_priced_by_hand(telemetry: Telemetry) -> None:
    with (
        invoke("a", tracer_provider=telemetry.tracer_provider),
        agent_turn(),
        llm_call("asked") as call,
    ):
        call.set(model="gpt-4o", provider="openai")
        call.usage(input=10, output=1)
        call.price()

    assert telemetry.spans[0].attributes["turnavoid.cost.usd"] > 0


def test_without_the_library_it_says_what_to_install(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(UsageError, match=r"pip install 'otel-turnavoid\[prices\]'"):
        cost(telemetry)
