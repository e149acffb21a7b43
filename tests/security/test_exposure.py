"""Endpoints listen on this machine only, and say so in the log where they were told otherwise."""

from __future__ import annotations

import logging
import socket

import pytest

from otel_turnavoid.collector.components import GrpcProtocol, HttpProtocol, PrometheusExporter
from otel_turnavoid.collector.config import load
from otel_turnavoid.collector.endpoint import Endpoint, listen
from otel_turnavoid.collector.protection import exposure, local
from otel_turnavoid.collector.securing import Auth, ServerTls

WIDE = Endpoint("0.0.0.0", 4317)
TLS = ServerTls(cert_file="c", key_file="k")
MUTUAL = ServerTls(cert_file="c", key_file="k", client_ca_file="a")
AUTH = Auth(authenticator="bearertokenauth")
NO_TLS = "without TLS: what is sent, tokens too, can be read on the way"
NO_AUTH = "without auth: whoever reaches it is let in"


def test_every_endpoint_listens_on_localhost_unless_told_otherwise():
    config = load(None)
    endpoints = [
        config.receiver.protocols.grpc.endpoint,
        config.receiver.protocols.http.endpoint,
        *(exporter.endpoint for exporter in config.exporters.values()),
    ]

    assert [endpoint.host for endpoint in endpoints] == ["localhost"] * 3
    assert {
        section().endpoint.host for section in (GrpcProtocol, HttpProtocol, PrometheusExporter)
    } == {"localhost"}


def test_localhost_is_bound_to_loopback_addresses_only():
    sockets = listen(Endpoint("localhost", 0), "key")
    try:
        hosts = {each.getsockname()[0] for each in sockets}
    finally:
        for each in sockets:
            each.close()

    assert hosts <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("no-such-host.invalid", False),
    ],
)
def test_local_is_what_only_this_machine_can_reach(host, expected):
    assert local(host) is expected


@pytest.mark.parametrize(
    ("tls", "auth", "said"),
    [
        (None, None, f"{NO_TLS}, and {NO_AUTH}"),
        (TLS, None, NO_AUTH),
        (None, AUTH, NO_TLS),
        (TLS, AUTH, None),
        (MUTUAL, None, None),
    ],
)
def test_what_listens_wider_says_what_it_lacks(tls, auth, said):
    for section in (GrpcProtocol, HttpProtocol, PrometheusExporter):
        found = exposure(section(endpoint=WIDE, tls=tls, auth=auth))

        assert found == (said and f"listens on 0.0.0.0:4317 {said}")


def test_what_listens_on_this_machine_only_needs_neither():
    assert exposure(GrpcProtocol()) is None


def test_the_warning_stands_in_the_log_at_start_for_each_endpoint(start, caplog):
    start(
        """
        receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:0"}, http: {endpoint: "0.0.0.0:0"}}}}
        exporters: {prometheus: {endpoint: "localhost:0"}}
        """  # noqa: E501 - one mapping
    )

    assert [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ] == [
        f"receivers.otlp.protocols.{protocol}.endpoint:"
        f" listens on 0.0.0.0:0 {NO_TLS}, and {NO_AUTH}"
        for protocol in ("http", "grpc")
    ]


def test_on_this_machine_only_there_is_no_warning(start_plain, caplog):
    start_plain()

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_endpoint_on_localhost_is_not_reached_by_another_address(start_plain):
    processor = start_plain()
    port = int(processor.grpc_endpoint.rpartition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing, and finds this machine's other address.
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no other address")
        address = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no other address")

    with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
        socket.create_connection((address, port), timeout=2)
