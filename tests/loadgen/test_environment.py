"""Where a load goes stands in the standard variables."""

from __future__ import annotations

import asyncio

import pytest

from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward import Signal
from otel_turnavoid.forward.sender_grpc import GrpcSender
from otel_turnavoid.forward.sender_http import HttpSender
from otel_turnavoid.loadgen.environment import senders


def made(environment, **options):
    """Return kind, and headers by signal."""

    async def make():
        found = senders(environment, **options)
        try:
            return {signal: type(sender) for signal, sender in found.items()}
        finally:
            for sender in found.values():
                await sender.close()

    return asyncio.run(make())


def headers(environment, signal):
    async def make():
        found = senders(environment)
        try:
            return found[signal]._metadata
        finally:
            for sender in found.values():
                await sender.close()

    return asyncio.run(make())


def refused(environment, **options):
    with pytest.raises(ConfigurationError) as error:
        made(environment, **options)
    return str(error.value)


def test_without_variables_it_is_grpc():
    assert made({}) == {Signal.TRACES: GrpcSender, Signal.LOGS: GrpcSender}


def test_the_protocol_may_differ_by_signal():
    environment = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc",
    }

    assert made(environment) == {Signal.TRACES: HttpSender, Signal.LOGS: GrpcSender}


def test_an_option_wins_over_the_variables():
    environment = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

    assert made(environment, protocol="http/json")[Signal.LOGS] is HttpSender


def test_observations_may_carry_the_observers_token():
    environment = {
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20agent",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "Authorization=Bearer%20observer, x-a=1",
    }

    assert headers(environment, Signal.TRACES) == (("authorization", "Bearer agent"),)
    assert headers(environment, Signal.LOGS) == (
        ("authorization", "Bearer observer"),
        ("x-a", "1"),
    )


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "thrift"},
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL: "
                "wants one of grpc, http/protobuf, http/json, got 'thrift'"
            ),
        ),
        (
            {"OTEL_EXPORTER_OTLP_HEADERS": "secret"},
            (
                "OTEL_EXPORTER_OTLP_HEADERS: "
                "wants key=value, with commas between several; the rest is not shown"
            ),
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "zstd"},
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: wants one of none, gzip, got 'zstd'",
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318",
            },
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT: "
                "wants a URL such as http://localhost:4318, got 'localhost:4318'"
            ),
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://localhost:4317",
                "OTEL_EXPORTER_OTLP_CERTIFICATE": "no/such.pem",
            },
            "OTEL_EXPORTER_OTLP_CERTIFICATE: cannot be read: no such file or directory",
        ),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(environment, said):
    assert refused(environment) == said
