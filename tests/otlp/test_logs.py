from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.facts import Observation, Process
from otel_turnavoid.otlp import Batch, read_logs

MakeRequest = Callable[..., bytes]
NAME = "turnavoid.effects.observed"
ATTRIBUTES = {
    "turnavoid.run.id": "r",
    "turnavoid.observer.id": "billing/v1",
    "turnavoid.effects.labels": ["order:42=cancelled"],
}
RESOURCE = {"service.name": "billing", "service.instance.id": "b-1"}


def seen(observed_ns: int = 10) -> Observation:
    return Observation(
        run_id="r",
        observer="billing/v1",
        labels=("order:42=cancelled",),
        observed_ns=observed_ns,
        service="billing",
        instance="b-1",
    )


def test_an_event_of_that_name_is_an_observation(record_request: MakeRequest) -> None:
    body = record_request(ATTRIBUTES, resource=RESOURCE, event_name=NAME, time_unix_nano=10)

    assert read_logs(body, Reader()) == Batch(observations=[seen()], records=1)


def test_the_name_may_stand_in_the_older_attribute(record_request: MakeRequest) -> None:
    body = record_request({**ATTRIBUTES, "event.name": NAME}, resource=RESOURCE, time_unix_nano=10)

    assert read_logs(body, Reader()).observations == [seen()]


def test_without_a_time_of_its_own_the_time_it_was_seen_counts(
    record_request: MakeRequest,
) -> None:
    body = record_request(
        ATTRIBUTES, resource=RESOURCE, event_name=NAME, observed_time_unix_nano=11
    )

    assert read_logs(body, Reader()).observations == [seen(11)]


def test_what_limits_left_out_of_a_record_and_its_resource_is_kept(
    record_request: MakeRequest,
) -> None:
    body = record_request(
        ATTRIBUTES,
        resource=RESOURCE,
        event_name=NAME,
        time_unix_nano=10,
        dropped_attributes_count=2,
    )
    request = ExportLogsServiceRequest.FromString(body)
    request.resource_logs[0].resource.dropped_attributes_count = 3

    (found,) = read_logs(request.SerializeToString(), Reader()).observations

    assert found == replace(seen(), dropped=2, resource_dropped=3)


def test_the_process_of_an_observer_is_kept(record_request: MakeRequest) -> None:
    process = {"process.pid": 4711, "host.name": "web-1", "container.id": "c0ffee"}
    body = record_request(
        ATTRIBUTES, resource={**RESOURCE, **process}, event_name=NAME, time_unix_nano=10
    )

    (found,) = read_logs(body, Reader()).observations

    assert found.process == Process(4711, host_name="web-1", container_id="c0ffee")


def test_other_records_are_ignored(record_request: MakeRequest) -> None:
    body = record_request(
        {"note": f"about {NAME}"}, resource=RESOURCE, event_name="other", time_unix_nano=10
    )

    assert read_logs(body, Reader()) == Batch(records=1, ignored=1)


def test_nothing_seen_is_an_observation_too(record_request: MakeRequest) -> None:
    body = record_request(
        {**ATTRIBUTES, "turnavoid.effects.labels": []},
        resource=RESOURCE,
        event_name=NAME,
        time_unix_nano=10,
    )

    assert read_logs(body, Reader()).observations[0].labels == ()


def test_the_role_of_the_credential_is_kept(record_request: MakeRequest) -> None:
    body = record_request(ATTRIBUTES, resource=RESOURCE, event_name=NAME, time_unix_nano=10)

    assert read_logs(body, Reader(), role="agent").observations[0].role == "agent"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"turnavoid.run.id": 7}, "turnavoid.run.id: want a string, got 7"),
        ({"turnavoid.run.id": ""}, "turnavoid.run.id: want a name, got an empty one"),
        (
            {"turnavoid.observer.id": " o"},
            "turnavoid.observer.id: has surrounding space: a string of 2 characters",
        ),
        (
            {"turnavoid.effects.labels": "a"},
            "turnavoid.effects.labels: want an array of strings, got a string of 1 characters",
        ),
        (
            {"turnavoid.effects.labels": ["a", 1]},
            "turnavoid.effects.labels: a label: want a string, got 1",
        ),
        (
            {"turnavoid.effects.labels": ["a "]},
            "turnavoid.effects.labels: a label: has surrounding space: a string of 2 characters",
        ),
        (
            {"turnavoid.effects.labels": [""]},
            "turnavoid.effects.labels: a label: want a name, got an empty one",
        ),
    ],
)
def test_an_observation_that_cannot_be_understood_is_refused_with_a_reason(
    record_request: MakeRequest, changes: dict[str, Any], problem: str
) -> None:
    body = record_request(
        {**ATTRIBUTES, **changes}, resource=RESOURCE, event_name=NAME, time_unix_nano=10
    )

    assert read_logs(body, Reader()) == Batch(
        records=1, rejected=1, problem=f"log records refused: 1; {NAME}: {problem} (1)"
    )


@pytest.mark.parametrize("key", sorted(ATTRIBUTES))
def test_an_observation_must_say_everything(record_request: MakeRequest, key: str) -> None:
    given = {name: value for name, value in ATTRIBUTES.items() if name != key}
    body = record_request(given, resource=RESOURCE, event_name=NAME, time_unix_nano=10)

    batch = read_logs(body, Reader())

    assert (batch.rejected, batch.observations) == (1, [])
    assert f"{key}: missing" in batch.problem


@pytest.mark.parametrize(
    ("nanos", "problem"), [(0, "missing"), (2**63, "lies beyond the year 2262")]
)
def test_an_observation_needs_a_usable_time(
    record_request: MakeRequest, nanos: int, problem: str
) -> None:
    body = record_request(ATTRIBUTES, resource=RESOURCE, event_name=NAME, time_unix_nano=nanos)

    assert (
        read_logs(body, Reader()).problem == f"log records refused: 1; {NAME}: time: {problem} (1)"
    )


def test_a_truncated_request_is_refused_as_a_whole(record_request: MakeRequest) -> None:
    body = record_request(ATTRIBUTES, resource=RESOURCE, event_name=NAME, time_unix_nano=10)

    with pytest.raises(InputError, match=r"^logs request: not readable as OTLP protobuf: "):
        read_logs(body[:-1], Reader())


@settings(deadline=None)  # other work on the machine is no fault of ours
@given(data=st.data())
def test_every_record_is_accounted_for(
    data: st.DataObject, log_requests: st.SearchStrategy[ExportLogsServiceRequest]
) -> None:
    request = data.draw(log_requests)

    batch = read_logs(request.SerializeToString(), Reader())

    records = [
        record
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]
    assert batch.records == len(records)
    assert batch.records == len(batch.observations) + batch.ignored + batch.rejected
