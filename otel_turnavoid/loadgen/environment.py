"""Where a load goes, as the ``OTEL_EXPORTER_OTLP_…`` variables say it.

The variables of one signal win over the general ones, so that observations can carry the
observer's token and spans the agent's (``OTEL_EXPORTER_OTLP_LOGS_HEADERS``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward import Encoding, Signal, Target
from otel_turnavoid.forward.outcome import Sender

PROTOCOLS: Final = ("grpc", "http/protobuf", "http/json")
DEFAULTS: Final = {
    "grpc": "http://localhost:4317",
    "http/protobuf": "http://localhost:4318",
    "http/json": "http://localhost:4318",
}
_PREFIX: Final = "OTEL_EXPORTER_OTLP"
_PATHS: Final = {Signal.TRACES: "/v1/traces", Signal.LOGS: "/v1/logs"}


def senders(
    environment: Mapping[str, str],
    *,
    endpoint: str | None = None,
    protocol: str | None = None,
    timeout_s: float = 10.0,
) -> dict[Signal, Sender]:
    """Return who sends each signal; call it inside a running event loop, and close them.

    Args:
        environment: The variables.
        endpoint: Wins over them; a base URL.
        protocol: Wins over them; one of ``PROTOCOLS``.
        timeout_s: Of one attempt. The variables' timeout is left alone: SDKs do not agree on
            its unit.

    Raises:
        ConfigurationError: A variable cannot be used; names it.
    """
    return {
        signal: _sender(_Variables(environment, signal), signal, endpoint, protocol, timeout_s)
        for signal in Signal
    }


class _Variables:
    """The variables of one signal, and the general ones where it has none."""

    def __init__(self, environment: Mapping[str, str], signal: Signal) -> None:
        self._environment = environment
        self._signal = signal

    def name(self, what: str) -> str:
        """Return the variable that holds a value, or would."""
        of_signal = f"{_PREFIX}_{self._signal.value.upper()}_{what}"
        return of_signal if self._environment.get(of_signal, "").strip() else f"{_PREFIX}_{what}"

    def get(self, what: str) -> str | None:
        return self._environment.get(self.name(what), "").strip() or None

    def path(self, what: str) -> Path | None:
        text = self.get(what)
        return None if text is None else Path(text)

    def word(self, what: str, words: Mapping[str, bool], default: bool) -> bool:  # noqa: FBT001
        text = self.get(what)
        if text is None:
            return default
        if text.lower() not in words:
            raise ConfigurationError(
                self.name(what), f"wants one of {', '.join(words)}, got {text!r}"
            )
        return words[text.lower()]

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers: ``key=value`` with commas between, URL-encoded as in baggage."""
        text = self.get("HEADERS")
        found = []
        for entry in (text or "").split(","):
            name, equals, value = entry.partition("=")
            if not entry.strip():
                continue
            if not (equals and name.strip()):
                problem = "wants key=value, with commas between several; the rest is not shown"
                raise ConfigurationError(self.name("HEADERS"), problem)
            found.append((unquote(name.strip()), unquote(value.strip())))
        return tuple(found)


def _sender(
    variables: _Variables,
    signal: Signal,
    endpoint: str | None,
    protocol: str | None,
    timeout_s: float,
) -> Sender:
    spoken = protocol or variables.get("PROTOCOL") or "grpc"
    if spoken not in PROTOCOLS:
        problem = f"wants one of {', '.join(PROTOCOLS)}, got {spoken!r}"
        raise ConfigurationError(variables.name("PROTOCOL"), problem)
    place = endpoint or variables.get("ENDPOINT") or DEFAULTS[spoken]
    if "://" not in place and spoken != "grpc":
        problem = f"wants a URL such as {DEFAULTS[spoken]}, got {place!r}"
        raise ConfigurationError(variables.name("ENDPOINT"), problem)
    target = Target(
        endpoint=place if spoken == "grpc" else place.removesuffix(_PATHS[signal]),
        headers=variables.headers(),
        timeout_s=timeout_s,
        gzip=variables.word("COMPRESSION", {"none": False, "gzip": True}, default=False),
        encoding=Encoding.JSON if spoken == "http/json" else Encoding.PROTOBUF,
        # Without a scheme, as ``turnavoid observe`` reads it: in plain text unless told otherwise.
        insecure=variables.word(
            "INSECURE", {"true": True, "false": False}, default=variables.get("CERTIFICATE") is None
        ),
        ca_file=variables.path("CERTIFICATE"),
        cert_file=variables.path("CLIENT_CERTIFICATE"),
        key_file=variables.path("CLIENT_KEY"),
        user_agent="turnavoid-loadgen",
    )
    try:
        return _made(target, spoken)
    except ConfigurationError as error:
        raise ConfigurationError(_variable(error.key, variables), error.problem) from None


def _made(target: Target, protocol: str) -> Sender:
    if protocol == "grpc":
        from otel_turnavoid.forward.sender_grpc import GrpcSender  # noqa: PLC0415 - heavy

        return GrpcSender(target)
    from otel_turnavoid.forward.sender_http import HttpSender  # noqa: PLC0415 - heavy

    return HttpSender(target)


def _variable(key: str, variables: _Variables) -> str:
    """Return the variable that a key of a target comes from."""
    known = {
        "tls.ca_file": "CERTIFICATE",
        "tls.cert_file": "CLIENT_CERTIFICATE",
        "tls.key_file": "CLIENT_KEY",
        "tls": "CERTIFICATE",
        "endpoint": "ENDPOINT",
    }
    return variables.name(known.get(key, "HEADERS"))
