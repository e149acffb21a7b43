"""The gRPC server: OTLP, LedgerService, health and reflection on one port."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from otel_turnavoid._proto.turnavoid.v1 import ledger_pb2, ledger_pb2_grpc
from otel_turnavoid.collector.auth import ANYONE, READERS, SENDERS
from otel_turnavoid.collector.components import MIB, GrpcProtocol, ServerParameters
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.endpoint import Endpoint, listen
from otel_turnavoid.collector.grpc_receiver import SERVICES
from otel_turnavoid.collector.ledger_service import LedgerService
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.vocabulary import Role

LEDGER_SERVICE: Final = ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"].full_name
_MILLISECOND: Final = 1_000_000

_KEEPALIVE: Final = {
    "max_connection_idle": "grpc.max_connection_idle_ms",
    "max_connection_age": "grpc.max_connection_age_ms",
    "max_connection_age_grace": "grpc.max_connection_age_grace_ms",
    "time": "grpc.keepalive_time_ms",
    "timeout": "grpc.keepalive_timeout_ms",
}


class GrpcGuard(NamedTuple):
    """What stands before the server."""

    credentials: grpc.ServerCredentials | None = None
    """TLS; None speaks in plain text."""
    gate: grpc.aio.ServerInterceptor[Any, Any] | None = None
    """Asks callers for credentials; None asks nobody."""


class GrpcServer:
    """Serves from ``start`` to ``stop``."""

    def __init__(
        self,
        config: GrpcProtocol,
        key: str,
        exports: dict[str, grpc.GenericRpcHandler[Any, Any]],
        ledger_service: LedgerService,
        guard: GrpcGuard | None = None,
    ) -> None:
        """Prepare.

        Args:
            config: Where to listen, and the limits.
            key: Where ``config`` stands in the configuration, for errors.
            exports: OTLP handlers by the name of their service.
            ledger_service: The reads of the ledger.
            guard: TLS, and who may call; without it plain text, and anyone.
        """
        self._guard = guard or GrpcGuard()
        self._config = config
        self._key = key
        self._exports = exports
        self._ledger_service = ledger_service
        self._health = HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._names = (*exports, LEDGER_SERVICE)
        self.port = 0
        """The real port, once started."""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: The endpoint cannot be listened on.
        """
        gates = [] if self._guard.gate is None else [self._guard.gate]
        server = grpc.aio.server(options=_options(self._config), interceptors=gates)
        server.add_generic_rpc_handlers(tuple(self._exports.values()))
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(self._ledger_service, server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        shown = (*self._names, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection.enable_server_reflection((*shown, reflection.SERVICE_NAME), server)
        key = f"{self._key}.endpoint"
        self.port = _bind(server, self._config.endpoint, key, self._guard.credentials)
        await server.start()
        self._server = server
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def say_serving(self, *, ready: bool) -> None:
        """Say in health whether exports are taken; the ledger is read all the same."""
        said = health_pb2.HealthCheckResponse.SERVING
        if not ready:
            said = health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._exports):
            await self._health.set(name, said)

    async def stop(self, grace_s: float) -> None:
        """Say NOT_SERVING, take no more calls, and give those in flight ``grace_s`` seconds."""
        if self._server is None:
            return
        server, self._server = self._server, None
        await self._health.enter_graceful_shutdown()
        self._ledger_service.end_streams()
        await server.stop(grace_s)


def roles_of(service: str) -> frozenset[Role] | None:
    """Return who may call a service; None where nobody is asked.

    Health is for probes, which show no credentials, and says nothing else. What is unknown is
    not even denied to strangers.
    """
    if service == health_pb2.DESCRIPTOR.services_by_name["Health"].full_name:
        return None
    if service == LEDGER_SERVICE:
        return READERS
    return SENDERS if service in SERVICES.values() else ANYONE


def _bind(
    server: grpc.aio.Server,
    endpoint: Endpoint,
    key: str,
    credentials: grpc.ServerCredentials | None,
) -> int:
    # grpcio says only that binding failed; a socket of our own finds out why. It also finds
    # a port that one family has free and the other not, which grpcio would take in silence.
    probes = listen(endpoint, key)
    port = int(probes[0].getsockname()[1])
    for probe in probes:
        with contextlib.closing(probe):
            pass
    try:
        address = str(Endpoint(endpoint.host, port))
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError:
        raise ConfigurationError(key, f"cannot listen on {endpoint}") from None


def _options(config: GrpcProtocol) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.max_recv_msg_size_mib * MIB),
        ("grpc.max_concurrent_streams", config.max_concurrent_streams),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(config.connection_timeout)),
        # Without this a second process would share the port, and each get half of the spans.
        ("grpc.so_reuseport", 0),
        *_keepalive(config.keepalive.server_parameters),
    ]


def _keepalive(parameters: ServerParameters) -> Iterable[tuple[str, int]]:
    for field, option in _KEEPALIVE.items():
        value = getattr(parameters, field)
        if value is not None:
            yield option, _milliseconds(value)


def _milliseconds(duration: Duration) -> int:
    return max(1, int(duration) // _MILLISECOND)
