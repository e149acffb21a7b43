"""The running processor: everything between a configuration and its end.

``Processor`` may be used from any thread. Inside, one thread runs an event loop with the
receivers, the writer and the decider; ledger work is done in threads of its own. Parts start
from the ledger upward and stop in the opposite order: intake first, then what waits is
committed, one more round of decisions is made, published, and the ledger closed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, final

from sqlalchemy import make_url

from otel_turnavoid.collector import grpc_receiver, http_receiver, telemetry
from otel_turnavoid.collector.answer import Signal
from otel_turnavoid.collector.components import MIB, PrometheusExporter
from otel_turnavoid.collector.config import Config
from otel_turnavoid.collector.decider import Decider
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.exporters import Exporters
from otel_turnavoid.collector.grpc_server import GrpcServer
from otel_turnavoid.collector.intake import Budget, Intake
from otel_turnavoid.collector.journal import Bell, Journal
from otel_turnavoid.collector.ledger_service import LedgerService
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.web_server import WebServer
from otel_turnavoid.collector.writer import Writer
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import UsageError
from otel_turnavoid.judge.accounts import known
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.store import DEFAULT_URL, Ledger

GRACE_S: Final = 5.0
"""How long calls in flight may take to end when the processor stops."""

_DECODERS: Final = 2
_READERS: Final = 4

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


@final
class Processor:
    """Takes OTLP, keeps the ledger, decides and publishes; from ``start`` to ``stop``.

    A processor is started once. ``stop`` is safe to call twice, or without ``start``.
    """

    def __init__(
        self,
        config: Config,
        *,
        ledger_url: str | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Prepare, touching nothing yet.

        Args:
            config: What to run.
            ledger_url: Wins over the configuration's.
            clock: Nanoseconds since the epoch, by which facts arrive and decisions wait.
        """
        self._config = config
        self._ledger_url = ledger_url or config.ledger_url or DEFAULT_URL
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._servers: list[WebServer | GrpcServer] = []
        self._grace_s = GRACE_S
        self.ledger_name = ""
        """URL of the ledger without a password, once started."""
        self.grpc_endpoint: str | None = None
        """``host:port`` of OTLP/gRPC and LedgerService once started; None where it is off."""
        self.http_endpoint: str | None = None
        """Base URL of OTLP/HTTP once started; None where it is off."""
        self.metrics_endpoints: tuple[str, ...] = ()
        """URLs to scrape, once started."""

    def start(self) -> None:
        """Start, and return when every endpoint listens.

        Raises:
            ConfigurationError: An endpoint cannot be listened on, or a file not be read.
            LedgerError: The ledger cannot be opened.
            UsageError: It was started before.
        """
        if self._thread is not None:
            raise UsageError("a processor is started once")
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(started,), name="turnavoid-processor", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Drain and stop: what was accepted is committed, what is due is decided and published.

        Args:
            grace_s: How long requests in flight may take to end.
        """
        if self._thread is None:
            return
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._grace_s = grace_s
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # the loop ended meanwhile
                _logger.debug("stopped already")
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def __enter__(self) -> Processor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _serve(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._run(started))
        except BaseException as error:  # it belongs to whoever called start
            if started.done():
                _logger.critical("the processor ended because of a bug", exc_info=error)
            else:
                started.set_exception(error)

    async def _run(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = stopping = asyncio.Event()
        async with AsyncExitStack() as parts:
            await self._assemble(parts)
            started.set_result(None)
            await stopping.wait()
            _logger.info("stopping: draining what was accepted")
        _logger.info("stopped")

    async def _assemble(self, parts: AsyncExitStack) -> None:
        config, own, bell = self._config, Telemetry(), Bell()
        writing = parts.enter_context(_threads("writer", 1))
        deciding = parts.enter_context(_threads("decider", 1))
        decoding = parts.enter_context(_threads("decoder", _DECODERS))
        reading = parts.enter_context(_threads("reader", _READERS))

        ledger = await _in(deciding, lambda: Ledger.open(self._ledger_url))
        parts.callback(ledger.close)
        self.ledger_name = ledger.name
        totals = Totals(known(config.settings))
        journal = Journal(ledger, totals, own)
        await _in(deciding, journal.catch_up)
        exporters = Exporters(ledger.birth_ns, totals, own)
        for name, exporter in config.exporters.items():
            if not isinstance(exporter, PrometheusExporter):
                await parts.enter_async_context(exporters.pushing(exporter, f"exporters.{name}"))

        def decide() -> bool:
            ledger.decide(config.settings, now_ns=self._clock())
            return journal.read_on()

        decider = Decider(
            decide,
            deciding,
            own,
            settle_s=config.settings.settle_ns / SECOND,
            decided=bell.ring,
        )
        await parts.enter_async_context(self._working(decider.run(), decider.close))
        writer = Writer(
            lambda facts, seen: ledger.add(facts, seen, arrived_ns=self._clock()),
            writing,
            own,
            limit=config.receiver.max_pending_requests,
            committed=decider.committed,
        )
        await parts.enter_async_context(self._working(writer.run(), writer.close))
        own.gauge(telemetry.DECISION_LAG, decider.lag_s)
        own.gauge(telemetry.PENDING_REQUESTS, lambda: writer.waiting)
        own.gauge(telemetry.LEDGER_SIZE, lambda: ledger_bytes(self._ledger_url))

        parts.push_async_callback(self._stop_servers)
        for name, exporter in config.exporters.items():
            if isinstance(exporter, PrometheusExporter):
                server = WebServer(
                    exporters.scraped(), exporter.endpoint, f"exporters.{name}.endpoint"
                )
                await self._start_server(server)
                at = Endpoint(exporter.endpoint.host, server.port)
                self.metrics_endpoints += (f"http://{at}/metrics",)
        intake = Intake(Reader(config.settings), writer, decoding, own)
        service = LedgerService(ledger, bell, reading, config.settings)
        await self._receive(intake, service, decoding)

    async def _receive(
        self,
        intake: Intake,
        ledger_service: LedgerService,
        decoding: ThreadPoolExecutor,
    ) -> None:
        receiver, key = self._config.receiver, f"{self._config.receiver_key}.protocols"
        budget = Budget(receiver.max_pending_mib * MIB)
        signals = frozenset(
            signal
            for signal, taken in (
                (Signal.TRACES, self._config.traces),
                (Signal.LOGS, self._config.logs),
            )
            if taken
        )
        http = receiver.protocols.http
        if http is not None:
            app = http_receiver.application(http, intake, budget, decoding, signals)
            web = WebServer(app, http.endpoint, f"{key}.http.endpoint")
            await self._start_server(web)
            self.http_endpoint = f"http://{Endpoint(http.endpoint.host, web.port)}"
        grpc = receiver.protocols.grpc
        if grpc is not None:
            exports = grpc_receiver.handlers(intake, budget, signals)
            server = GrpcServer(grpc, f"{key}.grpc", exports, ledger_service)
            await self._start_server(server)
            self.grpc_endpoint = str(Endpoint(grpc.endpoint.host, server.port))

    async def _start_server(self, server: WebServer | GrpcServer) -> None:
        await server.start()
        self._servers.append(server)

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop(self._grace_s) for server in self._servers))

    @asynccontextmanager
    async def _working(
        self, work: Coroutine[Any, Any, None], close: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Run ``work`` beside the block; at its end, ``close`` it and let it finish."""
        stopping = self._stopping

        def ended(task: asyncio.Task[None]) -> None:
            # Without one of its parts a processor would go on and do nothing, in silence.
            if stopping is not None and not task.cancelled() and task.exception() is not None:
                stopping.set()

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        try:
            yield
        finally:
            close()
            await task


def ledger_bytes(url: str) -> int | None:
    """Return the size of a ledger's files; None where it is not files on this machine."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return sum(_size(Path(parsed.database + suffix)) for suffix in ("", "-wal"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


async def _in(threads: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def _threads(name: str, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix=f"turnavoid-{name}")
