"""Where a backend is, and how to speak to it."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward.request import Encoding

RESPONSE_LIMIT: Final = 4 << 20
"""Bytes of an answer; the rest of a longer one is not read (OTLP 1.11)."""

_NAME: Final = re.compile(r"[0-9A-Za-z_.-]+")
_OURS: Final = frozenset(
    {
        *("connection", "content-encoding", "content-length", "content-type", "host"),
        *("te", "transfer-encoding", "user-agent"),
    }
)
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")


class Target(NamedTuple):
    """A backend."""

    endpoint: str
    """gRPC: ``host:port`` or a URL whose scheme decides about TLS. HTTP: the base URL."""
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 10.0
    """Of one attempt."""
    gzip: bool = True
    encoding: Encoding = Encoding.PROTOBUF
    """HTTP only; with JSON, what arrived as protobuf is written as JSON."""
    insecure: bool = False
    """gRPC without TLS, where the endpoint is no URL."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user_agent: str = "turnavoid"

    def __repr__(self) -> str:
        # Headers carry tokens.
        return f"Target({self.endpoint})"

    def file_bytes(self, key: str) -> bytes | None:
        """Return the content of ``ca_file``, ``cert_file`` or ``key_file``; None where not given.

        Raises:
            ConfigurationError: It cannot be read; the key is below the exporter's.
        """
        path: Path | None = getattr(self, key)
        try:
            return None if path is None else path.read_bytes()
        except OSError as error:
            problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
            raise ConfigurationError(f"tls.{key}", problem) from None

    def checked_headers(self) -> list[tuple[str, str]]:
        """Return the headers, names in lower case.

        Raises:
            ConfigurationError: One cannot be sent; its value is not shown.
        """
        for name, value in self.headers:
            ours = name.lower() in _OURS or name.lower().startswith("grpc-")
            if ours or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ConfigurationError(f"headers.{name}", "cannot be sent as a header")
        return [(name.lower(), value) for name, value in self.headers]

    def ssl_context(self) -> ssl.SSLContext:
        """Return how to speak TLS: verified, 1.2 or newer.

        Raises:
            ConfigurationError: A certificate or key cannot be read or used.
        """
        for key in ("ca_file", "cert_file", "key_file"):
            self.file_bytes(key)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (ssl.SSLError, OSError):
            raise ConfigurationError("tls", "a certificate or key cannot be used") from None
        return context
