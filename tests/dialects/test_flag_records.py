"""Arms from feature flags whose evaluations are sent as log records, or lie on other spans."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute
from otel_turnavoid.judge.facts import SpanFact, encode_evidence, resolved
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import ArmRule, Settings
from otel_turnavoid.otlp import Batch, read_logs, read_traces
from otel_turnavoid.vocabulary import Arm, Entry, Rejection

RULES = Settings(
    arms={
        "feature_flag.memory": {
            "off": ArmRule(arm=Arm.CONTROL),
            "on": ArmRule(arm=Arm.EXACT_REUSE, variant="v2", experiment="e"),
            "true": ArmRule(arm=Arm.FUSED_BATCH),
        }
    }
)
KEY, VARIANT = "feature_flag.key", "feature_flag.result.variant"
ON = {KEY: "memory", VARIANT: "on"}
OFF = {KEY: "memory", VARIANT: "off"}
TRACE = b"t" * 16
AGENT, CHAT, OTHER = (bytes([number]) * 8 for number in (1, 2, 9))


def any_value(given: Any) -> AnyValue:
    if isinstance(given, dict):
        return AnyValue(kvlist_value=KeyValueList(values=pairs(given)))
    if isinstance(given, bool):
        return AnyValue(bool_value=given)
    return AnyValue(string_value=given)


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(given)) for key, given in attributes.items()]


def records(  # noqa: PLR0913 - knobs, each with a default
    *evaluations: dict[str, Any],
    settings: Settings = RULES,
    name: str = "feature_flag.evaluation",
    span_id: bytes = AGENT,
    trace_id: bytes = TRACE,
    at: int = 5,
    body: Any = None,
) -> Batch:
    """Read log records that happened in this span."""
    sent = [
        LogRecord(
            time_unix_nano=at,
            event_name=name,
            attributes=pairs(said),
            trace_id=trace_id,
            span_id=span_id,
            body=None if body is None else any_value(body),
        )
        for said in evaluations
    ]
    scope = InstrumentationScope(name="flags")
    logs = [ResourceLogs(scope_logs=[ScopeLogs(scope=scope, log_records=sent)])]
    return read_logs(
        ExportLogsServiceRequest(resource_logs=logs).SerializeToString(), Reader(settings)
    )


def one(*evaluations: dict[str, Any], **options: Any) -> SpanFact:
    [fact] = records(*evaluations, **options).facts
    return resolved(fact)


def span(
    span_id: bytes,
    parent: bytes = b"",
    at: tuple[int, int] = (0, 10),
    events: tuple[dict[str, Any], ...] = (),
    **said: str,
) -> Span:
    return Span(
        trace_id=TRACE,
        span_id=span_id,
        parent_span_id=parent,
        start_time_unix_nano=at[0],
        end_time_unix_nano=at[1],
        attributes=pairs({key.replace("_", ".", 1): value for key, value in said.items()}),
        events=[Span.Event(name="feature_flag.evaluation", attributes=pairs(e)) for e in events],
    )


def agent(span_id: bytes = AGENT, at: tuple[int, int] = (0, 10), **options: Any) -> Span:
    found = span(span_id, at=at, **options)
    found.attributes.extend(pairs({"gen_ai.operation.name": "invoke_agent"}))
    return found


def chat(parent: bytes = AGENT, **options: Any) -> Span:
    found = span(CHAT, parent, at=(1, 9), **options)
    found.attributes.extend(pairs({"gen_ai.operation.name": "chat"}))
    return found


def facts(*spans: Span, settings: Settings = RULES) -> list[SpanFact]:
    request = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]
    )
    return read_traces(request.SerializeToString(), Reader(settings)).facts


def runs(*known: SpanFact) -> dict[str, Run]:
    return {
        run_id: assemble(run_id, members, (), RULES)
        for run_id, members in attribute(known).runs.items()
    }


def run(*known: SpanFact) -> Run:
    [found] = runs(*known).values()
    return found


class TestRecord:
    @pytest.mark.parametrize(
        ("name", "evaluation", "body"),
        [
            ("feature_flag.evaluation", ON, None),
            ("feature_flag", {KEY: "memory", "feature_flag.variant": "on"}, None),
            ("", ON | {"event.name": "feature_flag.evaluation"}, None),
            ("feature_flag.evaluation", {KEY: "memory", "feature_flag.result.value": "on"}, None),
            ("feature_flag.evaluation", {KEY: "memory"}, {"value": "on"}),
            ("feature_flag.evaluation", ON, {"value": "off"}),
        ],
    )
    def test_names_the_arm_in_new_and_old_spelling(
        self, name: str, evaluation: dict[str, Any], body: Any
    ) -> None:
        fact = one(evaluation, name=name, body=body)

        assert (fact.arm, fact.variant, fact.experiment) == (Arm.EXACT_REUSE, "v2", "e")

    def test_a_value_that_is_no_text_is_read_as_configuration_spells_it(self) -> None:
        assert one({KEY: "memory"}, body={"value": True}).arm is Arm.FUSED_BATCH

    def test_is_a_fact_below_its_span_that_counts_nothing(self) -> None:
        fact = one(ON)

        assert (fact.trace_id, fact.parent_id) == (TRACE.hex(), AGENT.hex())
        assert (fact.entry, fact.own, fact.scope) == (None, False, "flags")
        assert (fact.start_ns, fact.end_ns) == (5, 5)

    @pytest.mark.parametrize(
        "evaluation",
        [
            ON | {KEY: "other"},
            ON | {"error.type": "provider_not_ready"},
            {KEY: "memory"},
            {VARIANT: "on"},
        ],
    )
    def test_of_another_flag_or_failed_is_ignored(self, evaluation: dict[str, Any]) -> None:
        assert records(evaluation) == Batch(records=1, ignored=1)

    @pytest.mark.parametrize("trace_id", [b"", bytes(16), b"short"])
    def test_without_a_trace_is_ignored(self, trace_id: bytes) -> None:
        assert records(ON, trace_id=trace_id) == Batch(records=1, ignored=1)

    def test_of_another_name_is_no_evaluation(self) -> None:
        assert records(ON, name="feature_flag.changed") == Batch(records=1, ignored=1)

    def test_is_not_looked_at_without_a_rule(self) -> None:
        assert records(ON, settings=Settings()) == Batch(records=1, ignored=1)

    def test_beyond_what_a_ledger_holds_in_time_is_refused(self) -> None:
        assert records(ON, at=2**63).problem == (
            "log records refused: 1; feature_flag.evaluation: time: lies beyond the year 2262 (1)"
        )

    def test_sent_again_is_the_same_fact(self) -> None:
        assert records(ON).facts == records(ON).facts

    def test_is_the_same_evidence_under_any_configuration(self) -> None:
        other = Settings(
            arms={"feature_flag.memory": {"on": ArmRule(arm=Arm.CONTROL)}},
            digest=("feature_flag.version",),
        )

        [before], [after] = records(ON).facts, records(ON, settings=other).facts
        assert encode_evidence(before) == encode_evidence(after)
        assert resolved(before).arm is not resolved(after).arm

    @pytest.mark.parametrize(
        "changed",
        [{"at": 6}, {"span_id": CHAT}, {"trace_id": b"u" * 16}],
        ids=["time", "span", "trace"],
    )
    def test_elsewhere_is_another_fact(self, changed: dict[str, Any]) -> None:
        assert one(ON, **changed).span_id != one(ON).span_id

    def test_names_unit_and_experiment_where_configured(self) -> None:
        settings = Settings(
            arms={"feature_flag.memory": {"on": ArmRule(arm=Arm.EXACT_REUSE)}},
            experiments=("feature_flag.set.id",),
            units=("user.id", "feature_flag.context.id"),
        )
        said = ON | {"feature_flag.set.id": "checkout", "feature_flag.context.id": "u-1"}

        fact = one(said, settings=settings)

        assert (fact.experiment, fact.unit) == ("checkout", "u-1")


class TestRun:
    def test_is_of_the_arm_of_an_evaluation_in_its_agents_span(self) -> None:
        known = [*facts(agent(), chat()), *records(ON).facts]

        assert {run(*order).arm for order in permutations(known)} == {Arm.EXACT_REUSE}

    def test_is_of_the_arm_of_an_evaluation_in_a_call_below(self) -> None:
        assert run(*facts(agent(), chat()), *records(OFF, span_id=CHAT).facts).arm is Arm.CONTROL

    def test_counts_and_shows_what_it_would_without_the_record(self) -> None:
        plain, flagged = (
            run(*facts(agent(), chat())),
            run(*facts(agent(), chat()), *records(ON).facts),
        )

        for what in ("model_turns", "llm_calls", "scopes", "identities", "start_ns", "end_ns"):
            assert getattr(flagged, what) == getattr(plain, what)

    def test_is_of_the_arm_of_an_evaluation_in_a_span_that_never_came(self) -> None:
        """As in the application's own span around the agent, which is not about agents."""
        assert run(*facts(agent(), chat()), *records(ON, span_id=OTHER).facts).arm == "exact-reuse"

    def test_among_several_has_those_evaluated_in_its_time(self) -> None:
        second = bytes([3]) * 8
        known = facts(agent(), agent(second, at=(20, 30)))
        found = runs(
            *known, *records(OFF, span_id=OTHER).facts, *records(ON, span_id=OTHER, at=25).facts
        )

        assert [found[f"trace:{TRACE.hex()}/{each.hex()}"].arm for each in (AGENT, second)] == [
            Arm.CONTROL,
            Arm.EXACT_REUSE,
        ]

    def test_among_several_takes_no_evaluation_that_is_for_none_of_them(self) -> None:
        known = facts(agent(), agent(bytes([3]) * 8, at=(20, 30)))
        found = runs(*known, *records(ON, span_id=OTHER, at=15).facts)

        assert {each.arm for each in found.values()} == {None}

    def test_in_another_trace_is_not_concerned(self) -> None:
        assert run(*facts(agent()), *records(ON, trace_id=b"u" * 16).facts).arm is None

    def test_is_of_the_arm_of_an_event_on_a_web_servers_span_around_it(self) -> None:
        server = span(OTHER, at=(0, 20), events=(ON,), http_route="/ask")

        assert run(*facts(server, agent(), chat())).arm is Arm.EXACT_REUSE

    def test_is_named_by_the_record_itself_where_it_carries_the_run_id(self) -> None:
        own = span(
            AGENT, **{"turnavoid_entry": "invoke", "turnavoid_run.id": "r", "turnavoid_seq": "0"}
        )
        record = records(ON | {"turnavoid.run.id": "r"}, span_id=OTHER, trace_id=b"u" * 16)

        assert runs(*facts(own), *record.facts)["r"].arm is Arm.EXACT_REUSE


class TestContradiction:
    @pytest.mark.parametrize("first", [OFF, OFF | {VARIANT: "unlisted"}], ids=["arm", "none"])
    def test_two_variants_in_one_run_are_refused_in_any_order(self, first: dict[str, Any]) -> None:
        known = [*facts(agent()), *records(first).facts, *records(ON, at=6).facts]

        for order in permutations(known):
            found = run(*order)
            assert Rejection.RUN_ID_REUSED in found.rejections
            shown = ", ".join(sorted([repr(first[VARIANT]), "'on'"]))
            assert f"feature_flag.memory gave several variants: {shown}" in found.problems

    def test_an_event_and_a_record_that_differ_are_refused(self) -> None:
        found = run(*facts(agent(events=(OFF,))), *records(ON).facts)

        assert Rejection.RUN_ID_REUSED in found.rejections

    def test_an_event_and_a_record_that_agree_are_one_arm(self) -> None:
        found = run(*facts(agent(events=(ON,))), *records(ON).facts)

        assert (found.arm, Rejection.RUN_ID_REUSED in found.rejections) == ("exact-reuse", False)

    def test_a_record_that_gainsays_the_arm_of_a_span_is_refused(self) -> None:
        found = run(*facts(agent(turnavoid_arm="control")), *records(ON).facts)

        assert Rejection.RUN_ID_REUSED in found.rejections


def test_the_mark_of_a_record_is_among_the_needles_only_with_a_rule() -> None:
    def found(settings: Settings) -> bool:
        return any(needle in KEY.encode() for needle in Reader(settings).record_needles)

    assert (found(RULES), found(Settings())) == (True, False)


def test_a_span_about_agents_is_what_it_is_with_an_evaluation_on_it() -> None:
    [fact] = facts(agent(events=(ON,)))

    assert (fact.entry, resolved(fact).flags) == (Entry.INVOKE, {"feature_flag.memory": "on"})
