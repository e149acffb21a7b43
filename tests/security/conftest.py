"""A processor with certificates of its own authority and a token for each role."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import trustme

from otel_turnavoid._proto.turnavoid.v1 import ledger_pb2, ledger_pb2_grpc
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.testing import observation, run_spans

DEADLINE_S = 60.0

TOKENS = {
    "agent": "agent-token-0123456789",
    "observer": "observer-token-0123456789",
    "reader": "reader-token-0123456789",
}

SERVICES = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}

CONFIGURATION = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:0", tls: {TLS}, auth: {authenticator: bearertokenauth}}
      http: {endpoint: "localhost:0", tls: {TLS}, auth: {authenticator: bearertokenauth}}
processors: {turnavoid: {settle: 50ms}}
exporters:
  prometheus: {endpoint: "localhost:0", tls: {TLS}, auth: {authenticator: bearertokenauth}}
extensions:
  bearertokenauth:
    reload_interval: 20ms
    tokens:
      - {filename: FOLDER/agent.token, role: agent, subject: shop-agents}
      - {filename: FOLDER/observer.token, role: observer}
      - {filename: FOLDER/reader.token, role: reader}
"""

SERVER_FILES = "cert_file: FOLDER/server.pem, key_file: FOLDER/server.key, reload_interval: 20ms"
MUTUAL = f"{SERVER_FILES}, client_ca_file: FOLDER/ca.pem"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def other_authority() -> trustme.CA:
    """Nobody here trusts it, until told."""
    return trustme.CA()


def write_certificate(folder: Path, name: str, cert: trustme.LeafCert) -> None:
    """Write NAME.key and NAME.pem."""
    cert.private_key_pem.write_to_path(folder / f"{name}.key")
    (folder / f"{name}.pem").write_bytes(b"".join(pem.bytes() for pem in cert.cert_chain_pems))


@pytest.fixture
def put_certificate() -> Callable[[Path, str, trustme.LeafCert], None]:
    return write_certificate


@pytest.fixture
def folder(tmp_path: Path, authority: trustme.CA) -> Path:
    """ca.pem; server and client as .pem and .key; a .token for each role."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    write_certificate(tmp_path, "server", authority.issue_cert("localhost", "127.0.0.1", "::1"))
    write_certificate(tmp_path, "client", authority.issue_cert("someone@example.com"))
    for role, token in TOKENS.items():
        (tmp_path / f"{role}.token").write_text(f"{token}\n")
    return tmp_path


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Return a condition's first true value, or fail at the deadline."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        tick = threading.Event()
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            tick.wait(0.02)
        return value

    return wait


class Clock:
    """The processors' clock; what they wait for can be made to be over."""

    ahead_ns = 0

    def __call__(self) -> int:
        return time.time_ns() + self.ahead_ns

    def wait_over(self) -> None:
        """Let more time pass than anything waits for evidence."""
        self.ahead_ns += 2 * Settings().decision_wait_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(folder: Path, clock: Clock) -> Iterator[Callable[..., Processor]]:
    """Start processors; ``FOLDER`` in a configuration is the folder of files."""
    with ExitStack() as running:

        def begin(
            text: str = CONFIGURATION, tls: str = SERVER_FILES, ledger: str = "ledger.db"
        ) -> Processor:
            filled = text.replace("{TLS}", f"{{{tls}}}").replace("FOLDER", str(folder))
            config = parse(filled, env={})
            url = f"sqlite:///{folder / ledger}"
            return running.enter_context(Processor(config, ledger_url=url, clock=clock))

        yield begin


@pytest.fixture
def start_plain(start: Callable[..., Processor]) -> Callable[[], Processor]:
    """Start a processor that asks for tokens, but speaks in plain text."""
    return lambda: start(re.sub(r"tls: \{TLS\}, ", "", CONFIGURATION))


class Client:
    """Somebody with a certificate authority, and maybe a token and a certificate."""

    def __init__(self, folder: Path, processor: Processor) -> None:
        self._folder = folder
        self._processor = processor

    def metadata(self, token: str | None) -> dict[str, str]:
        return {} if token is None else {"authorization": f"Bearer {token}"}

    def channel(self, client: str | None = None, ca: str = "ca.pem") -> grpc.Channel:
        endpoint = self._processor.grpc_endpoint
        assert endpoint is not None
        shown = (None, None) if client is None else (f"{client}.key", f"{client}.pem")
        files = [name and (self._folder / name).read_bytes() for name in (ca, *shown)]
        return grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(*files))

    def rpc(
        self, path: str, body: bytes, token: str | None, client: str | None = None
    ) -> bytes | grpc.RpcError:
        """Return the answer to a call, or the error."""
        with self.channel(client) as channel:
            try:
                answer: bytes = channel.unary_unary(path)(
                    body, timeout=60, metadata=tuple(self.metadata(token).items())
                )
            except grpc.RpcError as error:
                return error
            return answer

    def post(
        self,
        path: str,
        body: bytes,
        token: str | None,
        content_type: str = "application/x-protobuf",
        **headers: str,
    ) -> httpx.Response:
        with self.web() as web:
            return web.post(
                f"{self._processor.http_endpoint}{path}",
                content=body,
                headers={"content-type": content_type, **self.metadata(token), **headers},
            )

    def scrape(self, token: str | None) -> httpx.Response:
        with self.web() as web:
            return web.get(self._processor.metrics_endpoints[0], headers=self.metadata(token))

    def web(self, client: str | None = None, ca: str = "ca.pem") -> httpx.Client:
        import ssl  # noqa: PLC0415 - of a helper

        context = ssl.create_default_context(cafile=str(self._folder / ca))
        if client is not None:
            context.load_cert_chain(self._folder / f"{client}.pem", self._folder / f"{client}.key")
        return httpx.Client(verify=context, timeout=60)

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with the labels."""
        from prometheus_client.parser import (  # noqa: PLC0415 - of a helper
            text_string_to_metric_families,
        )

        return sum(
            sample.value
            for family in text_string_to_metric_families(self.scrape(TOKENS["reader"]).text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def pairs(self) -> list[Any]:
        """Return the decided pairs, as a reader gets them."""
        with self.channel() as channel:
            stub = ledger_pb2_grpc.LedgerServiceStub(channel)
            token = tuple(self.metadata(TOKENS["reader"]).items())
            return list(stub.ListPairs(ledger_pb2.ListPairsRequest(), metadata=token).pairs)


@pytest.fixture
def client(folder: Path) -> Callable[[Processor], Client]:
    return lambda processor: Client(folder, processor)


@pytest.fixture
def tokens() -> Mapping[str, str]:
    return TOKENS


@pytest.fixture
def services() -> Mapping[str, str]:
    return SERVICES


@pytest.fixture
def mutual() -> str:
    """``tls`` with client certificates."""
    return MUTUAL


@pytest.fixture
def runs() -> list[bytes]:
    """Traces of a control of 4 turns and a candidate of 3."""
    return [
        run_spans(run_id="control", arm="control", turns=4),
        run_spans(run_id="candidate", arm="fused-batch", turns=3),
    ]


@pytest.fixture
def effects() -> list[bytes]:
    """Logs of what an observer saw of both runs."""
    return [observation("control"), observation("candidate")]
