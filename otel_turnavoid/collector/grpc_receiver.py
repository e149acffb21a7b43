"""OTLP over gRPC: one ``Export`` method a signal.

The methods take raw bytes: with grpcio's generated deserializer an undecodable request would
be answered INTERNAL before we see it, where OTLP wants INVALID_ARGUMENT. No exception leaves a
method, because grpcio would turn it into UNKNOWN, upon which senders drop their data.

They are registered as methods that take a stream, which on the wire is the same: so they run
before the one message is read, and can refuse it, or give it up, while it takes no memory.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NoReturn

import grpc

from otel_turnavoid.collector.answer import Answer, Refused, Signal, Trouble
from otel_turnavoid.collector.budget import TOO_MANY_BYTES, Budget
from otel_turnavoid.collector.gates import grpc_caller
from otel_turnavoid.collector.intake import Intake
from otel_turnavoid.collector.rpc_status import CODES, export_response, retry_info, status

SERVICES: Final = {
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
}

_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}
_TRANSPORT: Final = "grpc"
_NO_MESSAGE: Final = Refused(Trouble.BAD_DATA, "the call ended without a message")

_Context = grpc.aio.ServicerContext[Any, Any]
_Export = Callable[[Any, _Context], Awaitable[bytes]]

_logger = logging.getLogger(__name__)


def handlers(
    intake: Intake, budget: Budget, signals: Iterable[Signal], patience_s: float
) -> dict[str, grpc.GenericRpcHandler[Any, Any]]:
    """Return the export services of the signals taken, by name; others are UNIMPLEMENTED.

    Args:
        intake: Answers exports.
        budget: What may be in hand at once.
        signals: What is taken.
        patience_s: How long a message may take to arrive.
    """
    return {
        SERVICES[signal]: grpc.method_handlers_generic_handler(
            SERVICES[signal],
            {
                "Export": grpc.stream_unary_rpc_method_handler(
                    _export(intake, budget, signal, patience_s)
                )
            },
        )
        for signal in signals
    }


def _export(intake: Intake, budget: Budget, signal: Signal, patience_s: float) -> _Export:
    async def received(context: _Context) -> bytes | Refused:
        body: Any = await budget.arrival(context.read, patience_s)
        # grpcio has answered already what was above its limit: then this answer goes nowhere.
        return body if isinstance(body, (bytes, Refused)) else _NO_MESSAGE

    async def answered(context: _Context) -> Answer:
        refused = budget.refusal()
        if refused is not None:
            return intake.refuse(refused, signal, _TRANSPORT)
        with budget.hold() as more:
            body = await received(context)
            if isinstance(body, Refused):
                return intake.refuse(body, signal, _TRANSPORT)
            if not more(len(body)):
                return intake.refuse(TOO_MANY_BYTES, signal, _TRANSPORT)
            return await intake.take(body, signal, _TRANSPORT, caller=grpc_caller())

    async def export(_messages: object, context: _Context) -> bytes:
        answer: Answer
        try:
            answer = await answered(context)
        except Exception as error:
            _logger.exception("an export failed because of a bug")
            answer = Refused(Trouble.INTERNAL, f"bug: {type(error).__name__}")
        if isinstance(answer, Refused):
            await abort(context, answer)
        return export_response(answer, signal).SerializeToString()

    return export


async def abort(
    context: _Context, refused: Refused, more: tuple[tuple[str, str], ...] = ()
) -> NoReturn:
    """End a call with a refusal and its details, for both families of clients.

    Most read ``google.rpc.Status`` from ``grpc-status-details-bin``; the exporter of the
    OpenTelemetry SDK for Python reads RetryInfo from metadata of its own.
    """
    metadata: list[tuple[str, str | bytes]] = [
        ("grpc-status-details-bin", status(refused).SerializeToString()),
        *more,
    ]
    if refused.trouble is Trouble.UNAVAILABLE:
        metadata.append(("google.rpc.retryinfo-bin", retry_info().SerializeToString()))
    await context.abort(_BY_NUMBER[CODES[refused.trouble]], refused.message, tuple(metadata))
    raise AssertionError  # abort raises
