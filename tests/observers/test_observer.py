from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import _logs

from otel_turnavoid import Observer, observe_effects
from otel_turnavoid.errors import UsageError
from otel_turnavoid.testing import START_NS, Telemetry


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(service="orders-observer", instance="obs-1")


def test_an_observation_is_an_event_with_the_contracts_attributes(telemetry: Telemetry) -> None:
    observer = Observer("orders-db/v1", logger_provider=telemetry.logger_provider)

    observer.observe("r1", ["order:42=cancelled", "mail:a@b.example"], timestamp_ns=START_NS)

    (data,) = telemetry.records
    assert data.log_record.event_name == "turnavoid.effects.observed"
    assert dict(data.log_record.attributes or {}) == {
        "turnavoid.run.id": "r1",
        "turnavoid.observer.id": "orders-db/v1",
        "turnavoid.effects.labels": ("order:42=cancelled", "mail:a@b.example"),
    }
    assert (data.log_record.timestamp, data.log_record.observed_timestamp) == (START_NS, START_NS)
    assert data.resource.attributes["service.name"] == "orders-observer"


def test_where_only_traces_are_carried_it_is_a_span(telemetry: Telemetry) -> None:
    observer = Observer("orders-db/v1", tracer_provider=telemetry.tracer_provider)

    observer.observe("r1", ["order:42=cancelled"], timestamp_ns=START_NS)

    (span,) = telemetry.spans
    assert span.name == "turnavoid.effects.observed"
    assert span.parent is None
    assert (span.start_time, span.end_time) == (START_NS, START_NS)
    assert dict(span.attributes or {}) == {
        "turnavoid.run.id": "r1",
        "turnavoid.observer.id": "orders-db/v1",
        "turnavoid.effects.labels": ("order:42=cancelled",),
    }


@pytest.mark.parametrize(
    ("labels", "stated"),
    [
        ([], ()),
        (["b", "a", "b"], ("b", "b", "a")),
        (("a",), ("a",)),
        (iter(["a", "b"]), ("a", "b")),
        (Counter({"a": 2, "b": 1}), ("a", "a", "b")),
        ({"a": 2, "never": 0}, ("a", "a")),
    ],
    ids=["none", "list", "tuple", "iterator", "counter", "mapping"],
)
def test_effects_are_a_multiset(telemetry: Telemetry, labels: Any, stated: tuple[str, ...]) -> None:
    Observer("o", logger_provider=telemetry.logger_provider).observe("r", labels)

    attributes = telemetry.records[0].log_record.attributes or {}
    assert attributes["turnavoid.effects.labels"] == stated


@pytest.mark.parametrize(
    ("run_id", "labels", "problem"),
    [
        ("r", [""], "an effect label is text that is not empty .*, got ''"),
        ("r", [" a"], "an effect label .* no space around it, got ' a'"),
        ("r", ["a\n"], r"an effect label .* no space around it, got 'a\\n'"),
        ("r", [7], "an effect label is text .*, got 7"),
        ("r", "order:42", "labels are a list of labels, got the text 'order:42'"),
        ("r", {"a": -1}, "how often 'a' happened is a whole number, got -1"),
        ("r", {"a": 0.5}, "how often 'a' happened is a whole number, got 0.5"),
        ("", ["a"], "a run id is text that is not empty .*, got ''"),
        (None, ["a"], "a run id is text .*, got None"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_not_sent(
    telemetry: Telemetry, run_id: Any, labels: Any, problem: str
) -> None:
    observer = Observer("o", logger_provider=telemetry.logger_provider)

    with pytest.raises(UsageError, match=problem):
        observer.observe(run_id, labels)
    assert not telemetry.records


def test_an_observer_has_a_name() -> None:
    with pytest.raises(UsageError, match="an observer id is text that is not empty"):
        Observer(" ")


def test_an_observer_sends_one_way(telemetry: Telemetry) -> None:
    with pytest.raises(UsageError, match="events or spans: give one provider, not both"):
        Observer(
            "o",
            logger_provider=telemetry.logger_provider,
            tracer_provider=telemetry.tracer_provider,
        )


@pytest.fixture
def global_logs(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    monkeypatch.setattr(_logs._internal, "get_logger_provider", lambda: telemetry.logger_provider)
    return telemetry


def test_observe_effects_goes_to_the_global_provider(global_logs: Telemetry) -> None:
    observe_effects("r", ["a"], observer_id="o")

    (data,) = global_logs.records
    assert (data.log_record.attributes or {})["turnavoid.observer.id"] == "o"


def test_without_an_sdk_an_observation_goes_nowhere() -> None:
    observe_effects("r", ["a"], observer_id="o")


def test_ordered_effects_keep_their_order_and_say_so(telemetry: Telemetry) -> None:
    observer = Observer("o", logger_provider=telemetry.logger_provider)
    observer.observe("r", ["b", "a", "b"], ordered=True)

    attributes = telemetry.records[0].log_record.attributes or {}
    assert attributes["turnavoid.effects.labels"] == ("b", "a", "b")
    assert attributes["turnavoid.effects.ordered"] is True


def test_effects_are_not_ordered_unless_told(telemetry: Telemetry) -> None:
    Observer("o", logger_provider=telemetry.logger_provider).observe("r", ["a"])

    assert "turnavoid.effects.ordered" not in (telemetry.records[0].log_record.attributes or {})


def test_counts_have_no_order(telemetry: Telemetry) -> None:
    observer = Observer("o", logger_provider=telemetry.logger_provider)

    with pytest.raises(UsageError, match="ordered effects are a list"):
        observer.observe("r", {"a": 2}, ordered=True)


@pytest.mark.parametrize(
    ("as_span", "variable"),
    [
        (False, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
        (False, "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
        (True, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
        (True, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
    ],
)
def test_a_label_that_the_sdk_would_cut_short_is_not_sent(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, variable: str, *, as_span: bool
) -> None:
    """Cut to ten characters, an order that was cancelled is one that was confirmed."""
    providers = {
        False: {"logger_provider": telemetry.logger_provider},
        True: {"tracer_provider": telemetry.tracer_provider},
    }
    observer = Observer("db", **providers[as_span])  # type: ignore[arg-type]
    monkeypatch.setenv(variable, "10")

    with pytest.raises(UsageError) as caught:
        observer.observe("r1", ["order:42=cancelled"])

    assert str(caught.value) == (
        f"{variable}=10 would cut 'order:42=cancelled' short: unset it here"
    )
    assert (telemetry.records, telemetry.spans) == ((), ())


def test_a_limit_that_cuts_nothing_changes_nothing(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "18")

    Observer("db", logger_provider=telemetry.logger_provider).observe("r1", ["order:42=cancelled"])

    assert len(telemetry.records) == 1


def test_the_limit_for_records_goes_before_the_one_for_all(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10")
    monkeypatch.setenv("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100")

    Observer("db", logger_provider=telemetry.logger_provider).observe("r1", ["order:42=cancelled"])

    assert len(telemetry.records) == 1
