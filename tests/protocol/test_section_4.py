"""Limits and security defaults: section 4 of the requirements, each rule under its number."""

from __future__ import annotations

import gzip
import logging
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import httpx
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.collector.components import (
    GrpcProtocol,
    HttpProtocol,
    OtlpExporter,
    PrometheusExporter,
)
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.exporters import target
from otel_turnavoid.collector.memory import MemoryGuard, MemoryLimiter, resident_bytes
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.collector.securing import BearerTokenAuth, ServerTls, TlsVersion
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.testing import run_spans

MIB = 1 << 20
PROTOBUF = {"content-type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SECRET = "do-not-show-me-0123456789"


def test_4_1_every_listener_defaults_to_localhost():
    endpoints = [each.endpoint for each in (GrpcProtocol(), HttpProtocol(), PrometheusExporter())]

    assert [str(each) for each in endpoints] == [
        "localhost:4317",
        "localhost:4318",
        "localhost:9464",
    ]


def test_4_1_localhost_is_reached_from_this_machine_only(running):
    """Every socket that listens is bound to a loopback address."""
    ports = {
        int(endpoint.rsplit(":", 1)[1].split("/")[0])
        for endpoint in (
            running.grpc_endpoint,
            running.http_endpoint,
            *running.processor.metrics_endpoints,
        )
    }
    bound = {address for address, port in listening() if port in ports}

    assert bound <= {
        "0100007F",
        "0000000000000000FFFF00000100007F",
        "00000000000000000000000001000000",
    }
    assert bound != set()


def listening():
    """Yield hexadecimal address and port of every TCP socket that listens, as Linux says."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        path = Path(name)
        if not path.exists():
            pytest.skip("needs Linux")
        for line in path.read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                address, port = local.split(":")
                yield address, int(port, 16)


def test_4_2_the_limits_of_both_protocols_are_64_mib_by_default():
    assert GrpcProtocol().max_recv_msg_size_mib * MIB == 64 * MIB
    assert HttpProtocol().max_request_body_size == 64 * MIB


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def secured(tmp_path, authority):
    """A processor that speaks TLS and wants certificates of clients."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    tls = (
        f'tls: {{cert_file: "{tmp_path}/cert.pem", key_file: "{tmp_path}/key.pem", '
        f'client_ca_file: "{tmp_path}/ca.pem"}}'
    )
    config = parse(
        f"""
        receivers:
          otlp:
            protocols:
              grpc: {{endpoint: "localhost:0", {tls}}}
              http: {{endpoint: "localhost:0", {tls}}}
        exporters: {{prometheus: {{endpoint: "localhost:0"}}}}
        """,
        env={},
    )
    with Processor(config, ledger_url=f"sqlite:///{tmp_path / 'tls.db'}") as processor:
        yield processor


def client_context(authority, *, certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if certificate:
        authority.issue_cert("agent@example.org").configure_cert(context)
    return context


def test_4_3_tls_1_2_is_the_least_by_default():
    assert ServerTls(cert_file="c", key_file="k").min_version is TlsVersion.TLS_1_2


def test_4_3_a_client_with_a_certificate_of_the_authority_is_served(secured, authority):
    context = client_context(authority, certificate=True)
    with httpx.Client(verify=context, timeout=60) as client:
        response = client.post(f"{secured.http_endpoint}/v1/traces", content=b"", headers=PROTOBUF)
    assert response.status_code == 200

    issued = authority.issue_cert("agent@example.org")
    credentials = grpc.ssl_channel_credentials(
        authority.cert_pem.bytes(),
        issued.private_key_pem.bytes(),
        b"".join(pem.bytes() for pem in issued.cert_chain_pems),
    )
    with grpc.secure_channel(secured.grpc_endpoint, credentials) as channel:
        assert channel.unary_unary(EXPORT)(b"", timeout=60) == b""


def test_4_3_client_ca_file_demands_a_certificate(secured, authority):
    context = client_context(authority, certificate=False)
    with httpx.Client(verify=context, timeout=60) as client, pytest.raises(httpx.TransportError):
        client.post(f"{secured.http_endpoint}/v1/traces", content=b"", headers=PROTOBUF)

    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with (
        grpc.secure_channel(secured.grpc_endpoint, credentials) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(EXPORT)(b"", timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_4_4_our_clients_default_to_tls():
    assert target(OtlpExporter(endpoint="backend:4317")).insecure is False


def test_4_4_plain_text_has_to_be_asked_for():
    config = parse("exporters: {otlp: {endpoint: 'backend:4317', tls: {insecure: true}}}", env={})

    assert target(config.exporters["otlp"]).insecure is True


def test_4_5_the_scheme_is_bearer_by_default():
    assert BearerTokenAuth(tokens=()).scheme == "Bearer"


@pytest.mark.parametrize(
    ("sent", "status"), [({}, 401), ({"authorization": f"Bearer {SECRET}"}, 200)]
)
def test_4_5_an_authenticator_guards_the_receiver(tmp_path, sent, status):
    (tmp_path / "token").write_text(f"{SECRET}\n")
    config = parse(
        f"""
        receivers:
          otlp:
            protocols:
              http: {{endpoint: "localhost:0", auth: {{authenticator: bearertokenauth}}}}
        exporters: {{prometheus: {{endpoint: "localhost:0"}}}}
        extensions:
          bearertokenauth: {{tokens: [{{filename: "{tmp_path / "token"}", role: agent}}]}}
        service:
          extensions: [bearertokenauth]
          pipelines:
            traces: {{receivers: [otlp], processors: [turnavoid]}}
        """,
        env={},
    )
    with Processor(config, ledger_url=f"sqlite:///{tmp_path / 'ledger.db'}") as processor:
        response = httpx.post(
            f"{processor.http_endpoint}/v1/traces",
            content=b"",
            headers={**PROTOBUF, **sent},
            timeout=60,
        )

    assert response.status_code == status


def test_4_6_a_configuration_shows_no_secrets():
    config = parse(
        f"""
        exporters: {{otlp: {{endpoint: "https://b:1", headers: {{authorization: "{SECRET}"}}}}}}
        extensions: {{ledger: {{url: "postgresql://u:{SECRET}@h/d"}}}}
        """,
        env={},
    )

    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    "text",
    [
        f"exporters: {{otlp: {{endpoint: 'https://b:1', headers: {SECRET}}}}}",
        f"extensions: {{ledger: {{url: ['{SECRET}']}}}}",
        "receivers: {otlp: {protocols: {http: {endpoint: '${env:TOKEN}'}}}}",
    ],
)
def test_4_6_errors_show_no_secrets(text):
    with pytest.raises(ConfigurationError) as caught:
        parse(text, env={"TOKEN": SECRET})

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("receivers: {otlp: {protocols: {http: {endpiont: 'localhost:1'}}}}", "unknown key"),
        ("receivers: {otlp: {protocols: {http: {max_request_body_size: many}}}}", "whole number"),
        ("recievers: {}", "unknown key"),
        ("{", "line 1, column 2"),
    ],
)
def test_4_7_the_processor_does_not_start_with_an_invalid_configuration(tmp_path, text, said):
    path = tmp_path / "collector.yaml"
    path.write_text(text)

    ended = subprocess.run(
        [sys.executable, "-m", "otel_turnavoid", "collect", "--config", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr


def test_4_8_no_listener_needs_a_privilege():
    endpoints = [each.endpoint for each in (GrpcProtocol(), HttpProtocol(), PrometheusExporter())]

    assert all(endpoint.port >= 1024 for endpoint in endpoints)


def test_4_8_health_is_answered_where_spans_are_taken_and_nowhere_else(running):
    """It is a service on the OTLP/gRPC port, which is localhost unless told otherwise."""
    stub = health_pb2_grpc.HealthStub(running.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60)

    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def limiter(text: str) -> MemoryLimiter | None:
    return parse(f"processors: {{turnavoid: , memory_limiter: {{{text}}}}}", env={}).memory


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("limit_mib: 1000", (800 * MIB, 1000 * MIB)),
        ("limit_mib: 1000, spike_limit_mib: 300", (700 * MIB, 1000 * MIB)),
        ("limit_percentage: 50", (4 * MIB, 5 * MIB)),
        ("limit_percentage: 50, spike_limit_percentage: 20", (3 * MIB, 5 * MIB)),
    ],
)
def test_4_9_the_soft_limit_is_the_hard_one_less_the_spike(text, limits):
    section = limiter(text)
    assert section is not None
    assert section.limits("key", 10 * MIB) == limits


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "processors.memory_limiter: wants limit_mib or limit_percentage"),
        (
            "limit_mib: 10, spike_limit_mib: 10",
            "processors.memory_limiter.spike_limit_mib: must be below the limit",
        ),
        (
            "limit_mib: 10, check_interval: 0s",
            "processors.memory_limiter.check_interval: must be above 0s",
        ),
    ],
)
def test_4_9_a_limiter_that_limits_nothing_is_refused(text, said):
    with pytest.raises(ConfigurationError) as caught:
        limiter(text)

    assert str(caught.value) == said


def test_4_9_above_soft_it_refuses_above_hard_it_relieves_and_below_it_takes_again(caplog):
    caplog.set_level(logging.INFO)
    used, relieved = [0], []
    guard = MemoryGuard(8 * MIB, 10 * MIB, lambda: relieved.append(used[0]), lambda: used[0])

    seen = []
    for mib in (8, 9, 11, 9, 8):
        used[0] = mib * MIB
        guard.look()
        seen.append((mib, guard.pressed, len(relieved)))

    assert seen == [(8, False, 0), (9, True, 0), (11, True, 1), (9, True, 1), (8, False, 1)]
    assert [record.getMessage() for record in caplog.records] == [
        "memory is short (9 MiB), senders are told to retry",
        "memory is not short any more (8 MiB)",
    ]


def test_4_9_messages_that_are_arriving_are_given_up_above_the_hard_limit(start, until):
    """A call has begun and its message is on its way: it is told to come back."""
    # With a spike limit: a fifth of what a test process uses may be more than what is added here.
    limits = f"limit_mib: {resident_bytes() // MIB + 200}, spike_limit_mib: 50"
    running = start(processors=f"memory_limiter: {{{limits}, check_interval: 50ms}}")
    ended = threading.Event()

    def never():
        ended.wait(60)
        yield from ()

    call = running.channel.stream_unary(EXPORT).future(never(), timeout=60)
    running.export(b"")  # the call before it on this connection has begun by now
    ballast = b"x" * (300 * MIB)
    until(call.done)
    ended.set()
    del ballast

    assert (call.code(), call.details()) == (
        grpc.StatusCode.UNAVAILABLE,
        "too little memory is left",
    )


def bomb(mib: int) -> bytes:
    return gzip.compress(bytes(mib * MIB), compresslevel=1)


def test_4_10_a_gzip_bomb_ends_in_413_with_bounded_memory(process):
    served = process()
    body = bomb(512)
    assert len(body) < 4 * MIB
    before = served.peak_mib()

    response = httpx.post(
        f"{served.http_endpoint}/v1/traces",
        content=body,
        headers={**PROTOBUF, "content-encoding": "gzip"},
        timeout=60,
    )

    assert response.status_code == 413
    assert served.peak_mib() - before < 300


def test_4_10_a_gzip_bomb_ends_in_resource_exhausted_with_bounded_memory(process):
    served = process()
    before = served.peak_mib()
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(served.grpc_endpoint, options) as channel:
        call = channel.unary_unary(EXPORT)
        with pytest.raises(grpc.RpcError) as caught:
            call(bytes(512 * MIB), timeout=60, compression=grpc.Compression.Gzip)

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert served.peak_mib() - before < 300


def test_4_11_content_is_in_no_log_no_metric_and_no_answer(start, run_id, caplog):
    """Sent in every place that holds content, in good requests and in bad ones."""
    caplog.set_level(logging.DEBUG)
    running = start()
    request = ExportTraceServiceRequest.FromString(run_spans(run_id=run_id, turns=2))
    for span in request.resource_spans[0].scope_spans[0].spans:
        for key in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.result"):
            span.attributes.add(key=key).value.string_value = f'[{{"content": "{SECRET}"}}]'
        span.name = f"chat {SECRET}"
        span.events.add(name=SECRET)
        span.status.message = SECRET
    body = request.SerializeToString()
    bad = body.replace(SECRET.encode(), SECRET.encode()[:-1] + b"\xff")
    answers = [
        running.post(body).content,
        running.post(bad).content,
        running.post(
            f'{{"resourceSpans": "{SECRET}"}}'.encode(), content_type="application/json"
        ).content,
        running.refused(bad),
    ]

    scraped = httpx.get(running.processor.metrics_endpoints[0], timeout=60).text
    assert SECRET[:-1] not in "\n".join(record.getMessage() for record in caplog.records)
    assert SECRET not in scraped
    assert SECRET.encode() not in b"".join(
        answer if isinstance(answer, bytes) else repr(answer).encode() for answer in answers
    )


def test_4_11_content_is_not_required(running, request_of, run_id):
    """The spans of an agent that captures no content are a whole run."""
    assert b"messages" not in request_of.SerializeToString()
    assert running.post(request_of.SerializeToString()).content == b""
    assert len(running.stored(run_id)) == 5
    assert os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") is None
