"""Whoever sends or asks with the standard means reaches a processor with TLS and tokens."""

# ruff: noqa: PLR0913, PLR0917 - fixtures are arguments

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import grpc
import httpx
import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_turnavoid import invoke, llm_call
from otel_turnavoid.cli.main import main
from otel_turnavoid.collector.components import (
    ClientTls,
    Compression,
    OtlpExporter,
    OtlpHttpExporter,
)
from otel_turnavoid.collector.exporters import target
from otel_turnavoid.collector.section import Secret
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.accounts import known
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.observers.sending import send
from otel_turnavoid.publish.metrics import metrics_data, service_resource
from otel_turnavoid.publish.push import OtlpPusher
from otel_turnavoid.publish.totals import Totals

EXAMPLE = Path(__file__).parents[2] / "examples" / "ledger_client.py"

METRICS = "opentelemetry.proto.collector.metrics.v1.MetricsService"


@pytest.fixture(params=["grpc", "http"])
def protocol(request):
    return request.param


@pytest.fixture
def standard(monkeypatch, folder, tokens):
    """Set what an operator sets in the environment of an agent or an observer."""

    def set_for(processor, protocol, role, client=None):
        endpoint = (
            f"https://{processor.grpc_endpoint}" if protocol == "grpc" else processor.http_endpoint
        )
        values = {
            "ENDPOINT": endpoint,
            "CERTIFICATE": str(folder / "ca.pem"),
            "HEADERS": f"authorization=Bearer%20{tokens[role]}" if role else None,
            "CLIENT_CERTIFICATE": client and str(folder / f"{client}.pem"),
            "CLIENT_KEY": client and str(folder / f"{client}.key"),
        }
        # The SDK's exporters over HTTP let these win over what is meant for them.
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in values.items():
            if value is None:
                monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
            else:
                monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)

    return set_for


@pytest.fixture
def elsewhere(folder, other_authority):
    """An authority that other programs on the machine are told to trust."""
    other_authority.cert_pem.write_to_path(folder / "elsewhere.pem")
    return str(folder / "elsewhere.pem")


def play(protocol, run_id, arm, turns):
    """Be an agent with the SDK's own exporter, set up by the environment alone."""
    provider = TracerProvider(resource=Resource.create({"service.name": "agent"}))
    exporter = GrpcSpans() if protocol == "grpc" else HttpSpans()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with invoke(
        run_id=run_id,
        arm=arm,
        mechanism=arm,
        lifecycle="realized",
        input="Cancel order 42",
        tracer_provider=provider,
    ):
        for turn in range(turns):
            with llm_call("model", input=[turn]):
                pass
    provider.shutdown()


@pytest.mark.parametrize("with_certificate", [False, True])
def test_agents_and_observers_of_the_sdk_earn(
    start, client, standard, mutual, tokens, until, protocol, with_certificate
):
    processor = start(tls=mutual) if with_certificate else start()
    shown = "client" if with_certificate else None
    standard(processor, protocol, "agent", shown)
    play(protocol, "control", "control", 3)
    play(protocol, "candidate", "exact-reuse", 2)
    standard(processor, protocol, "observer", shown)
    for run_id in ("control", "candidate"):
        send(
            run_id,
            ["order:42=cancelled"],
            observer_id="o",
            protocol=protocol,
            environment=os.environ,
        )

    secured = client(processor)
    channel = secured.channel
    secured.channel = lambda *_: channel(shown)
    (pair,) = until(secured.pairs)
    assert (pair.avoided, list(pair.causes)) == (1, [])


@pytest.mark.parametrize(
    ("role", "said"),
    [
        (None, "a known token is wanted: Authorization: Bearer <token>"),
        ("reader", "a credential of role reader may not do that; role agent or observer may"),
        ("agent", "a credential of role agent sends no effects (1 refused)"),
    ],
)
def test_an_observer_learns_why_it_is_refused(start, standard, tokens, protocol, role, said):
    processor = start()
    standard(processor, protocol, role)
    with pytest.raises(InputError) as caught:
        send("r", ["x"], observer_id="o", protocol=protocol, environment=os.environ)

    if protocol == "http":  # whose exporter shows the status only
        said = {None: "Unauthorized", "reader": "Forbidden"}.get(role, said)
    # The SDK's exporters say one thing once in some seconds, which the next test may find.
    reason = str(caught.value).partition("did not accept the observation: ")[2]
    assert reason in (said, "no reason is given")
    assert not any(token in str(caught.value) for token in tokens.values())


def test_turnavoid_observe_sends_by_the_standard_variables(
    start, standard, tmp_path, monkeypatch, elsewhere, protocol
):
    processor = start()
    standard(processor, protocol, "observer")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", elsewhere)
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "order").write_text("cancelled")

    done = CliRunner().invoke(
        main,
        [
            *("observe", "files", str(tmp_path / "world"), "--label", "{path}"),
            *("--run-id", "r", "--observer-id", "o", "--protocol", protocol),
        ],
    )

    assert (done.exit_code, done.stdout) == (0, "order\n")


def test_the_example_of_a_client_asks_with_a_token(start, folder):
    processor = start()
    done = subprocess.Popen(
        [
            *(sys.executable, EXAMPLE, processor.grpc_endpoint),
            *("--ca-file", folder / "ca.pem", "--token-file", folder / "agent.token"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, said = done.communicate(timeout=60)

    assert said.strip().endswith(
        "PERMISSION_DENIED: a credential of role agent may not do that; role reader may"
    )


class Backend:
    """Remembers the tokens that metrics came with, over TLS."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tokens: list[str | None] = []

    def grpc(self) -> tuple[grpc.Server, str]:
        def export(_body, context):
            self.tokens.append(dict(context.invocation_metadata()).get("authorization"))
            return b""

        server = grpc.server(ThreadPoolExecutor(1))
        methods = {"Export": grpc.unary_unary_rpc_method_handler(export)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(METRICS, methods),))
        pair = [(self._folder / f"server.{end}").read_bytes() for end in ("key", "pem")]
        ca = (self._folder / "ca.pem").read_bytes()
        credentials = grpc.ssl_server_credentials([tuple(pair)], ca, require_client_auth=True)
        port = server.add_secure_port("localhost:0", credentials)
        server.start()
        return server, f"localhost:{port}"

    def http(self) -> tuple[HTTPServer, str]:
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                backend.tokens.append(self.headers.get("authorization"))
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = HTTPServer(("localhost", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "server.pem", self._folder / "server.key")
        context.load_verify_locations(self._folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server, f"https://localhost:{server.server_port}"


def test_metrics_are_pushed_with_a_token_over_mutual_tls(folder, monkeypatch, elsewhere, protocol):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", elsewhere)
    backend = Backend(folder)
    server, endpoint = backend.grpc() if protocol == "grpc" else backend.http()
    kind = OtlpExporter if protocol == "grpc" else OtlpHttpExporter
    exporter = kind(
        endpoint=endpoint,
        headers={"authorization": Secret("Bearer pushed")},
        tls=ClientTls(
            ca_file=str(folder / "ca.pem"),
            cert_file=str(folder / "client.pem"),
            key_file=str(folder / "client.key"),
        ),
        compression=Compression.NONE,
    )
    pusher = OtlpPusher(
        lambda: metrics_data(
            Totals(known(Settings())).snapshot(),
            birth_ns=1,
            now_ns=2,
            resource=service_resource("i"),
        ),
        target(exporter).exporter(),
        interval_s=60,
    )
    try:
        assert pusher.push()
    finally:
        pusher.shutdown()
        if protocol == "grpc":
            server.stop(None)
        else:
            server.shutdown()
            server.server_close()
    assert backend.tokens == ["Bearer pushed"]


FRONT = """
receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}
processors: {turnavoid: }
exporters:
  prometheus: {endpoint: "localhost:0"}
  KIND:
    endpoint: "ENDPOINT"
    headers: {authorization: "Bearer TOKEN"}
    tls: {ca_file: FOLDER/ca.pem, cert_file: FOLDER/client.pem, key_file: FOLDER/client.key}
service:
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid], exporters: [KIND]}
    metrics: {receivers: [turnavoid], exporters: [prometheus]}
"""


def test_one_processor_forwards_to_another_with_a_token_over_mutual_tls(
    start, client, mutual, tokens, runs, until, protocol
):
    back = start(tls=mutual.replace("reload_interval: 20ms", "reload_interval: 1h"))
    kind, endpoint = ("otlp", back.grpc_endpoint) if protocol == "grpc" else ("otlphttp", None)
    text = FRONT.replace("KIND", kind).replace("TOKEN", tokens["agent"])
    front = start(text.replace("ENDPOINT", endpoint or back.http_endpoint), ledger="front.db")

    answer = httpx.post(
        f"{front.http_endpoint}/v1/traces",
        content=runs[0],
        headers={"content-type": "application/x-protobuf"},
        timeout=60,
    )

    assert (answer.status_code, answer.content) == (200, b"")
    secured = client(back)
    web = secured.web
    secured.web = lambda: web("client")
    name = "turnavoid_receiver_accepted_spans_total"
    # The Invoke, the UserTurn, and four AgentTurns with a call and a tool each.
    assert until(lambda: secured.metric(name, transport=protocol)) == 2 + 4 * 3
