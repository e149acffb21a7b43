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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, final

from sqlalchemy import make_url

from otel_turnavoid.collector import grpc_receiver, health, http_receiver, telemetry
from otel_turnavoid.collector.announcer import Announcer
from otel_turnavoid.collector.answer import Signal
from otel_turnavoid.collector.budget import Budget
from otel_turnavoid.collector.components import MIB, OtlpReceiver, PrometheusExporter
from otel_turnavoid.collector.config import Config
from otel_turnavoid.collector.decider import Decider
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.exporters import Exporters
from otel_turnavoid.collector.forwarding import forwarding
from otel_turnavoid.collector.grpc_server import GrpcServer
from otel_turnavoid.collector.intake import Intake
from otel_turnavoid.collector.journal import Bell, Journal
from otel_turnavoid.collector.ledger_service import LedgerService
from otel_turnavoid.collector.memory import MemoryGuard
from otel_turnavoid.collector.page_door import PageDoor
from otel_turnavoid.collector.protection import Protection
from otel_turnavoid.collector.readiness import Readiness
from otel_turnavoid.collector.rounds import Rounds
from otel_turnavoid.collector.telemetry import Telemetry
from otel_turnavoid.collector.tenure import Tenure
from otel_turnavoid.collector.web_server import WebServer
from otel_turnavoid.collector.writer import Writer
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import ConfigurationError, UsageError
from otel_turnavoid.forward import Forwarder
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.otlp import Limits
from otel_turnavoid.pages import site
from otel_turnavoid.pages.counting import Counting
from otel_turnavoid.store import DEFAULT_URL, Ledger

PROBES_GRACE_S: Final = 1.0
"""How long probes may take to end, when all else has ended."""

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
        self._ledger_url = str(ledger_url or config.ledger_url or DEFAULT_URL)
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._servers: list[WebServer | GrpcServer] = []
        self._readiness: Readiness | None = None
        self._grace_s = config.shutdown_timeout.seconds
        self._ends_s = 0.0
        self._door: PageDoor | None = None
        self.ledger_name = ""
        """URL of the ledger without a password, once started."""
        self.grpc_endpoint: str | None = None
        """``host:port`` of OTLP/gRPC and LedgerService once started; None where it is off."""
        self.http_endpoint: str | None = None
        """Base URL of OTLP/HTTP once started; None where it is off."""
        self.pages_url: str | None = None
        """Where the pages for people begin once started; None where they are off."""
        self.metrics_endpoints: tuple[str, ...] = ()
        """URLs to scrape, once started."""
        self.health_endpoint: str | None = None
        """Base URL for probes once started; None where there is none."""

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

    def stop(self, grace_s: float | None = None, *, within_s: float | None = None) -> bool:
        """Drain and stop: what was accepted is committed, what is due is decided and published.

        Args:
            grace_s: How long requests in flight may take to end; the configuration's if left out.
            within_s: How long to wait for all of it; None waits until it is done.

        Returns:
            Whether it is done. What was accepted is in the ledger in any case.
        """
        if self._thread is None:
            return True
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            if grace_s is not None:
                self._grace_s = grace_s
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # the loop ended meanwhile
                _logger.debug("stopped already")
        self._thread.join(within_s)
        return not self._thread.is_alive()

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
            if self._readiness is not None:
                self._readiness.stop()
            self._ends_s = self._loop.time() + self._grace_s
            _logger.info("stopping: draining what was accepted")
        _logger.info("stopped")

    async def _assemble(self, parts: AsyncExitStack) -> None:
        config, bell = self._config, Bell()
        own = Telemetry(config.receiver_key.removeprefix("receivers."))
        protection = Protection(config.authenticators, own, parts)
        # Probes are answered first and last: a processor that reads a long journal is alive.
        readiness = self._readiness = Readiness()
        own.gauge(telemetry.READY, lambda: float(readiness.ready))
        await self._answer_probes(readiness, own, protection, parts)
        writing = parts.enter_context(_threads("writer", 1))
        deciding = parts.enter_context(_threads("decider", 1))
        holding = parts.enter_context(_threads("tenure", 1))
        decoding = parts.enter_context(_threads("decoder", _DECODERS))
        reading = parts.enter_context(_threads("reader", _READERS))

        ledger = await _in(deciding, lambda: Ledger.open(self._ledger_url))
        parts.push(lambda kind, *_: ledger.discard() if kind else ledger.close())
        self.ledger_name = ledger.name
        tenure = Tenure(ledger, holding, lease_s=config.ledger.lease.seconds)
        await _in(holding, tenure.renew)
        await parts.enter_async_context(self._working(tenure.run(), tenure.close))
        journal = Journal(ledger, tenure, config.settings, own, self._clock)
        await _in(deciding, journal.read_on)
        self._door = self._pages(ledger, parts)
        exporters = Exporters(ledger.birth_ns, journal.parts, own)
        for name, exporter in config.exporters.items():
            if not isinstance(exporter, PrometheusExporter):
                await parts.enter_async_context(exporters.pushing(exporter, f"exporters.{name}"))

        forwarders = await parts.enter_async_context(
            forwarding(config, self._ledger_url, own, failed=self._end, grace_s=self._grace_left_s)
        )

        announcer = Announcer(
            ledger, tenure, forwarders.verdicts, bell, reading, resource=exporters.identity
        )
        await announcer.begin()
        await parts.enter_async_context(self._working(announcer.run(), announcer.close))
        rounds = Rounds(
            ledger,
            tenure,
            journal,
            settings=config.settings,
            limits=config.ledger,
            own=own,
            clock=self._clock,
        )
        decider = Decider(
            rounds,
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
                key = f"exporters.{name}"
                guard = await protection.reading(exporters.scraped(), exporter, key)
                server = WebServer(guard.app, exporter.endpoint, f"{key}.endpoint", guard.tls)
                await self._start_server(server)
                at = Endpoint(exporter.endpoint.host, server.port)
                self.metrics_endpoints += (f"{guard.scheme}://{at}/metrics",)
        reader, limits = Reader(config.settings), _limits(config.receiver)
        intake = Intake(reader, writer, decoding, own, forwarders.received, limits=limits)
        service = LedgerService(ledger, bell, reading, config.settings)
        budget = await self._receive(intake, service, decoding, protection, parts)
        readiness.started(
            lambda: _in(holding, tenure.renew),
            others=lambda: _refusals(budget, forwarders.received),
            changed=self._say_serving,
        )
        await readiness.look()
        await parts.enter_async_context(self._working(readiness.run(), readiness.stop))

    async def _answer_probes(
        self,
        readiness: Readiness,
        own: Telemetry,
        protection: Protection,
        parts: AsyncExitStack,
    ) -> None:
        section, key = self._config.health, self._config.health_key
        if section is None:
            return
        app = health.application(readiness, section.path, own.started_ns, time.time_ns)
        guard = await protection.reading(app, section, key)
        server = WebServer(guard.app, section.endpoint, f"{key}.endpoint", guard.tls)
        await server.start()
        parts.push_async_callback(server.stop, PROBES_GRACE_S)
        at = Endpoint(section.endpoint.host, server.port)
        self.health_endpoint = f"{guard.scheme}://{at}"

    async def _say_serving(self, ready: bool) -> None:  # noqa: FBT001 - the only thing said
        for server in self._servers:
            if isinstance(server, GrpcServer):
                await server.say_serving(ready=ready)

    async def _receive(
        self,
        intake: Intake,
        ledger_service: LedgerService,
        decoding: ThreadPoolExecutor,
        protection: Protection,
        parts: AsyncExitStack,
    ) -> Budget:
        receiver, key = self._config.receiver, f"{self._config.receiver_key}.protocols"
        budget = Budget(receiver.max_pending_mib * MIB, receiver.max_concurrent_requests)
        await self._guard_memory(budget, parts)
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
            guard = await protection.sending(app, http, f"{key}.http", self._door)
            web = WebServer(
                guard.app,
                http.endpoint,
                f"{key}.http.endpoint",
                guard.tls,
                limits=http.connection_limits(),
                busy=http_receiver.busy,
            )
            await self._start_server(web)
            self.http_endpoint = f"{guard.scheme}://{Endpoint(http.endpoint.host, web.port)}"
            self.pages_url = f"{self.http_endpoint}/" if self._door else None
        grpc = receiver.protocols.grpc
        if grpc is not None:
            patience_s = grpc.read_timeout.seconds
            exports = grpc_receiver.handlers(intake, budget, signals, patience_s)
            asked = await protection.calls(grpc, f"{key}.grpc")
            server = GrpcServer(grpc, f"{key}.grpc", exports, ledger_service, asked)
            await self._start_server(server)
            self.grpc_endpoint = str(Endpoint(grpc.endpoint.host, server.port))
        return budget

    def _pages(self, ledger: Ledger, parts: AsyncExitStack) -> PageDoor | None:
        """Return the way to the pages; None where they are off, or nothing serves them."""
        section, http = self._config.pages, self._config.receiver.protocols.http
        if not section.enabled or http is None:
            return None
        counting = Counting(ledger)
        source = site.Source(
            ledger,
            self._config.settings,
            counting,
            reading=parts.enter_context(_threads("pages", site.READERS)),
            counter=parts.enter_context(_threads("counter", site.COUNTERS)),
            jaeger_url=section.jaeger_url and section.jaeger_url.rstrip("/"),
            clock=self._clock,
        )
        # Before its thread is waited for.
        parts.callback(counting.close)
        exports = (http.traces_url_path, http.logs_url_path)
        hosts = (http.endpoint.host, *section.hosts)
        return PageDoor(site.application(source), exports, hosts)

    async def _guard_memory(self, budget: Budget, parts: AsyncExitStack) -> None:
        limiter = self._config.memory
        if limiter is None:
            return
        soft, hard = limiter.limits(self._config.memory_key)
        guard = MemoryGuard(soft, hard, budget.give_up_arriving)
        try:
            guard.look()
        except OSError:
            problem = "this system does not say how much memory is in use"
            raise ConfigurationError(self._config.memory_key, problem) from None
        budget.pressed = guard.short
        work = guard.run(limiter.check_interval.seconds)
        await parts.enter_async_context(self._working(work, guard.close))

    async def _start_server(self, server: WebServer | GrpcServer) -> None:
        await server.start()
        self._servers.append(server)

    def _end(self) -> None:
        """End by itself: without one of its parts a processor would do nothing, in silence."""
        if self._stopping is not None:
            self._stopping.set()

    def _grace_left_s(self) -> float:
        """Return how much is left of the time that stopping may take."""
        return max(0.0, self._ends_s - asyncio.get_running_loop().time())

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


def _limits(receiver: OtlpReceiver) -> Limits:
    return Limits(items=receiver.max_request_items, attributes=receiver.max_item_attributes)


def _refusals(budget: Budget, forwarder: Forwarder) -> Iterator[str]:
    """Yield what keeps exports from being taken now, beside the ledger."""
    if budget.pressed():
        yield "memory is short"
    for exporter in forwarder.exporters:
        if not exporter.queue.has_room(1):
            yield f"the queue of {exporter.name} is full"


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
