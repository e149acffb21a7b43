"""The configuration in ``docs/forwarding.md`` runs."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.config import parse
from otel_turnavoid.testing import other_spans

PAGE = (Path(__file__).parents[2] / "docs" / "forwarding.md").read_text(encoding="utf-8")
ENV = {"VENDOR_KEY": "key-of-the-vendor"}


def example() -> str:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_defaults_it_shows_are_the_defaults():
    shown = parse(example(), env=ENV).forwarding["traces"]["otlp/jaeger"]
    left_out = parse(
        "exporters: {otlp/jaeger: {endpoint: x}}\n"
        "service: {pipelines: {traces: {receivers: [otlp], processors: [turnavoid], "
        "exporters: [otlp/jaeger]}}}",
        env={},
    ).forwarding["traces"]["otlp/jaeger"]

    assert (shown.sending_queue, shown.retry_on_failure, shown.timeout, shown.compression) == (
        left_out.sending_queue,
        left_out.retry_on_failure,
        left_out.timeout,
        left_out.compression,
    )


def test_it_forwards_to_both_backends(grpc_backend, http_backend, start, until):
    text = (
        re.sub(r"localhost:\d+", "localhost:0", example())
        .replace("jaeger:4317", grpc_backend.endpoint)
        .replace("https://otlp.example.org", http_backend.endpoint)
    )
    body = other_spans(3)

    response = httpx.post(
        f"{start(text, ENV).http_endpoint}/v1/traces",
        content=body,
        headers={"content-type": "application/x-protobuf"},
        timeout=60,
    )

    assert response.status_code == 200
    until(lambda: grpc_backend.received and http_backend.received)
    assert (grpc_backend.bodies, http_backend.bodies) == ([body], [body])
    assert http_backend.received[0].headers["api-key"] == "key-of-the-vendor"


def test_it_names_every_metric_of_an_exporter():
    names = [
        own.name
        for own in vars(telemetry).values()
        if isinstance(own, telemetry.Own) and own.name.startswith("turnavoid.exporter.")
    ]
    table = re.sub(r"`(\.[a-z_.]+)`", r"`turnavoid.exporter\1`", PAGE)

    assert names
    assert [name for name in names if f"`{name}`" not in table] == []
