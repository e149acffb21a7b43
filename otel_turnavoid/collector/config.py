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
from typing import Any, Final

import msgspec

from otel_turnavoid.collector import yamltext
from otel_turnavoid.collector.components import (
    Exporter,
    LedgerExtension,
    LogLevel,
    OtlpExporter,
    OtlpHttpExporter,
    OtlpReceiver,
    Pipeline,
    PrometheusExporter,
    Service,
)
from otel_turnavoid.collector.environment import expand
from otel_turnavoid.collector.judging import JudgingSection
from otel_turnavoid.collector.section import (
    Section,
    mapping,
    read,
    refuse_unknown,
    shown,
)
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import Settings

PROCESSOR: Final = "turnavoid"


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
    ledger_url: str | None = None
    """None leaves it to the command line, the environment and the default."""
    log_level: LogLevel = LogLevel.INFO
    receiver_key: str = "receivers.otlp"
    """Where the receiver stands in the file, for errors at start."""


_RECEIVERS: Final[Mapping[str, type[Section]]] = {"otlp": OtlpReceiver}
_PROCESSORS: Final[Mapping[str, type[Section]]] = {PROCESSOR: JudgingSection}
_EXPORTERS: Final[Mapping[str, type[Section]]] = {
    "prometheus": PrometheusExporter,
    "otlp": OtlpExporter,
    "otlp_grpc": OtlpExporter,
    "otlphttp": OtlpHttpExporter,
    "otlp_http": OtlpHttpExporter,
}
_EXTENSIONS: Final[Mapping[str, type[Section]]] = {"ledger": LedgerExtension}
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
    _only_one(processors, "processors")
    _only_one(extensions, "extensions")
    if given.get("service") is None:
        service = _everything(receivers, processors, exporters, extensions)
    else:
        service = read(Service, given["service"], "service")
    _check_extensions(service, extensions)
    defined = {"receivers": receivers, "processors": processors, "exporters": exporters}
    used = _connect(service, defined)
    receiver_id = _receiver(used)
    judging = processors.get(PROCESSOR, JudgingSection())
    ledger = next(iter(extensions.values()), None)
    return Config(
        receiver=receivers[receiver_id],
        receiver_key=f"receivers.{receiver_id}",
        traces=bool(used["traces"]),
        logs=bool(used["logs"]),
        settings=judging.settings(),
        exporters={name: exporters[name] for name in used["metrics"]},
        ledger_url=ledger and str(ledger.url),
        log_level=service.telemetry.logs.level,
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
        key = f"{section}.{name}"
        if kind is None:
            raise ConfigurationError(
                key, f"unknown {section.removesuffix('s')}; known: {', '.join(kinds)}"
            )
        component = read(kind, value, key)
        if isinstance(component, OtlpReceiver):
            _check_protocols(component, key)
        components[name] = component
    return components


def _check_protocols(receiver: OtlpReceiver, key: str) -> None:
    if receiver.protocols.grpc is None and receiver.protocols.http is None:
        raise ConfigurationError(f"{key}.protocols", "wants at least one of grpc, http")


def _only_one(components: Mapping[str, Any], section: str) -> None:
    for name in list(components)[1:]:
        kind = name.split("/")[0]
        raise ConfigurationError(f"{section}.{name}", f"only one {kind} can be defined")


def _everything(
    receivers: Mapping[str, Any],
    processors: Mapping[str, Any],
    exporters: Mapping[str, Any],
    extensions: Mapping[str, Any],
) -> Service:
    """Return the service that connects whatever is defined."""
    spans = Pipeline(receivers=tuple(receivers), processors=tuple(processors))
    metrics = Pipeline(receivers=tuple(processors), exporters=tuple(exporters))
    return Service(
        extensions=tuple(extensions),
        pipelines={"traces": spans, "logs": spans, "metrics": metrics},
    )


def _check_extensions(service: Service, defined: Mapping[str, Any]) -> None:
    for index, name in enumerate(service.extensions):
        if name not in defined:
            raise _undefined(f"service.extensions[{index}]", name, "extensions", defined)
    for name in defined:
        # The default ledger in place of the one that is defined would be a silent surprise.
        if name not in service.extensions:
            raise ConfigurationError(
                "service.extensions", f"does not name {name}, which extensions defines"
            )


def _connect(
    service: Service, defined: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, None]]:
    """Check every pipeline; return, in order, the receivers (for metrics: exporters) in use."""
    used: dict[str, dict[str, None]] = {signal: {} for signal in _SIGNALS}
    for name, pipeline in service.pipelines.items():
        key = f"service.pipelines.{name}"
        signal = name.split("/")[0]
        if signal not in _SIGNALS:
            raise ConfigurationError(key, f"unknown signal; known: {', '.join(_SIGNALS)}")
        if signal == "metrics":
            _check_metrics(pipeline, key, defined)
            used[signal].update(dict.fromkeys(pipeline.exporters))
        else:
            _check_spans(pipeline, key, defined)
            used[signal].update(dict.fromkeys(pipeline.receivers))
    return used


def _check_spans(pipeline: Pipeline, key: str, defined: Mapping[str, Mapping[str, Any]]) -> None:
    _names(pipeline.receivers, f"{key}.receivers", "receivers", defined["receivers"])
    _names(pipeline.processors, f"{key}.processors", "processors", defined["processors"])
    if pipeline.exporters:
        _names(pipeline.exporters, f"{key}.exporters", "exporters", defined["exporters"])
        raise ConfigurationError(f"{key}.exporters", "spans and logs are not forwarded; leave []")


def _check_metrics(pipeline: Pipeline, key: str, defined: Mapping[str, Mapping[str, Any]]) -> None:
    _names(pipeline.receivers, f"{key}.receivers", "processors", defined["processors"])
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
