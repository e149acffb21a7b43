"""The components a configuration can define: their keys, defaults and limits, section by section.

``processors.turnavoid`` has a file of its own, ``judging``.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from otel_turnavoid.collector.connection_limits import ConnectionLimits
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.section import Secret, Section
from otel_turnavoid.collector.securing import Auth, BearerTokenAuth, ServerTls
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.vocabulary import Word

MIB: Final = 1 << 20

_SHORTEST_RETENTION: Final = 3600 * SECOND

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_PositiveMib = Annotated[int, msgspec.Meta(ge=1, le=1024)]
_Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
_WebUrl = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s?#@\"'<>\\]+$")]
_HostName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")]
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
    max_connections: _Positive = 1024
    """Connections to each address of the endpoint; more are closed at once."""
    connection_timeout: Duration = Duration(20 * SECOND)
    """How long a new connection may take until it speaks HTTP/2, TLS included."""
    read_timeout: Duration = Duration(30 * SECOND)
    """How long a message may take to arrive once its call has begun."""
    keepalive: Keepalive = Keepalive()
    tls: ServerTls | None = None
    auth: Auth | None = None


class HttpProtocol(Section, frozen=True):
    """``receivers.otlp.protocols.http``."""

    endpoint: Endpoint = Endpoint("localhost", 4318)
    max_request_body_size: _Bytes = 64 * MIB
    """Bytes of one body, compressed and after decompression."""
    max_connections: _Positive = 1024
    """Connections; requests on more of them are told to come back."""
    read_header_timeout: Duration = Duration(60 * SECOND)
    """How long a request's headers may take to arrive, and a new connection to send any."""
    read_timeout: Duration = Duration(30 * SECOND)
    """How long a body may take to arrive."""
    write_timeout: Duration = Duration(30 * SECOND)
    """How long a client may leave an answer unread that it has no room for."""
    idle_timeout: Duration = Duration(60 * SECOND)
    """How long a connection may wait for another request."""
    traces_url_path: _UrlPath = "/v1/traces"
    logs_url_path: _UrlPath = "/v1/logs"
    tls: ServerTls | None = None
    auth: Auth | None = None

    def connection_limits(self) -> ConnectionLimits:
        """Return what connections may cost."""
        return ConnectionLimits(
            most=self.max_connections,
            headers_s=self.read_header_timeout.seconds,
            write_s=self.write_timeout.seconds,
            idle_s=self.idle_timeout.seconds,
        )


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
    max_concurrent_requests: _Positive = 1024
    """Requests in hand at once, from their headers to their answer; more are told to come back."""
    max_request_items: _Positive = 100_000
    """Spans or log records in one request; a request with more is too large."""
    max_item_attributes: _Positive = 1_000
    """Attributes of one span, log record or resource; an item with more is refused singly."""


class PrometheusExporter(Section, frozen=True):
    """``exporters.prometheus``: an endpoint to scrape."""

    endpoint: Endpoint = Endpoint("localhost", 9464)
    tls: ServerTls | None = None
    auth: Auth | None = None


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


class SendingQueue(Section, frozen=True):
    """``sending_queue``: what waits for a backend, on disk; for traces and logs."""

    enabled: bool = True
    num_consumers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Requests sent at once."""
    queue_size: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 10_000
    """Requests that may wait; more are told to come back."""
    size_mib: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1024
    """Bytes of bodies that may wait; more are told to come back."""
    storage: str | None = None
    """The queue's file; beside a SQLite ledger where left out."""


class RetryOnFailure(Section, frozen=True):
    """``retry_on_failure``; the collector's defaults, but nothing is given up by itself."""

    enabled: bool = True
    initial_interval: Duration = Duration(5 * SECOND)
    randomization_factor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    multiplier: Annotated[float, msgspec.Meta(ge=1)] = 1.5
    max_interval: Duration = Duration(30 * SECOND)
    max_elapsed_time: Duration = Duration(0)
    """When a request is given up and dropped; 0 is never."""


class BodyEncoding(Word):
    """How an HTTP backend wants bodies written."""

    PROTO = "proto"
    JSON = "json"


class OtlpExporter(Section, frozen=True):
    """``exporters.otlp`` (gRPC): metrics are pushed, traces and logs forwarded."""

    endpoint: str
    """``host:port``, or a URL whose scheme decides about TLS."""
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)
    tls: ClientTls = ClientTls()
    timeout: Duration = Duration(5 * SECOND)
    compression: Compression = Compression.GZIP
    interval: Duration | None = None
    """Time between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60 s, where left out."""
    sending_queue: SendingQueue = SendingQueue()
    retry_on_failure: RetryOnFailure = RetryOnFailure()


class OtlpHttpExporter(Section, frozen=True):
    """``exporters.otlphttp`` (HTTP): metrics are pushed, traces and logs forwarded."""

    endpoint: Annotated[str, msgspec.Meta(pattern=r"^https?://")]
    """Base URL, to which ``/v1/metrics``, ``/v1/traces`` and ``/v1/logs`` are added."""
    encoding: BodyEncoding = BodyEncoding.PROTO
    """Of traces and logs; metrics are pushed as protobuf."""
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)
    tls: ClientTls = ClientTls()
    timeout: Duration = Duration(30 * SECOND)
    compression: Compression = Compression.GZIP
    interval: Duration | None = None
    """Time between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60 s, where left out."""
    sending_queue: SendingQueue = SendingQueue()
    retry_on_failure: RetryOnFailure = RetryOnFailure()


class LedgerExtension(Section, frozen=True):
    """``extensions.ledger``."""

    url: Secret | None = None
    """Database URL; not shown in errors, as it may carry a password. None leaves it to the
    command line, the environment and the default."""
    lease: Duration = Duration(30 * SECOND)
    """How long a processor that went away without a word keeps others from its share."""
    retention: Duration | None = None
    """How long the evidence of runs with a final outcome is kept; for ever where left out."""
    max_open_runs: _Positive = 1_000_000
    """Runs that may wait for their final outcome; the oldest beyond get theirs early."""

    def check(self, key: str, settings: Settings) -> None:
        """Check what the values of single keys do not show.

        Raises:
            ConfigurationError: A duration cannot be used.
        """
        if self.lease < SECOND:
            raise ConfigurationError(f"{key}.lease", "must be at least 1s")
        if self.retention is None:
            return
        waits_ns = settings.run_expiry_ns + settings.decision_wait_ns
        if self.retention < max(waits_ns, _SHORTEST_RETENTION):
            raise ConfigurationError(
                f"{key}.retention", "must be at least 1h, and run_expiry with decision_wait"
            )


class PagesExtension(Section, frozen=True):
    """``extensions.pages``: pages for people, where OTLP/HTTP is taken."""

    enabled: bool = True
    jaeger_url: _WebUrl | None = None
    """Base URL of Jaeger's pages, to which ``/trace/<trace id>`` is added."""
    hosts: tuple[_HostName, ...] = ()
    """Further names under which the pages may be asked for, where nobody is asked for a token."""


class LogLevel(Word):
    """How much the process says on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class LogEncoding(Word):
    """How a line of the log is written."""

    CONSOLE = "console"
    """For people."""
    JSON = "json"
    """One object a line, for machines."""


class LogSampling(Section, frozen=True):
    """``service.telemetry.logs.sampling``; the collector's keys and defaults."""

    enabled: bool = True
    tick: Duration = Duration(10 * SECOND)
    initial: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Lines that say the same which are written in each tick."""
    thereafter: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Of the others in the tick, one of so many is written; 0 is none."""


class Logs(Section, frozen=True):
    """``service.telemetry.logs``."""

    level: LogLevel = LogLevel.INFO
    encoding: LogEncoding = LogEncoding.CONSOLE
    output_paths: tuple[str, ...] = ("stderr",)
    """``stderr``, ``stdout`` and files."""
    sampling: LogSampling = LogSampling()


class HealthCheck(Section, frozen=True):
    """``extensions.health_check``."""

    endpoint: Endpoint = Endpoint("localhost", 13133)
    path: _UrlPath = "/"
    """Says, as ``/ready`` does, whether exports are taken; ``/health`` says that it lives."""
    tls: ServerTls | None = None

    @property
    def auth(self) -> Auth | None:
        """Probes show no credentials, and are told nothing else."""
        return None


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
    shutdown_timeout: Duration = Duration(5 * SECOND)
    """How long requests in flight and what waits for backends may take when the process ends."""


ForwardingExporter = OtlpExporter | OtlpHttpExporter
Exporter = PrometheusExporter | ForwardingExporter
Extension = LedgerExtension | BearerTokenAuth | PagesExtension | HealthCheck
