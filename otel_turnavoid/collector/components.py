"""The components a configuration can define: their keys, defaults and limits, section by section.

``processors.turnavoid`` has a file of its own, ``judging``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from otel_turnavoid.collector.connection_limits import ConnectionLimits
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.section import Secret, Section, shown
from otel_turnavoid.collector.securing import Auth, BearerTokenAuth, ServerTls
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.vocabulary import Word

MIB: Final = 1 << 20

_SHORTEST_RETENTION: Final = 3600 * SECOND

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_PositiveMib = Annotated[int, msgspec.Meta(ge=1, le=1024)]
_Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
_WEB_URL: Final = re.compile(r"https?://[^\s?#@\"'<>\\]+")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_UrlPath = Annotated[str, msgspec.Meta(pattern=r"^/[^\s?#{}]*$")]


class ServerParameters(Section, frozen=True):
    """``keepalive.server_parameters`` of gRPC; what is left out is gRPC's own default."""

    max_connection_idle: Duration | None = None
    """How long a connection without calls stays open."""
    max_connection_age: Duration | None = None
    """Lets long-lived clients find new instances behind a load balancer."""
    max_connection_age_grace: Duration | None = None
    """How long calls may go on after a connection's age has ended."""
    time: Duration | None = None
    """Silence after which the server asks whether a client is there."""
    timeout: Duration | None = None
    """How long the server waits for that answer."""


class Keepalive(Section, frozen=True):
    """``keepalive`` of the gRPC protocol."""

    server_parameters: ServerParameters = ServerParameters()
    """What gRPC's server does with long-lived connections."""


class GrpcProtocol(Section, frozen=True):
    """``receivers.otlp.protocols.grpc``; LedgerService, health and reflection are there too."""

    endpoint: Endpoint = Endpoint("localhost", 4317)
    """Where gRPC is taken; port 0 is any free port."""
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
    """See below."""
    tls: ServerTls | None = None
    """Speak TLS; plain text where left out."""
    auth: Auth | None = None
    """Ask for a credential; nobody is asked where left out."""


class HttpProtocol(Section, frozen=True):
    """``receivers.otlp.protocols.http``."""

    endpoint: Endpoint = Endpoint("localhost", 4318)
    """Where HTTP is taken; port 0 is any free port."""
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
    """Path of traces."""
    logs_url_path: _UrlPath = "/v1/logs"
    """Path of log records."""
    tls: ServerTls | None = None
    """Speak TLS; plain text where left out."""
    auth: Auth | None = None
    """Ask for a credential; nobody is asked where left out."""

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
    """OTLP over gRPC."""
    http: HttpProtocol | None = None
    """OTLP over HTTP."""


class OtlpReceiver(Section, frozen=True):
    """``receivers.otlp``."""

    protocols: Protocols
    """At least one of ``grpc`` and ``http``."""
    max_pending_requests: _Positive = 1024
    """Requests that may wait for their commit; more are told to come back."""
    max_pending_mib: _PositiveMib = 256
    """MiB of request bodies in hand at once; more are told to come back."""
    max_concurrent_requests: _Positive = 1024
    """Requests in hand at once, from their headers to their answer; more are told to come back."""
    max_request_items: _Positive = 100_000
    """Spans or log records in one request; a request with more is too large."""
    max_item_attributes: _Positive = 1_000
    """Attributes of one span, log record or resource; an item with more is refused singly."""


class PrometheusExporter(Section, frozen=True):
    """``exporters.prometheus``: an endpoint to scrape."""

    endpoint: Endpoint = Endpoint("localhost", 9464)
    """Where ``/metrics`` is served."""
    tls: ServerTls | None = None
    """Speak TLS; plain text where left out."""
    auth: Auth | None = None
    """Ask for a credential; nobody is asked where left out."""


class Compression(Word):
    """Compression of what is pushed."""

    GZIP = "gzip"
    NONE = "none"


class ClientTls(Section, frozen=True):
    """``tls`` of a client; TLS is on unless ``insecure``."""

    insecure: bool = False
    """Plain text, no TLS."""
    ca_file: str | None = None
    """PEM: who issues the server's certificate; the system's list where left out."""
    cert_file: str | None = None
    """PEM: the certificate that this client shows."""
    key_file: str | None = None
    """PEM: the private key of that certificate."""


class SendingQueue(Section, frozen=True):
    """``sending_queue``: what waits for a backend, on disk; for traces and logs."""

    enabled: bool = True
    """For traces and logs it is always on: ``false`` is refused."""
    num_consumers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Requests sent at once."""
    queue_size: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 10_000
    """Requests that may wait; more are told to come back."""
    size_mib: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1024
    """MiB of bodies that may wait; more are told to come back."""
    storage: str | None = None
    """The queue's file; beside a SQLite ledger where left out."""


class RetryOnFailure(Section, frozen=True):
    """``retry_on_failure``; the collector's defaults, but nothing is given up by itself."""

    enabled: bool = True
    """Send again what could not be sent."""
    initial_interval: Duration = Duration(5 * SECOND)
    """Wait before the first repetition."""
    randomization_factor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """Share by which each wait varies."""
    multiplier: Annotated[float, msgspec.Meta(ge=1)] = 1.5
    """By how much each wait is longer than the one before."""
    max_interval: Duration = Duration(30 * SECOND)
    """Longest wait."""
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
    """Sent with every request, such as credentials; never shown."""
    tls: ClientTls = ClientTls()
    """How to speak TLS."""
    timeout: Duration = Duration(5 * SECOND)
    """Limit of one attempt."""
    compression: Compression = Compression.GZIP
    """Of requests."""
    interval: Duration | None = None
    """Time between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60 s, where left out."""
    sending_queue: SendingQueue = SendingQueue()
    """What waits for the backend."""
    retry_on_failure: RetryOnFailure = RetryOnFailure()
    """What happens when the backend is away."""


class OtlpHttpExporter(Section, frozen=True):
    """``exporters.otlphttp`` (HTTP): metrics are pushed, traces and logs forwarded."""

    endpoint: Annotated[str, msgspec.Meta(pattern=r"^https?://")]
    """Base URL, to which ``/v1/metrics``, ``/v1/traces`` and ``/v1/logs`` are added."""
    encoding: BodyEncoding = BodyEncoding.PROTO
    """Of traces and logs; metrics are pushed as protobuf."""
    headers: dict[str, Secret] = msgspec.field(default_factory=dict)
    """Sent with every request, such as credentials; never shown."""
    tls: ClientTls = ClientTls()
    """How to speak TLS."""
    timeout: Duration = Duration(30 * SECOND)
    """Limit of one attempt."""
    compression: Compression = Compression.GZIP
    """Of requests."""
    interval: Duration | None = None
    """Time between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60 s, where left out."""
    sending_queue: SendingQueue = SendingQueue()
    """What waits for the backend."""
    retry_on_failure: RetryOnFailure = RetryOnFailure()
    """What happens when the backend is away."""


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
    """Whether the pages are there."""
    jaeger_url: str | None = None
    """Base URL of Jaeger's pages, to which ``/trace/<trace id>`` is added."""
    hosts: tuple[str, ...] = ()
    """Further names under which the pages may be asked for, where nobody is asked for a token."""

    def check(self, key: str) -> None:
        """Check what stands on pages as a link, and whom they are shown to.

        Raises:
            ConfigurationError: A value cannot be used.
        """
        if self.jaeger_url is not None and not _WEB_URL.fullmatch(self.jaeger_url):
            # Not shown, as somebody may have put a password into it.
            raise ConfigurationError(
                f"{key}.jaeger_url",
                "wants a URL such as http://localhost:16686, without user, query or fragment",
            )
        for index, host in enumerate(self.hosts):
            if not _HOST_NAME.fullmatch(host):
                raise ConfigurationError(
                    f"{key}.hosts[{index}]", f"wants a host name without a port, got {shown(host)}"
                )


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
    """Leave out lines that say the same over and over."""
    tick: Duration = Duration(10 * SECOND)
    """How long lines are counted together."""
    initial: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Lines that say the same which are written in each tick."""
    thereafter: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Of the others in the tick, one of so many is written; 0 is none."""


class Logs(Section, frozen=True):
    """``service.telemetry.logs``."""

    level: LogLevel = LogLevel.INFO
    """The least that is said."""
    encoding: LogEncoding = LogEncoding.CONSOLE
    """How a line is written."""
    output_paths: tuple[str, ...] = ("stderr",)
    """``stderr``, ``stdout`` and files."""
    sampling: LogSampling = LogSampling()
    """What is left out of many lines that say the same."""


class HealthCheck(Section, frozen=True):
    """``extensions.health_check``."""

    endpoint: Endpoint = Endpoint("localhost", 13133)
    """Where probes ask."""
    path: _UrlPath = "/"
    """Says, as ``/ready`` does, whether exports are taken; ``/health`` says that it lives."""
    tls: ServerTls | None = None
    """Speak TLS; plain text where left out."""

    @property
    def auth(self) -> Auth | None:
        """Probes show no credentials, and are told nothing else."""
        return None


class Telemetry(Section, frozen=True):
    """``service.telemetry``."""

    logs: Logs = Logs()
    """The process's own log."""


class Pipeline(Section, frozen=True):
    """One of ``service.pipelines``: ids of components."""

    receivers: tuple[str, ...] = ()
    """Where it comes from; of metrics, and of verdicts alone, the processor."""
    processors: tuple[str, ...] = ()
    """Must name the processor; of metrics, and of verdicts alone, none."""
    exporters: tuple[str, ...] = ()
    """Where it goes: traces and logs are forwarded with the verdicts, metrics published."""


class Service(Section, frozen=True):
    """``service``."""

    extensions: tuple[str, ...] = ()
    """Must name every extension that is defined."""
    pipelines: dict[str, Pipeline] = msgspec.field(default_factory=dict)
    """``traces``, ``logs`` and ``metrics``; a signal that none names is not taken."""
    telemetry: Telemetry = Telemetry()
    """What the process says about itself."""
    shutdown_timeout: Duration = Duration(5 * SECOND)
    """How long requests in flight and what waits for backends may take when the process ends."""


ForwardingExporter = OtlpExporter | OtlpHttpExporter
Exporter = PrometheusExporter | ForwardingExporter
Extension = LedgerExtension | BearerTokenAuth | PagesExtension | HealthCheck
