"""``TurnAvoidanceExporter``: spans of this process, judged in this process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_turnavoid.errors import ConfigurationError, TurnAvoidError
from otel_turnavoid.exporter.engine import Engine
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.store import DEFAULT_URL
from otel_turnavoid.vocabulary import Env

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData

    from otel_turnavoid.publish.prometheus import TotalsCollector
    from otel_turnavoid.publish.push import OtlpPusher
    from otel_turnavoid.publish.totals import Totals

LEDGER_VARIABLE: Final = Env.LEDGER
CONFIG_VARIABLE: Final = Env.CONFIG
METRICS_VARIABLE: Final = Env.METRICS
"""``otlp`` pushes the accounts as ``OTEL_EXPORTER_OTLP_*`` say; else they are not pushed."""

_logger = logging.getLogger(__name__)


class TurnAvoidanceExporter(SpanExporter):
    """Reads, stores and judges spans where they are made; put it behind a batch processor.

    The ledger is a database like that of ``turnavoid collect``: several processes may share it,
    and ``turnavoid pairs``, ``runs`` and ``report`` read it. It is opened at the first export,
    and again in a forked child. Deciding happens in a daemon thread.

    An observer needs an identity of its own: give it a ``TracerProvider`` with its own
    ``service.name`` and send its spans (``Observer(tracer_provider=…)``) to this exporter, here
    or in another process on the same ledger. Here only while resources do not name the process
    (``process.pid``): where they do, what the agent's own process saw proves nothing.

    Args:
        ledger: Database URL; default ``TURNAVOID_LEDGER``, else a file in the working directory.
        settings: How to read and judge; default: ``processors.turnavoid`` of the YAML file that
            ``TURNAVOID_CONFIG`` names, else the defaults.
        metric_exporter: Where the accounts are pushed at ``OTEL_METRIC_EXPORT_INTERVAL``;
            default: an OTLP exporter where ``TURNAVOID_METRICS`` is ``otlp``, else nowhere.

    Raises:
        ConfigurationError: ``TURNAVOID_CONFIG`` or ``TURNAVOID_METRICS`` cannot be used.
    """

    def __init__(
        self,
        ledger: str | None = None,
        *,
        settings: Settings | None = None,
        metric_exporter: MetricExporter | None = None,
    ) -> None:
        self._url = ledger or os.environ.get(LEDGER_VARIABLE) or DEFAULT_URL
        self._settings = _settings() if settings is None else settings
        self._metric_exporter = metric_exporter or _metric_exporter()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._pusher: OtlpPusher | None = None
        self._pid = os.getpid()
        self._inherited: tuple[object, ...] = ()
        self._shut = False
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Commit what the spans say; what it returns success for is durable."""
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - on use
            encode_spans,
        )

        try:
            with _quiet():
                self._open().add(encode_spans(spans).SerializeToString())
        except TurnAvoidError as error:
            if not self._failing:
                self._failing = True
                _logger.error("spans cannot be stored: %s", error)  # noqa: TRY400 - one line
            return SpanExportResult.FAILURE
        self._failing = False
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002 - never waits
        """Judge what is due now; False where the ledger cannot be used."""
        try:
            with _quiet():
                self._open().decide()
        except TurnAvoidError as error:
            _logger.error("the ledger cannot decide: %s", error)  # noqa: TRY400 - one line
            return False
        return True

    def shutdown(self) -> None:
        """Judge what has all its evidence, push a last time, close the ledger; safe twice."""
        with self._lock:
            if self._shut:
                return
            self._shut = True
            engine, pusher = self._engine, self._pusher
        if engine is None or self._pid != os.getpid():
            return
        try:
            with _quiet():
                engine.close()
        except TurnAvoidError as error:
            _logger.error("the ledger cannot be closed in order: %s", error)  # noqa: TRY400 - one line
        if pusher is not None:
            pusher.shutdown()

    @property
    def totals(self) -> Totals:
        """The accounts so far.

        Raises:
            TurnAvoidError: The ledger cannot be opened.
        """
        return self._open().totals

    def collector(self) -> TotalsCollector:
        """Return a collector of the accounts for a registry of the Prometheus client.

        Raises:
            TurnAvoidError: The ledger cannot be opened.
        """
        from otel_turnavoid.publish.prometheus import TotalsCollector  # noqa: PLC0415 - optional

        return TotalsCollector(self.totals)

    def _open(self) -> Engine:
        with self._opening_lock():
            if self._engine is None:
                if self._shut:
                    raise TurnAvoidError("the exporter has been shut down")
                self._engine = Engine(self._url, self._settings)
                if self._metric_exporter is not None:
                    self._pusher = self._push(self._engine, self._metric_exporter)
            return self._engine

    def _opening_lock(self) -> threading.Lock:
        if self._pid != os.getpid():
            # A forked child: connections and threads belong to the parent.
            self._pid = os.getpid()
            self._lock = threading.Lock()
            # Kept, because closing a parent's connections in its child can harm its database.
            self._inherited = (self._engine, self._pusher)
            self._engine = self._pusher = None
        return self._lock

    def _push(self, engine: Engine, exporter: MetricExporter) -> OtlpPusher:
        from otel_turnavoid.publish.metrics import (  # noqa: PLC0415 - optional
            ledger_instance_id,
            metrics_data,
            service_resource,
        )
        from otel_turnavoid.publish.push import OtlpPusher  # noqa: PLC0415 - optional

        birth_ns = engine.ledger.birth_ns
        resource = service_resource(ledger_instance_id(birth_ns))

        def read() -> MetricsData:
            return metrics_data(
                engine.totals.snapshot(),
                birth_ns=birth_ns,
                now_ns=time.time_ns(),
                resource=resource,
            )

        pusher = OtlpPusher(read, exporter)
        pusher.start()
        return pusher


def _settings() -> Settings:
    path = os.environ.get(CONFIG_VARIABLE)
    if not path:
        return Settings()
    from otel_turnavoid.collector import config  # noqa: PLC0415 - only with a file

    return config.load(path).settings


def _metric_exporter() -> MetricExporter | None:
    wanted = os.environ.get(METRICS_VARIABLE, "").strip().lower()
    if wanted in ("", "none"):
        return None
    if wanted != "otlp":
        raise ConfigurationError(METRICS_VARIABLE, f"must be otlp or none (got {wanted!r})")
    from otel_turnavoid.publish.push import Target  # noqa: PLC0415 - only where wanted

    return Target().exporter()


class _quiet:  # noqa: N801 - used as a function
    """Keep instrumentations of databases from making spans of the ledger's own work."""

    def __enter__(self) -> None:
        quiet = context_api.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)  # noqa: FBT003 - a value
        self._token: Any = context_api.attach(quiet)

    def __exit__(self, *_error: object) -> None:
        context_api.detach(self._token)
