"""Bad use raises in development; in production it is logged once, counted, and harmless."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from otel_turnavoid import agent_turn, current_call, hop, invoke, llm_call, resume, tool_turn
from otel_turnavoid.errors import UsageError
from otel_turnavoid.instrument import misuses
from otel_turnavoid.testing import Telemetry

T = Telemetry


def in_run(t: T, **said: Any) -> Any:
    return invoke("a", tracer_provider=t.tracer_provider, **said)


def call(t: T) -> Any:
    with in_run(t), agent_turn(), llm_call("m") as handle:
        return handle


def arm(t: T) -> None:
    with in_run(t, arm="Control"):
        pass


def kind(t: T) -> None:
    with in_run(t, kind="cron"):
        pass


def mechanism(t: T) -> None:
    with in_run(t, mechanism="magic"):
        pass


def lifecycle(t: T) -> None:
    with in_run(t) as run:
        run.set(lifecycle="counterfactual-only")


def empty_input(t: T) -> None:
    with in_run(t, arm="control", input=""):
        pass


def unhashable_input(t: T) -> None:
    with in_run(t, arm="control", input={1, 2}):
        pass


def bad_digest(t: T) -> None:
    with in_run(t, arm="control", digest="sha256:ABC"):
        pass


def input_and_digest(t: T) -> None:
    with in_run(t, input="x", digest="sha256:" + "0a" * 32):
        pass


def leakage(t: T) -> None:
    with in_run(t, turn_index=2, decision_basis=2):
        pass


def basis_alone(t: T) -> None:
    with in_run(t, decision_basis=0):
        pass


def tool_outside(t: T) -> None:
    with tool_turn("t"):
        pass


def turn_outside(t: T) -> None:
    with agent_turn():
        pass


def call_outside(t: T) -> None:
    with llm_call("m", purpose="side"):
        pass


def changed_input(t: T) -> None:
    with in_run(t), agent_turn():
        for question in ("a", "b"):
            with llm_call("m", input=question):
                pass


def realized_after_invalidated(t: T) -> None:
    with in_run(t) as run:
        run.invalidated()
        run.realized()


def hop_outside(t: T) -> None:
    with hop():
        pass


def unmapped_flag(t: T) -> None:
    flag = {"feature_flag.key": "f", "feature_flag.result.variant": "green"}
    with in_run(t, flag=flag, arms={"blue": "control"}):
        pass


def no_flag(t: T) -> None:
    with in_run(t, flag="on"):
        pass


def resumed_inside(t: T) -> None:
    with in_run(t) as run:
        handover = run.pause()
    with in_run(t), resume(handover, tracer_provider=t.tracer_provider):
        pass


def entry_after_the_pause(t: T) -> None:
    with in_run(t) as run:
        run.pause()
        with tool_turn("t"):
            pass


def attempt(t: T) -> None:
    with in_run(t), agent_turn(), llm_call("m", attempt=0):
        pass


def tokens(t: T) -> None:
    with in_run(t), agent_turn(), llm_call("m") as handle:
        handle.usage(input=-1)


def cost(t: T) -> None:
    with in_run(t) as run:
        run.cost(float("nan"))


def after_the_end(t: T) -> None:
    call(t).usage(input=1)


def entry_after_the_run(t: T) -> None:
    with in_run(t) as run:
        pass
    with run.attached(), tool_turn("t"):
        pass


def other_run_inside(t: T) -> None:
    with in_run(t, run_id="r"), invoke("b", run_id="q"):
        pass


def other_arm_inside(t: T) -> None:
    with in_run(t, arm="control"), invoke("b", arm="fused-batch"):
        pass


def nothing_current(t: T) -> None:
    current_call().usage(input=1)


def on_a_classmethod(t: T) -> None:
    tool_turn(classmethod(print))


def on_a_class(t: T) -> None:
    tool_turn(dict)


def model_is_no_text(t: T) -> None:
    with in_run(t), agent_turn(), llm_call(5):  # type: ignore[type-var]
        pass


def tool_without_name(t: T) -> None:
    with in_run(t), tool_turn(""):
        pass


def run_id_is_no_text(t: T) -> None:
    with in_run(t, run_id=UUID(int=1)):
        pass


def finish_reason_alone(t: T) -> None:
    call_scope = llm_call("m")
    with in_run(t), agent_turn(), call_scope as handle:
        handle.set(finish_reasons="stop")


def input_that_raises(t: T) -> None:
    class Task(dict):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise OSError("secret")

        keys = items = __iter__

    with in_run(t, input=Task(a=1)):
        pass


def no_such_parameter(t: T) -> None:
    invoke(input_from="task")(lambda: None)()


CASES = [
    (arm, "vocabulary", "turnavoid.arm is one of control, exact-reuse, fused-batch, got 'Control'"),
    (kind, "vocabulary", "turnavoid.invoke.kind is one of user_send, .* got 'cron'"),
    (mechanism, "vocabulary", "turnavoid.mechanism is one of control, .* got 'magic'"),
    (lifecycle, "vocabulary", "turnavoid.lifecycle is one of .* got 'counterfactual-only'"),
    (empty_input, "digest", r"turnavoid.input.digest: an empty input \(''\) has no digest"),
    (unhashable_input, "digest", "turnavoid.input.digest: not expressible as canonical JSON"),
    (bad_digest, "digest", "want sha256: and 64 lowercase hex digits, got 'sha256:ABC'"),
    (input_and_digest, "value", "an invoke takes its input or its digest, not both"),
    (leakage, "leakage", "is below turnavoid.turn.index 2, got 2"),
    (basis_alone, "value", "basis_through_turn says nothing without a turn index"),
    (tool_outside, "outside", "tool_turn outside an invoke belongs to no run"),
    (turn_outside, "outside", "agent_turn outside an invoke belongs to no run"),
    (call_outside, "outside", "llm_call outside an invoke belongs to no run"),
    (changed_input, "turn", "the input changed inside an agent_turn"),
    (realized_after_invalidated, "lifecycle", "cannot become realized after invalidated"),
    (hop_outside, "outside", "a hop outside an invoke belongs to no run"),
    (unmapped_flag, "value", "arms has no word for 'green' of flag 'f'"),
    (no_flag, "value", "a flag has a key and a variant or value, got 'on'"),
    (resumed_inside, "value", "a run is resumed by itself, not inside another run"),
    (entry_after_the_pause, "ended", "tool_turn after the invoke of its run had ended"),
    (attempt, "value", "turnavoid.call.attempt is a whole number from 1, got 0"),
    (tokens, "value", "gen_ai.usage.input_tokens is a whole number from 0, got -1"),
    (cost, "value", "turnavoid.cost.usd is a finite number from 0, got nan"),
    (after_the_end, "ended", "input_tokens was set after its llm_call had ended"),
    (entry_after_the_run, "ended", "tool_turn after the invoke of its run had ended"),
    (other_run_inside, "value", "turnavoid.run.id 'q' inside a run where it is 'r'"),
    (other_arm_inside, "value", "turnavoid.arm 'fused-batch' inside a run where it is 'control'"),
    (nothing_current, "outside", "there is no open llm_call here"),
    (on_a_classmethod, "function", "cannot decorate a classmethod: .* below @classmethod"),
    (on_a_class, "function", "cannot decorate the class dict"),
    (model_is_no_text, "value", "gen_ai.request.model is text that is not empty, got 5"),
    (tool_without_name, "value", "gen_ai.tool.name is text that is not empty, got ''"),
    (run_id_is_no_text, "value", r"turnavoid.run.id is text that is not empty, got UUID\("),
    (finish_reason_alone, "value", "finish_reasons is a list of texts, got 'stop'"),
    (input_that_raises, "digest", "turnavoid.input.digest: the input could not be read: OSError"),
    (no_such_parameter, "function", "has no parameter 'task'"),
]
case = pytest.mark.parametrize(
    ("misuse", "counted", "problem"), CASES, ids=[function.__name__ for function, *_ in CASES]
)


@case
def test_in_development_it_raises(
    telemetry: Telemetry, misuse: Callable[[T], None], counted: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        misuse(telemetry)


@case
@pytest.mark.usefixtures("production")
def test_in_production_it_is_counted_and_logged_once(
    telemetry: Telemetry,
    caplog: pytest.LogCaptureFixture,
    misuse: Callable[[T], None],
    counted: str,
    problem: str,
) -> None:
    misuse(telemetry)
    misuse(telemetry)

    assert misuses() == {counted: 2}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    caplog.clear()
    with pytest.raises(UsageError, match=problem):
        raise UsageError(record.getMessage())


@pytest.mark.usefixtures("production")
class TestWhatProductionRecords:
    def test_a_wrong_word_is_recorded_as_given_so_that_the_run_is_refused(
        self, telemetry: Telemetry
    ) -> None:
        arm(telemetry)
        assert telemetry.spans[0].attributes["turnavoid.arm"] == "Control"

    def test_leakage_is_recorded_so_that_the_run_is_refused(self, telemetry: Telemetry) -> None:
        leakage(telemetry)
        assert telemetry.spans[0].attributes["turnavoid.decision.basis_through_turn"] == 2

    @pytest.mark.parametrize("misuse", [empty_input, unhashable_input, bad_digest])
    def test_a_run_without_a_usable_input_has_no_digest(
        self, telemetry: Telemetry, misuse: Callable[[T], None]
    ) -> None:
        misuse(telemetry)
        assert "turnavoid.input.digest" not in telemetry.spans[0].attributes

    def test_numbers_that_cannot_be_meant_are_unknown(self, telemetry: Telemetry) -> None:
        tokens(telemetry)
        assert "gen_ai.usage.input_tokens" not in telemetry.spans[0].attributes

    def test_a_bad_attempt_falls_back_to_counting(self, telemetry: Telemetry) -> None:
        attempt(telemetry)
        assert telemetry.spans[0].attributes["turnavoid.call.attempt"] == 1

    def test_a_stray_entry_carries_no_run_and_no_number(
        self, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "opentelemetry.trace.get_tracer_provider", lambda: telemetry.tracer_provider
        )
        tool_outside(telemetry)
        attributes = telemetry.spans[0].attributes
        assert attributes["turnavoid.entry"] == "tool_turn"
        assert not {"turnavoid.run.id", "turnavoid.seq"} & set(attributes)

    def test_a_sub_agent_stays_in_the_run_that_caused_it(self, telemetry: Telemetry) -> None:
        other_run_inside(telemetry)
        other_arm_inside(telemetry)
        assert [s.attributes["turnavoid.run.id"] for s in telemetry.spans[:2]] == ["r", "r"]
        assert [s.attributes["turnavoid.arm"] for s in telemetry.spans[2:]] == ["control"] * 2

    def test_a_function_that_cannot_be_decorated_is_left_as_it_is(self) -> None:
        assert tool_turn(dict) is dict


@pytest.mark.parametrize("mode", ["production", "", "Development", "anything"])
@pytest.mark.usefixtures("production")
def test_only_development_raises(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("TURNAVOID_MODE", mode)
    current_call()
    assert misuses() == {"outside": 1}
