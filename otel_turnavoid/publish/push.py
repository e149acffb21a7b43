"""Metrics pushed over OTLP, with the stock exporters, on a thread of its own.

A push carries the totals so far, so one that fails loses nothing: the next carries everything.
Failures are counted, logged when they begin and when they end, and never raised.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from opentelemetry import context
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
)
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE,
    OTEL_METRIC_EXPORT_INTERVAL,
)
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

from otel_turnavoid.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    import grpc

DEFAULT_INTERVAL_S: Final = 60.0

MAX_POINTS: Final = 8000
"""Data points in one gRPC request: safely below gRPC's 4 MiB for a message."""

_EXPORTER_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)

_logger = logging.getLogger(__name__)


class Protocol(str, Enum):
    """How to speak OTLP, in the spelling of ``OTEL_EXPORTER_OTLP_PROTOCOL``."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


class Compression(str, Enum):
    """How to compress a push."""

    NONE = "none"
    GZIP = "gzip"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where to push; what is None is left to the ``OTEL_EXPORTER_OTLP_*`` variables."""

    protocol: Protocol = Protocol.GRPC
    endpoint: str | None = None
    """gRPC: ``host:port`` or a URL. HTTP: the base URL, to which ``/v1/metrics`` is added."""
    headers: dict[str, str] = {}
    timeout_s: float | None = None
    """Limit of one push with its retries."""
    compression: Compression | None = None
    insecure: bool | None = None
    """gRPC without TLS; a URL decides by its scheme."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def __repr__(self) -> str:
        # Headers carry tokens.
        return f"Target({self.protocol.value} {self.endpoint})"

    def exporter(self) -> MetricExporter:
        """Return a stock exporter for this target.

        Raises:
            ConfigurationError: A certificate cannot be read.
        """
        return _grpc(self) if self.protocol is Protocol.GRPC else _http(self)


class OtlpPusher:
    """Pushes metrics when started, then at an interval, and a last time at shutdown."""

    def __init__(
        self,
        read: Callable[[], MetricsData],
        exporter: MetricExporter,
        *,
        interval_s: float | None = None,
    ) -> None:
        """Prepare, without a thread or a connection yet.

        Args:
            read: Returns what to push, as of now (``metrics.metrics_data``); any thread.
            exporter: How to push it, such as ``Target().exporter()``; shut down with this.
            interval_s: Seconds between pushes; ``OTEL_METRIC_EXPORT_INTERVAL``, else 60.

        Raises:
            ConfigurationError: The interval is not a positive number.
        """
        self.pushed = 0
        """Pushes that arrived."""
        self.failed = 0
        """Pushes that did not."""
        self._read = read
        self._exporter = exporter
        self._interval_s = default_interval_s() if interval_s is None else interval_s
        if not 0 < self._interval_s < threading.TIMEOUT_MAX:
            raise ConfigurationError("interval", f"must be above 0 s (got {self._interval_s})")
        self._failing = False
        self._pushing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        _warn_of_other_temporality()

    def start(self) -> None:
        """Push now and keep pushing in the background."""
        if self._thread is not None or self._stop.is_set():
            raise UsageError("a pusher is started once")
        self._thread = threading.Thread(target=self._run, name="turnavoid-push", daemon=True)
        self._thread.start()

    def push(self) -> bool:
        """Push once, in the calling thread, and return whether it arrived; raises nothing."""
        with self._pushing:
            problem = self._export()
            if problem is None:
                self.pushed += 1
                if self._failing:
                    _logger.info("metrics are pushed again")
            else:
                self.failed += 1
                if not self._failing:
                    _logger.warning("metrics cannot be pushed, will keep trying: %s", problem)
            self._failing = problem is not None
            return problem is None

    def shutdown(self, timeout_s: float = 5.0) -> None:
        """Push a last time and release the exporter, within ``timeout_s``; safe to repeat."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._exporter.shutdown()

    def _run(self) -> None:
        self.push()
        while not self._stop.wait(self._interval_s):
            self.push()
        self.push()

    def _export(self) -> str | None:
        """Return what went wrong, in one line."""
        try:
            data = self._read()
            with _uninstrumented(), _overheard() as said:
                result = self._exporter.export(data)
        except Exception as error:  # noqa: BLE001  # publishing must never break judging
            return f"{type(error).__name__}: {error}"
        if result is MetricExportResult.SUCCESS:
            return None
        return "; ".join(dict.fromkeys(said[-2:])) or "the exporter gave no reason"


def default_interval_s() -> float:
    """Return the seconds between pushes that ``OTEL_METRIC_EXPORT_INTERVAL`` (ms) asks for.

    Raises:
        ConfigurationError: The variable is not a positive number.
    """
    text = os.environ.get(OTEL_METRIC_EXPORT_INTERVAL, "").strip()
    if not text:
        return DEFAULT_INTERVAL_S
    try:
        interval_s = float(text) / 1000
    except ValueError:
        interval_s = 0.0
    if not 0 < interval_s < threading.TIMEOUT_MAX:
        raise ConfigurationError(
            OTEL_METRIC_EXPORT_INTERVAL, f"must be a number of milliseconds above 0 (got {text!r})"
        )
    return interval_s


def _grpc(target: Target) -> MetricExporter:
    import grpc  # noqa: PLC0415  # loaded only by those who push over gRPC
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )

    compressions = {
        None: None,
        Compression.NONE: grpc.Compression.NoCompression,
        Compression.GZIP: grpc.Compression.Gzip,
    }
    return OTLPMetricExporter(
        endpoint=target.endpoint,
        insecure=target.insecure,
        credentials=_credentials(target),
        headers={key.lower(): value for key, value in target.headers.items()} or None,
        timeout=target.timeout_s,
        compression=compressions[target.compression],
        max_export_batch_size=MAX_POINTS,
    )


def _credentials(target: Target) -> grpc.ChannelCredentials | None:
    if target.ca_file is None and target.cert_file is None and target.key_file is None:
        return None
    import grpc  # noqa: PLC0415

    return grpc.ssl_channel_credentials(
        _read("ca_file", target.ca_file),
        _read("key_file", target.key_file),
        _read("cert_file", target.cert_file),
    )


def _read(key: str, path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"tls.{key}", f"cannot be read: {error}") from error


def _http(target: Target) -> MetricExporter:
    import requests  # noqa: PLC0415  # what the exporter sends with
    from opentelemetry.exporter.otlp.proto.http import (  # noqa: PLC0415
        Compression as HttpCompression,
    )
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415
        OTLPMetricExporter,
    )

    class Session(requests.Session):
        """Trusts what the exporter was told to trust, whatever other programs should."""

        def merge_environment_settings(
            self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
        ) -> Any:
            # REQUESTS_CA_BUNDLE would win over the configuration.
            verify = self.verify if verify in (None, True) else verify
            return super().merge_environment_settings(url, proxies, stream, verify, cert)

    compressions = {
        None: None,
        Compression.NONE: HttpCompression.NoCompression,
        Compression.GZIP: HttpCompression.Gzip,
    }
    for key in ("ca_file", "key_file", "cert_file"):
        _read(key, getattr(target, key))  # the exporter would notice only at the first push
    return OTLPMetricExporter(
        endpoint=target.endpoint and f"{target.endpoint.rstrip('/')}/v1/metrics",
        certificate_file=_text(target.ca_file),
        client_key_file=_text(target.key_file),
        client_certificate_file=_text(target.cert_file),
        headers=target.headers or None,
        timeout=target.timeout_s,
        compression=compressions[target.compression],
        session=Session(),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _warn_of_other_temporality() -> None:
    key = OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE
    asked = os.environ.get(key, "").strip()
    if asked and asked.lower() != "cumulative":
        _logger.warning("%s=%s is not supported: totals are pushed as cumulative", key, asked)


@contextmanager
def _uninstrumented() -> Iterator[None]:
    """Keep instrumentations from making spans of our own export calls."""
    quiet = context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)  # noqa: FBT003  # a value
    quiet = context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, quiet)  # noqa: FBT003
    token = context.attach(quiet)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Collect what the stock exporters log in this thread, instead of logging it.

    They log every attempt at every interval and return no reason; the pusher says it once.
    """
    said: list[str] = []
    thread = threading.get_ident()

    def overhear(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        said.append(record.getMessage())
        return False

    loggers = [logging.getLogger(name) for name in _EXPORTER_LOGGERS]
    for logger in loggers:
        logger.addFilter(overhear)
    try:
        yield said
    finally:
        for logger in loggers:
            logger.removeFilter(overhear)
