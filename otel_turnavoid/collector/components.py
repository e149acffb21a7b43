"""The components a configuration can define: their keys, defaults and limits, section by section.

``processors.turnavoid`` has a file of its own, ``judging``.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.section import Secret, Section
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.vocabulary import Word

MIB: Final = 1 << 20

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_PositiveMib = Annotated[int, msgspec.Meta(ge=1, le=1024)]
_Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
_UrlPath = Annotated[str, msgspec.Meta(pattern=r"^/[^\s?#{}]*$")]


class ServerParameters(Section, frozen=True):
    """``keepalive.server_parameters`` of gRPC; what is left out is gRPC's own default."""

    max_connection_idle: Duration | None = None
    max_connection_age: Duration | None = None
    """Lets long-lived clients find new instances behind a load balancer."""
    max_connection_age_grace: Duration | None = None
    time: Duration | None = None
    timeout: Duration | None = None


class Keepalive(Section, frozen=True):
    """``keepalive`` of the gRPC protocol."""

    server_parameters: ServerParameters = ServerParameters()


class GrpcProtocol(Section, frozen=True):
    """``receivers.otlp.protocols.grpc``; LedgerService, health and reflection are there too."""

    endpoint: Endpoint = Endpoint("localhost", 4317)
    max_recv_msg_size_mib: _PositiveMib = 64
    """Limit of one message, compressed and after decompression."""
    max_concurrent_streams: _Positive = 100
    """Calls in flight on one connection; more wait in the client."""
    keepalive: Keepalive = Keepalive()


class HttpProtocol(Section, frozen=True):
    """``receivers.otlp.protocols.http``."""

    endpoint: Endpoint = Endpoint("localhost", 4318)
    max_request_body_size: _Bytes = 64 * MIB
    """Bytes of one body, compressed and after decompression."""
    read_timeout: Duration = Duration(30 * SECOND)
    """How long a body may take to arrive."""
    traces_url_path: _UrlPath = "/v1/traces"
    logs_url_path: _UrlPath = "/v1/logs"


class Protocols(Section, frozen=True):
    """``receivers.otlp.protocols``; a protocol that is not named is off."""

    grpc: GrpcProtocol | None = None
    http: HttpProtocol | None = None


class OtlpReceiver(Section, frozen=True):
    """``receivers.otlp``."""

    protocols: Protocols
    max_pending_requests: _Positive = 1024
    """Requests that may wait for their commit; more are told to come back."""
    max_pending_mib: _PositiveMib = 256
    """Bytes of request bodies in hand at once; more are told to come back."""


class PrometheusExporter(Section, frozen=True):
    """``exporters.prometheus``: an endpoint to scrape."""

    endpoint: Endpoint = Endpoint("localhost", 9464)


class Compression(Word):
    """Compression of what is pushed."""

    GZIP = "gzip"
    NONE = "none"


class ClientTls(Section, frozen=True):
    """``tls`` of a client; TLS is on unless ``insecure``."""

    insecure: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class OtlpExporter(Section, frozen=True):
    """``exporters.otlp`` (gRPC): metrics are pushed."""

    endpoint: str
    """``host:port``, or a URL whose scheme decides about TLS."""
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)
    tls: ClientTls = ClientTls()
    timeout: Duration = Duration(5 * SECOND)
    compression: Compression = Compression.GZIP
    interval: Duration | None = None
    """Time between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60 s, where left out."""


class OtlpHttpExporter(Section, frozen=True):
    """``exporters.otlphttp`` (HTTP, protobuf): metrics are pushed."""

    endpoint: Annotated[str, msgspec.Meta(pattern=r"^https?://")]
    """Base URL, to which ``/v1/metrics`` is added."""
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)
    tls: ClientTls = ClientTls()
    timeout: Duration = Duration(30 * SECOND)
    compression: Compression = Compression.GZIP
    interval: Duration | None = None
    """Time between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60 s, where left out."""


class LedgerExtension(Section, frozen=True):
    """``extensions.ledger``."""

    url: Secret
    """Database URL; not shown in errors, as it may carry a password."""


class LogLevel(Word):
    """How much the process says on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Logs(Section, frozen=True):
    """``service.telemetry.logs``."""

    level: LogLevel = LogLevel.INFO


class Telemetry(Section, frozen=True):
    """``service.telemetry``."""

    logs: Logs = Logs()


class Pipeline(Section, frozen=True):
    """One of ``service.pipelines``: ids of components."""

    receivers: tuple[str, ...] = ()
    processors: tuple[str, ...] = ()
    exporters: tuple[str, ...] = ()


class Service(Section, frozen=True):
    """``service``."""

    extensions: tuple[str, ...] = ()
    pipelines: dict[str, Pipeline] = msgspec.field(default_factory=dict)
    telemetry: Telemetry = Telemetry()


Exporter = PrometheusExporter | OtlpExporter | OtlpHttpExporter
