from __future__ import annotations

import socket

import pytest

from otel_turnavoid.collector.endpoint import Endpoint, listen
from otel_turnavoid.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("localhost:4317", ("localhost", 4317)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:4317", ("::1", 4317)),
        ("my-host.example:65535", ("my-host.example", 65535)),
    ],
)
def test_an_endpoint_is_read_and_written_the_same(text, endpoint):
    found = Endpoint.parse(text)

    assert found == endpoint
    assert str(found) == text


@pytest.mark.parametrize(
    "text", ["", "4317", ":4317", "localhost", "localhost:", "::1:4317", "a:65536", "http://a:1", 1]
)
def test_anything_else_is_none(text):
    assert Endpoint.parse(text) is None


def test_every_address_of_a_host_listens_on_one_port():
    sockets = listen(Endpoint("localhost", 0), "key")
    try:
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
    finally:
        for sock in sockets:
            sock.close()


def test_a_taken_port_is_one_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError) as caught:
            listen(Endpoint("127.0.0.1", port), "exporters.prometheus.endpoint")

    assert str(caught.value) == (
        f"exporters.prometheus.endpoint: cannot listen on 127.0.0.1:{port}: address already in use"
    )


def test_an_unknown_host_is_one_clear_error():
    with pytest.raises(ConfigurationError) as caught:
        listen(Endpoint("no.such.host.invalid", 0), "key")

    assert str(caught.value) == "key: cannot listen on no.such.host.invalid:0: unknown host"


def test_an_address_of_another_machine_is_one_clear_error():
    with pytest.raises(ConfigurationError) as caught:
        listen(Endpoint("192.0.2.1", 0), "key")

    assert str(caught.value) == (
        "key: cannot listen on 192.0.2.1:0: cannot assign requested address"
    )
