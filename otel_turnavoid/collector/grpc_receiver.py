"""OTLP over gRPC: one ``Export`` method a signal.

The methods take raw bytes: with grpcio's generated deserializer an undecodable request would
be answered INTERNAL before we see it, where OTLP wants INVALID_ARGUMENT. No exception leaves a
method, because grpcio would turn it into UNKNOWN, upon which senders drop their data.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NoReturn

import grpc

from otel_turnavoid.collector.answer import Answer, Refused, Signal, Trouble
from otel_turnavoid.collector.intake import Budget, Intake
from otel_turnavoid.collector.rpc_status import CODES, export_response, retry_info, status

SERVICES: Final = {
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
}

_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}
_TRANSPORT: Final = "grpc"
_BUSY: Final = Refused(Trouble.UNAVAILABLE, "too many bytes of requests in hand")

_Context = grpc.aio.ServicerContext[Any, Any]
_Export = Callable[[bytes, _Context], Awaitable[bytes]]

_logger = logging.getLogger(__name__)


def handlers(
    intake: Intake, budget: Budget, signals: Iterable[Signal]
) -> dict[str, grpc.GenericRpcHandler[Any, Any]]:
    """Return the export services of the signals taken, by name; others are UNIMPLEMENTED."""
    return {
        SERVICES[signal]: grpc.method_handlers_generic_handler(
            SERVICES[signal],
            {"Export": grpc.unary_unary_rpc_method_handler(_export(intake, budget, signal))},
        )
        for signal in signals
    }


def _export(intake: Intake, budget: Budget, signal: Signal) -> _Export:
    async def answered(body: bytes) -> Answer:
        with budget.hold() as more:
            if not more(len(body)):
                return intake.refuse(_BUSY, signal, _TRANSPORT)
            try:
                return await intake.take(body, signal, _TRANSPORT)
            except Exception as error:
                _logger.exception("an export failed because of a bug")
                return Refused(Trouble.INTERNAL, f"bug: {type(error).__name__}")

    async def export(body: bytes, context: _Context) -> bytes:
        answer = await answered(body)
        if isinstance(answer, Refused):
            await abort(context, answer)
        return export_response(answer, signal).SerializeToString()

    return export


async def abort(context: _Context, refused: Refused) -> NoReturn:
    """End a call with a refusal and its details, for both families of clients.

    Most read ``google.rpc.Status`` from ``grpc-status-details-bin``; the exporter of the
    OpenTelemetry SDK for Python reads RetryInfo from metadata of its own.
    """
    metadata = [("grpc-status-details-bin", status(refused).SerializeToString())]
    if refused.trouble is Trouble.UNAVAILABLE:
        metadata.append(("google.rpc.retryinfo-bin", retry_info().SerializeToString()))
    await context.abort(_BY_NUMBER[CODES[refused.trouble]], refused.message, tuple(metadata))
    raise AssertionError  # abort raises
