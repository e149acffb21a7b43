"""The configuration file: YAML in the shape that users of the OpenTelemetry Collector know.

    receivers:  {otlp: {protocols: {grpc: , http: }}}
    processors: {turnavoid: {decision_wait: 10m}}
    exporters:  {prometheus: {endpoint: localhost:9464}}
    extensions: {ledger: {url: sqlite:///turnavoid.db}}
    service:
      extensions: [ledger]
      pipelines:
        traces:  {receivers: [otlp], processors: [turnavoid], exporters: []}
        logs:    {receivers: [otlp], processors: [turnavoid], exporters: []}
        metrics: {receivers: [turnavoid], exporters: [prometheus]}

A section that is left out has these defaults; a ``service`` that is left out connects whatever
is defined. Components may be named ``type/name``. Unlike in the collector, one receiver and one
processor serve a process: traces and logs have to meet in one ledger.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from otel_turnavoid.collector import yamltext
from otel_turnavoid.collector.components import (
    Exporter,
    ForwardingExporter,
    GrpcProtocol,
    HealthCheck,
    HttpProtocol,
    LedgerExtension,
    LogLevel,
    Logs,
    OtlpExporter,
    OtlpHttpExporter,
    OtlpReceiver,
    PagesExtension,
    Pipeline,
    PrometheusExporter,
    Protocols,
    Service,
)
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.environment import expand
from otel_turnavoid.collector.forwarding_check import forwarded
from otel_turnavoid.collector.judging import JudgingSection
from otel_turnavoid.collector.memory import MemoryLimiter
from otel_turnavoid.collector.problems import NotedError, left_out, part
from otel_turnavoid.collector.section import (
    Secret,
    Section,
    mapping,
    read,
    refuse_unknown,
    shown,
)
from otel_turnavoid.collector.securing import BearerTokenAuth, check_grpc, check_security
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import Settings

PROCESSOR: Final = "turnavoid"

_SectionT = TypeVar("_SectionT", bound=Section)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A checked configuration: what to run, with every default filled in."""

    receiver: OtlpReceiver
    traces: bool = True
    """Whether the receiver takes traces."""
    logs: bool = True
    """Whether the receiver takes log records."""
    settings: Settings = Settings()
    exporters: dict[str, Exporter] = {}
    """The exporters of the metrics pipelines by id."""
    forwarding: dict[str, dict[str, ForwardingExporter]] = {}
    """The exporters that traces and logs are forwarded to, by signal and id; verdicts too."""
    announcing: dict[str, dict[str, ForwardingExporter]] = {}
    """The exporters that verdicts alone go to, by signal and id."""
    ledger: LedgerExtension = LedgerExtension()
    logging: Logs = Logs()
    """How the process's own log is written."""
    shutdown_timeout: Duration = Service().shutdown_timeout
    """How long requests in flight and what waits for backends may take at the end."""
    pages: PagesExtension = PagesExtension()
    """The pages for people, where OTLP/HTTP is taken."""
    health: HealthCheck | None = None
    """Where probes ask; None answers none."""
    health_key: str = "extensions.health_check"
    """Where ``health`` stands in the file, for errors at start."""
    authenticators: dict[str, BearerTokenAuth] = {}
    """The extensions that know credentials by id."""
    memory: MemoryLimiter | None = None
    """Refuses requests when memory is short; None never looks."""
    memory_key: str = "processors.memory_limiter"
    """Where ``memory`` stands in the file, for errors at start."""
    receiver_key: str = "receivers.otlp"
    """Where the receiver stands in the file, for errors at start."""

    @property
    def sending(self) -> dict[str, dict[str, ForwardingExporter]]:
        """Every exporter of traces and logs by signal and id; verdicts go to all of them."""
        signals = {**self.forwarding, **self.announcing}
        return {
            signal: {**self.forwarding.get(signal, {}), **self.announcing.get(signal, {})}
            for signal in signals
        }

    @property
    def log_level(self) -> LogLevel:
        """How much is said."""
        return self.logging.level

    @property
    def ledger_url(self) -> Secret | None:
        """None leaves it to the command line, the environment and the default."""
        return self.ledger.url


_RECEIVERS: Final[Mapping[str, type[Section]]] = {"otlp": OtlpReceiver}
_PROCESSORS: Final[Mapping[str, type[Section]]] = {
    PROCESSOR: JudgingSection,
    "memory_limiter": MemoryLimiter,
}
_EXPORTERS: Final[Mapping[str, type[Section]]] = {
    "prometheus": PrometheusExporter,
    "otlp": OtlpExporter,
    "otlp_grpc": OtlpExporter,
    "otlphttp": OtlpHttpExporter,
    "otlp_http": OtlpHttpExporter,
}
_EXTENSIONS: Final[Mapping[str, type[Section]]] = {
    "ledger": LedgerExtension,
    "bearertokenauth": BearerTokenAuth,
    "pages": PagesExtension,
    "health_check": HealthCheck,
}
_SECTIONS: Final = dict.fromkeys(("receivers", "processors", "exporters", "extensions", "service"))
_SIGNALS: Final = ("traces", "logs", "metrics")


def load(path: str | os.PathLike[str] | None) -> Config:
    """Return the configuration in a file, or the defaults without one.

    Raises:
        ConfigurationError: The file cannot be read or used; one line that names file and key.
    """
    if path is None:
        return parse("")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            os.fspath(path), f"cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(os.fspath(path), "cannot be read: not UTF-8 text") from None
    try:
        return parse(text)
    except NotedError:
        raise
    except ConfigurationError as error:
        # Without a key the error speaks of the text as a whole: say of which.
        raise ConfigurationError(error.key or os.fspath(path), error.problem) from None


def parse(text: str, *, env: Mapping[str, str] | None = None) -> Config:
    """Return the configuration that ``text`` spells.

    Args:
        text: YAML; empty for the defaults.
        env: What ``${env:NAME}`` refers to; the process environment where left out.

    Raises:
        ConfigurationError: The configuration cannot be used; ``key`` is the dotted key.
    """
    document = yamltext.read(text)
    if document is not None and not isinstance(document, dict):
        raise ConfigurationError(
            "", f"a configuration is a mapping of sections, this is {shown(document)}"
        )
    given = expand(document or {}, os.environ if env is None else env)
    refuse_unknown(given, _SECTIONS, "")
    receivers = _components(given, "receivers", _RECEIVERS, {"otlp": _BOTH_PROTOCOLS})
    processors = _components(given, "processors", _PROCESSORS, {PROCESSOR: None})
    exporters = _components(given, "exporters", _EXPORTERS, {"prometheus": None})
    extensions = _components(given, "extensions", _EXTENSIONS, {})
    judging = _of_kind(processors, JudgingSection)
    limiters = _of_kind(processors, MemoryLimiter)
    _only_one(judging, "processors")
    _only_one(limiters, "processors")
    for name, limiter in limiters.items():
        with part():
            limiter.limits(f"processors.{name}")
    settings = Settings()
    with part():
        settings = next(iter(judging.values()), JudgingSection()).settings()
    ledgers = _of_kind(extensions, LedgerExtension)
    authenticators = _of_kind(extensions, BearerTokenAuth)
    _only_one(ledgers, "extensions")
    probes = _of_kind(extensions, HealthCheck)
    _only_one(probes, "extensions")
    with part():
        ledger = _checked(ledgers, settings)
    unsound = left_out()
    if given.get("service") is None:
        service = _everything(receivers, processors, exporters, extensions)
    else:
        service = read(Service, given["service"], "service")
    if left_out() > unsound:
        raise NotedError  # what is wrongly connected shows only where all of that is known
    _check_extensions(service, extensions)
    defined = {"receivers": receivers, "processors": processors, "exporters": exporters}
    used = _connect(service, defined)
    if left_out() > unsound:
        raise NotedError
    receiver_id = _receiver(used)
    metrics = {name: exporters[name] for name in used["metrics"]}
    forwarding = _sending(service, exporters, receivers[receiver_id])
    announcing = _sending(service, exporters, receivers[receiver_id], verdicts=True)
    if unsound:
        raise NotedError
    check_security(
        _protocols(receivers[receiver_id], f"receivers.{receiver_id}.protocols"),
        {f"exporters.{name}": exporter for name, exporter in metrics.items()},
        authenticators,
    )
    if left_out():
        raise NotedError
    return Config(
        receiver=receivers[receiver_id],
        authenticators=authenticators,
        pages=_pages(extensions),
        receiver_key=f"receivers.{receiver_id}",
        traces=bool(used["traces"]),
        logs=bool(used["logs"]),
        settings=settings,
        exporters=metrics,
        forwarding=forwarding,
        announcing=announcing,
        ledger=ledger,
        memory=next((limiters[name] for name in used["limiters"]), None),
        memory_key=f"processors.{next(iter(used['limiters']), 'memory_limiter')}",
        logging=service.telemetry.logs,
        shutdown_timeout=service.shutdown_timeout,
        health=next(iter(probes.values()), None),
        health_key=f"extensions.{next(iter(probes), 'health_check')}",
    )


_BOTH_PROTOCOLS: Final = {"protocols": {"grpc": None, "http": None}}


def _components(
    given: Mapping[str, Any],
    section: str,
    kinds: Mapping[str, type[Section]],
    default: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the components of a section by id (``type`` or ``type/name``)."""
    written = mapping(given[section], section) if section in given else default
    components = {}
    for name, value in written.items():
        kind = kinds.get(name.split("/")[0])
        before = left_out()
        with part():
            components[name] = _component(kind, value, f"{section}.{name}", kinds)
        if left_out() > before:
            components[name] = _stand_in(kind, section)
    return components


def _component(
    kind: type[Section] | None, value: Any, key: str, kinds: Mapping[str, type[Section]]
) -> Section:
    if kind is None:
        section = key.split(".", maxsplit=1)[0]
        problem = f"unknown {section.removesuffix('s')}; known: {', '.join(kinds)}"
        raise ConfigurationError(key, problem)
    component = read(kind, value, key)
    if isinstance(component, OtlpReceiver):
        _check_protocols(component, key)
    return component


def _stand_in(kind: type[Section] | None, section: str) -> Any:
    """Return what stands for a component that has problems, while others are looked for.

    So that those who name it are not blamed for it.
    """
    if section == "receivers":
        return OtlpReceiver(protocols=Protocols(grpc=GrpcProtocol(), http=HttpProtocol()))
    if section == "exporters" and kind is not PrometheusExporter:
        return OtlpExporter(endpoint="stand-in.invalid:4317")
    if kind is BearerTokenAuth:
        return BearerTokenAuth(tokens=())
    if kind is MemoryLimiter:
        return MemoryLimiter(limit_mib=1024)
    return None if kind is None else kind()


def _check_protocols(receiver: OtlpReceiver, key: str) -> None:
    if receiver.protocols.grpc is None and receiver.protocols.http is None:
        raise ConfigurationError(f"{key}.protocols", "wants at least one of grpc, http")
    if receiver.protocols.grpc is not None:
        check_grpc(receiver.protocols.grpc.tls, f"{key}.protocols.grpc")


def _protocols(receiver: OtlpReceiver, key: str) -> dict[str, Any]:
    """Return the protocols in use by their configuration key."""
    both = {f"{key}.grpc": receiver.protocols.grpc, f"{key}.http": receiver.protocols.http}
    return {name: protocol for name, protocol in both.items() if protocol is not None}


def _only_one(components: Mapping[str, Any], section: str) -> None:
    for name in list(components)[1:]:
        with part():
            kind = name.split("/")[0]
            raise ConfigurationError(f"{section}.{name}", f"only one {kind} can be defined")


def _checked(ledgers: Mapping[str, LedgerExtension], settings: Settings) -> LedgerExtension:
    for name, ledger in ledgers.items():
        ledger.check(f"extensions.{name}", settings)
        return ledger
    return LedgerExtension()


def _sending(
    service: Service,
    exporters: Mapping[str, Exporter],
    receiver: OtlpReceiver,
    *,
    verdicts: bool = False,
) -> dict[str, dict[str, ForwardingExporter]]:
    found: dict[str, dict[str, ForwardingExporter]] = {}
    for signal in ("traces", "logs"):
        with part():
            found[signal] = forwarded(service, signal, exporters, receiver, verdicts=verdicts)
    return found


def _pages(extensions: Mapping[str, Any]) -> PagesExtension:
    sections = _of_kind(extensions, PagesExtension)
    _only_one(sections, "extensions")
    for name, section in sections.items():
        section.check(f"extensions.{name}")
        return section
    return PagesExtension()


def _of_kind(components: Mapping[str, Any], kind: type[_SectionT]) -> dict[str, _SectionT]:
    return {name: each for name, each in components.items() if isinstance(each, kind)}


def _everything(
    receivers: Mapping[str, Any],
    processors: Mapping[str, Any],
    exporters: Mapping[str, Any],
    extensions: Mapping[str, Any],
) -> Service:
    """Return the service that connects whatever is defined."""
    spans = Pipeline(receivers=tuple(receivers), processors=tuple(processors))
    judging = tuple(_of_kind(processors, JudgingSection))
    metrics = Pipeline(receivers=judging, exporters=tuple(exporters))
    return Service(
        extensions=tuple(extensions),
        pipelines={"traces": spans, "logs": spans, "metrics": metrics},
    )


def _check_extensions(service: Service, defined: Mapping[str, Any]) -> None:
    for index, name in enumerate(service.extensions):
        with part():
            if name not in defined:
                raise _undefined(f"service.extensions[{index}]", name, "extensions", defined)
    for name in defined:
        # The default ledger in place of the one that is defined would be a silent surprise.
        with part():
            if name not in service.extensions:
                problem = f"does not name {name}, which extensions defines"
                raise ConfigurationError("service.extensions", problem)


def _connect(
    service: Service, defined: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, None]]:
    """Check every pipeline; return, in order, the receivers (for metrics: exporters) in use.

    Memory limiters in use are there as ``limiters``.
    """
    used: dict[str, dict[str, None]] = {each: {} for each in (*_SIGNALS, "limiters")}
    for name, pipeline in service.pipelines.items():
        with part():
            _connect_one(name, pipeline, defined, used)
    return used


def _connect_one(
    name: str,
    pipeline: Pipeline,
    defined: Mapping[str, Mapping[str, Any]],
    used: dict[str, dict[str, None]],
) -> None:
    key = f"service.pipelines.{name}"
    signal = name.split("/", maxsplit=1)[0]
    if signal not in _SIGNALS:
        raise ConfigurationError(key, f"unknown signal; known: {', '.join(_SIGNALS)}")
    if signal == "metrics":
        _check_metrics(pipeline, key, defined)
        used[signal].update(dict.fromkeys(pipeline.exporters))
    elif _of_kind(defined["processors"], JudgingSection).keys() & set(pipeline.receivers):
        _check_verdicts(pipeline, key, defined)
    else:
        _check_spans(pipeline, key, defined)
        used[signal].update(dict.fromkeys(pipeline.receivers))
        limiters = _of_kind(defined["processors"], MemoryLimiter)
        used["limiters"].update(
            dict.fromkeys(each for each in pipeline.processors if each in limiters)
        )


def _check_spans(pipeline: Pipeline, key: str, defined: Mapping[str, Mapping[str, Any]]) -> None:
    _names(pipeline.receivers, f"{key}.receivers", "receivers", defined["receivers"])
    _names(pipeline.processors, f"{key}.processors", "processors", defined["processors"])
    judging = _of_kind(defined["processors"], JudgingSection)
    if not judging.keys() & set(pipeline.processors):
        wanted = ", ".join(judging) or PROCESSOR
        raise ConfigurationError(f"{key}.processors", f"must name {wanted}")
    if pipeline.exporters:
        _names(pipeline.exporters, f"{key}.exporters", "exporters", defined["exporters"])


def _check_verdicts(pipeline: Pipeline, key: str, defined: Mapping[str, Mapping[str, Any]]) -> None:
    if set(pipeline.receivers) & set(defined["receivers"]):
        problem = "name a receiver or the processor: what is forwarded has the verdicts with it"
        raise ConfigurationError(f"{key}.receivers", problem)
    judging = _of_kind(defined["processors"], JudgingSection)
    _names(pipeline.receivers, f"{key}.receivers", "processors", judging)
    if pipeline.processors:
        raise ConfigurationError(f"{key}.processors", "verdicts are not processed; leave []")
    _names(pipeline.exporters, f"{key}.exporters", "exporters", defined["exporters"])


def _check_metrics(pipeline: Pipeline, key: str, defined: Mapping[str, Mapping[str, Any]]) -> None:
    judging = _of_kind(defined["processors"], JudgingSection)
    _names(pipeline.receivers, f"{key}.receivers", "processors", judging)
    if pipeline.processors:
        raise ConfigurationError(f"{key}.processors", "metrics are not processed; leave []")
    for index, name in enumerate(pipeline.exporters):
        if name not in defined["exporters"]:
            raise _undefined(f"{key}.exporters[{index}]", name, "exporters", defined["exporters"])


def _names(ids: tuple[str, ...], key: str, section: str, defined: Mapping[str, Any]) -> None:
    """Check that a list names at least one component, and only those that are defined."""
    if not ids:
        names = f"; {section} defines {', '.join(defined)}" if defined else ""
        raise ConfigurationError(key, f"must name one of {section}{names}")
    for index, name in enumerate(ids):
        with part():
            if name not in defined:
                raise _undefined(f"{key}[{index}]", name, section, defined)


def _undefined(key: str, name: str, section: str, defined: Mapping[str, Any]) -> ConfigurationError:
    known = ", ".join(defined) or "nothing"
    return ConfigurationError(key, f"{name} is not defined; {section} defines {known}")


def _receiver(used: Mapping[str, Mapping[str, None]]) -> str:
    """Return the id of the one receiver in use."""
    ids = list({**used["traces"], **used["logs"]})
    if not ids:
        raise ConfigurationError("service.pipelines", "wants a traces or logs pipeline")
    if len(ids) > 1:
        raise ConfigurationError(
            "service.pipelines", f"use one receiver for all; these use {', '.join(ids)}"
        )
    return ids[0]
