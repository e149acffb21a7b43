"""Sending one observation over OTLP, and knowing that it was accepted."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import (
    LogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers.observer import Observer
from otel_turnavoid.vocabulary import SERVICE_INSTANCE_ID, SERVICE_NAME

PROTOCOLS: Final = ("grpc", "http")
TIMEOUT_S: Final = 10.0

_logger = logging.getLogger("opentelemetry.exporter.otlp.turnavoid")

_GIVEN_UP: Final = "max retries or shutdown"
_REASONS: Final = tuple(
    map(re.compile, (r"error details: (.+)$", r"\[Errno -?\d+\] ([\w ]+)", r"reason: (.+)$"))
)
"""Where the SDK's exporters put the reason in what they log; otherwise the line is shown whole."""

_LOGS_PATH: Final = "/v1/logs"
_DEFAULTS: Final = {"grpc": "http://localhost:4317", "http": "http://localhost:4318"}
_ENVIRONMENT: Final = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def send(  # noqa: PLR0913 - knobs, each with a default
    run_id: str,
    labels: Iterable[str] | Mapping[str, int],
    *,
    observer_id: str,
    ordered: bool = False,
    endpoint: str | None = None,
    protocol: str = "grpc",
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> None:
    """State what this process saw of one run, under an identity of its own.

    ``service.name`` is the observer's id and ``service.instance.id`` a fresh UUID, whatever the
    environment says of other services. Headers, certificates and compression come from the
    ``OTEL_EXPORTER_OTLP_…`` variables, which the exporter reads itself.

    Args:
        run_id: The run's ``turnavoid.run.id``.
        labels: As for ``Observer.observe``.
        ordered: As for ``Observer.observe``.
        observer_id: The same for all runs that are to be compared.
        endpoint: Where to; default the environment's, else this machine.
        protocol: ``grpc`` or ``http``.
        timeout_s: Seconds for all attempts together.
        environment: Where the default endpoint is looked for; default none.

    Raises:
        UsageError: The run id, observer id or a label cannot be used.
        InputError: The observation was not accepted; says why.
    """
    observer = Observer(observer_id)
    named = endpoint or next(filter(None, map((environment or {}).get, _ENVIRONMENT)), None)
    place = _place(named or _DEFAULTS[protocol], protocol)
    identity = {SERVICE_NAME: observer.observer_id, SERVICE_INSTANCE_ID: str(uuid4())}
    with _said() as said:
        watched = _Watched(_exporter(place, protocol, timeout_s))
        provider = LoggerProvider(resource=Resource.create(identity), shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(watched))
        try:
            Observer(observer_id, logger_provider=provider).observe(run_id, labels, ordered=ordered)
        finally:
            provider.shutdown()
    if not watched.accepted:
        raise InputError(_bare(place), f"did not accept the observation: {_why(said)}")


class _Watched(LogRecordExporter):
    """An exporter that remembers whether everything was accepted."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.accepted = False

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result: LogRecordExportResult = self._exporter.export(batch)
        refused = getattr(self._exporter, "refused", "")
        self.accepted = result is LogRecordExportResult.SUCCESS and not refused
        if refused:
            _logger.error("%s", refused)
        return result

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _exporter(place: str, protocol: str, timeout_s: float) -> Any:
    """Return the SDK's own exporter, which also keeps what a partial success says as ``refused``.

    A receiver that takes the request and refuses the record in it answers with success; the
    SDK's exporters do not look at the rest of the answer.
    """
    return (_over_http if protocol == "http" else _over_grpc)(place, timeout_s)


def _over_http(place: str, timeout_s: float) -> Any:
    import requests  # noqa: PLC0415 - on use; what the SDK's exporter sends with
    from opentelemetry.exporter.otlp.proto.http._log_exporter import (  # noqa: PLC0415 - on use
        OTLPLogExporter,
    )

    class Session(requests.Session):
        """Trusts what the exporter was told to trust, whatever other programs should."""

        def merge_environment_settings(
            self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
        ) -> Any:
            # REQUESTS_CA_BUNDLE would win over OTEL_EXPORTER_OTLP_CERTIFICATE.
            verify = self.verify if verify in (None, True) else verify
            return super().merge_environment_settings(url, proxies, stream, verify, cert)

    session = Session()
    exporter: Any = OTLPLogExporter(endpoint=place, timeout=timeout_s, session=session)

    def read(response: requests.Response, *_: object, **__: object) -> None:
        if response.ok and response.headers.get("Content-Type") == "application/x-protobuf":
            exporter.refused = _refused(ExportLogsServiceResponse.FromString(response.content))

    session.hooks["response"].append(read)
    return exporter


def _over_grpc(place: str, timeout_s: float) -> Any:
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (  # noqa: PLC0415 - on use
        OTLPLogExporter,
    )

    class Exporter(OTLPLogExporter):
        """Keeps the answers that the SDK's exporter throws away."""

        refused = ""
        _client: Any

        def _initialize_channel_and_stub(self) -> None:
            super()._initialize_channel_and_stub()  # type: ignore[no-untyped-call] # untyped there
            export = self._client.Export

            def seen(*args: Any, **options: Any) -> ExportLogsServiceResponse:
                answer: ExportLogsServiceResponse = export(*args, **options)
                self.refused = _refused(answer)
                return answer

            self._client.Export = seen

    return Exporter(endpoint=place, timeout=timeout_s)


def _refused(answer: ExportLogsServiceResponse) -> str:
    partial = answer.partial_success
    return (partial.error_message or "it was refused") if partial.rejected_log_records else ""


@contextmanager
def _said() -> Iterator[list[str]]:
    """Collect what the exporters log, which is the only place where they say why."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(" ".join(record.getMessage().split()))

    exporters = logging.getLogger("opentelemetry.exporter")
    collect, propagated = Collect(), exporters.propagate
    exporters.addHandler(collect)
    exporters.propagate = False
    try:
        yield lines
    finally:
        exporters.removeHandler(collect)
        exporters.propagate = propagated


def _why(said: Sequence[str]) -> str:
    """Return the reason in what the exporters logged: the last one that is not the giving up."""
    if not said:
        # A logger of the SDK says the same thing only once in some seconds.
        return "no reason is given"
    line = next((line for line in reversed(said) if _GIVEN_UP not in line), "no answer in time")
    found = next(filter(None, (pattern.search(line) for pattern in _REASONS)), None)
    return found.group(1) if found else line


def _place(endpoint: str, protocol: str) -> str:
    """Return the whole address for a protocol.

    Raises:
        InputError: It has no host, or holds a user or password.
    """
    address = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InputError("", "an endpoint is a URL such as http://localhost:4317")
    if "@" in parts.netloc:
        raise InputError(
            "", "an endpoint holds no user or password: use OTEL_EXPORTER_OTLP_HEADERS"
        )
    if protocol == "http" and not parts.path.endswith(_LOGS_PATH):
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + _LOGS_PATH))
    return address


def _bare(place: str) -> str:
    return urlunsplit(urlsplit(place)._replace(query="", fragment=""))
